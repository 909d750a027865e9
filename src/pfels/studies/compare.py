"""Schemes side by side, over several seeds, each as the preset has it or at its own best settings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pfels.config.load import changes, tuning_grid
from pfels.config.scheme_settings import require_used_by_any, uses
from pfels.config.tree import Config
from pfels.documents.run import Summary
from pfels.documents.studies import AggregateRow, Comparison, Tuned
from pfels.errors import InputError
from pfels.privacy.accountant import at_another_delta
from pfels.privacy.assumptions import tuned_epsilon
from pfels.privacy.calibration import Budget
from pfels.runtime.arguments import axes_of, called, instance, path_of, seed_values, whole
from pfels.schemes.registry import chosen_schemes
from pfels.seeding import TUNING_SEEDS
from pfels.studies.aggregate import aggregate
from pfels.studies.budget import set_by_budget
from pfels.studies.sweep import Watch, run_points, unwatched
from pfels.studies.tune import Study, Tuning, tune
from pfels.studies.verdicts import pairs

SMALL_DELTA = 1e-5


def compare(
    base: str | Path | Config = "demo",
    *,
    schemes: Sequence[str] | str | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    overrides: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    tuning: Tuning | None = None,
    jobs: int = 1,
    out: str | Path = "runs/compare",
    fresh: bool = False,
    watch: Watch = unwatched,
) -> Comparison:
    """Run several schemes, all by default, over several seeds: one row per scheme, and each pair of them compared.

    `base` is a preset, a TOML file or a config. `schemes` are names in a list, or in one text with commas in between;
    `seeds` are different whole numbers in a list, a range or an array. With a `budget`, every scheme whose noise a
    budget sets is brought to it for the whole training; `on_budget` of a row says whether it was. With `tuning` each
    scheme has the settings that are best for it out of one common grid, chosen on other seeds: `tuning_of(base)` has
    the preset's grid. In a script, a call with `jobs` above 1 belongs under `if __name__ == "__main__":`, since worker
    processes import the script.

    Finished runs are read; those of a scheme from elsewhere that was edited since are refused, and `fresh` makes all
    runs anew.

    >>> import pfels, tempfile
    >>> found = pfels.compare("demo", schemes=["pfels"], seeds=[0], overrides={"rounds": 2}, out=tempfile.mkdtemp())
    >>> found["schemes"]["pfels"]["subcarriers"]
    1446
    """
    names, changed = chosen_schemes(schemes), changes(overrides)
    seeds, jobs, place = seed_values(seeds), whole("jobs", jobs, minimum=1), path_of("out", out)
    if budget is not None:
        instance("budget", budget, Budget, such_as="pfels.Budget(8.0, 'server')")
    called(watch=watch)
    require_used_by_any(changed, names)
    study, chosen = Study(base, place, changed, budget, tuned=tuning is None), dict[str, Tuned]()
    if tuning is not None:
        instance("tuning", tuning, Tuning, such_as="pfels.tuning_of('demo')").check(names, seeds)
        trials = replace(study, out=Path(f"{out}-tuning"))
        chosen = tune(trials, names, tuning, jobs=jobs, fresh=fresh, watch=watch)
    settings = [{"scheme": name, **(chosen[name]["settings"] if chosen else {})} for name in names]
    points = [study.point(each, seed) for each in settings for seed in seeds]
    with watch(points) as report:
        summaries = run_points(points, jobs=jobs, fresh=fresh, report=report)
    runs = {name: summaries[i * len(seeds) : (i + 1) * len(seeds)] for i, name in enumerate(names)}
    found = compared(runs)
    for name, row in found["schemes"].items():
        if budget is not None:
            row["on_budget"] = set_by_budget(name)
        if chosen:
            price = tuned_epsilon(row["privacy"]["server"], trials=chosen[name]["trials"])
            row["tuned"] = {**chosen[name], "epsilon_on_same_data": price}
    return found


def compared(runs: Mapping[str, Sequence[Summary]]) -> Comparison:
    """One row per scheme from the summaries of its seeds, which are the same for all, and every two schemes."""
    rows = {name: _row(some) for name, some in runs.items()}
    return {"schemes": rows, "pairs": pairs({name: [run["accuracy"] for run in some] for name, some in runs.items()})}


def tuning_of(
    base: str | Path | Config,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    overrides: Mapping[str, Any] | None = None,
    schemes: Sequence[str] | None = None,
    seeds: Sequence[int] = TUNING_SEEDS,
) -> Tuning:
    """A common grid to choose from: the one that is given, or the `[tune]` of a preset or file, without the keys that
    are set by hand and without those that none of the schemes uses.

    >>> tuning_of("demo", schemes=["fedavg"]).axes["server.learning_rate"]
    [0.1, 0.25, 0.5, 1.0]
    """
    fixed = set(changes(overrides))
    if grid is not None:
        grid = axes_of("grid", grid)
        for key in grid:
            if key in fixed:
                raise InputError(f"--grid {key}: is set by hand as well (-s); leave one of them out")
        return Tuning(grid, seeds)
    names = chosen_schemes(schemes)
    axes = {key: values for key, values in tuning_grid(base).items() if key not in fixed}
    axes = {key: values for key, values in axes.items() if any(uses(name, key) for name in names)}
    return Tuning(axes, seeds)


def _row(runs: Sequence[Summary]) -> AggregateRow:
    row = aggregate(runs)
    row["server_small_delta"] = at_another_delta(row["privacy"]["server"], delta=SMALL_DELTA)
    return row
