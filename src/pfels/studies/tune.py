"""Each scheme's best settings out of one common grid, chosen on seeds that no result is reported for.

Every combination of the grid's values, of those settings that a scheme uses, is tried on the first tuning seed, and the
best FINALISTS of them on the others too. The most accurate on average over all tuning seeds is chosen.
"""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pfels.config.load import load_config
from pfels.config.scheme_settings import require_used_by_any, used_by
from pfels.config.tree import Config
from pfels.documents.studies import Tuned
from pfels.errors import InputError
from pfels.experiment.directory import point_name
from pfels.privacy.calibration import Budget
from pfels.runtime.arguments import axes_of, seed_values
from pfels.seeding import TUNING_SEEDS
from pfels.studies.budget import with_budget
from pfels.studies.sweep import Point, Watch, run_points, unwatched

FINALISTS = 4

Settings = dict[str, Any]
Axes = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Study:
    """Runs of one preset, file or config, on one budget if there is one, below one folder; `tuned` says whether with
    what the file has for single schemes."""

    base: str | Path | Config
    out: Path
    overrides: Mapping[str, Any]
    budget: Budget | None
    tuned: bool = True

    def point(self, settings: Mapping[str, Any], seed: int) -> Point:
        """The run of one seed with these settings, of which `scheme` is one."""
        named = {**settings, **({} if self.budget is None else self.budget.settings()), "seed": seed}
        changed = {**used_by(settings["scheme"], self.overrides), **settings, "seed": seed}
        config = load_config(self.base, changed, tuned=self.tuned)
        if self.budget is not None:
            config = with_budget(config, self.budget)
        derived = () if self.budget is None else ("privacy.epsilon",)
        return Point(named, config, self.out / point_name(named), derived)


@dataclass(frozen=True)
class Tuning:
    """The common grid, and the seeds on which settings are chosen."""

    axes: Axes
    seeds: Sequence[int] = TUNING_SEEDS

    def __post_init__(self) -> None:
        if not self.axes:
            raise InputError("--tune: needs a grid; the preset has none, so give --grid key=v1,v2")
        object.__setattr__(self, "axes", axes_of("--grid", self.axes))
        object.__setattr__(self, "seeds", tuple(seed_values(self.seeds, name="--tuning-seeds")))
        for key in self.axes:
            if key in ("scheme", "seed"):
                raise InputError(f"--grid {key}: cannot be tuned; {'use --schemes' if key == 'scheme' else 'leave it'}")

    def check(self, schemes: Sequence[str], seeds: Sequence[int]) -> None:
        """An InputError for a setting that no scheme uses, and for a seed that is tuned on and reported."""
        require_used_by_any(self.axes, schemes)
        shared = sorted(set(seeds) & set(self.seeds))
        if shared:
            raise InputError(f"--seeds: {shared[0]} is a tuning seed; report other seeds, or give --tuning-seeds")

    def combinations(self, scheme: str) -> list[Settings]:
        """What is tried for a scheme, in the order of the grid."""
        mine = used_by(scheme, self.axes)
        return [
            {"scheme": scheme, **dict(zip(mine, values, strict=True))} for values in itertools.product(*mine.values())
        ]

    def at_edge(self, chosen: Mapping[str, Any]) -> list[str]:
        """The keys whose chosen value is the smallest or largest of several numbers: the best may lie beyond. Beyond
        p = 1 nothing lies."""
        numbers = {key: values for key, values in self.axes.items() if len(values) > 1 and _are_numbers(values)}
        ends = {key: {min(values), max(values)} for key, values in numbers.items()}
        ends.get("compression.ratio", set()).discard(1.0)
        return [key for key in ends if chosen.get(key) in ends[key]]


def tune(
    study: Study,
    schemes: Sequence[str],
    tuning: Tuning,
    *,
    jobs: int,
    fresh: bool = False,
    watch: Watch = unwatched,
) -> dict[str, Tuned]:
    """The settings chosen for each scheme. Finished trials are read, unfinished ones continued, unless all are to be
    made anew, `fresh`."""
    accuracies_of = partial(_accuracies, study, jobs=jobs, fresh=fresh, watch=watch)
    first, others = tuning.seeds[:1], tuning.seeds[1:]
    tried = {name: tuning.combinations(name) for name in schemes}
    accuracies = accuracies_of([each for some in tried.values() for each in some], first)
    best = {
        name: sorted(some, key=lambda each: -accuracies[_key(each)][0])[: FINALISTS if others else 1]
        for name, some in tried.items()
    }
    further = accuracies_of([each for some in best.values() for each in some], others)
    chosen: dict[str, Tuned] = {}
    for name, some in best.items():
        mean = {_key(each): statistics.fmean(accuracies[_key(each)] + further[_key(each)]) for each in some}
        winner = max(some, key=lambda each: mean[_key(each)])
        settings = {key: value for key, value in winner.items() if key != "scheme"}
        chosen[name] = {
            "settings": settings,
            "trials": len(tried[name]),
            "at_edge": tuning.at_edge(settings),
            "accuracy": mean[_key(winner)],
            "seeds": list(tuning.seeds),
        }
    return chosen


def _accuracies(
    study: Study, some: Sequence[Settings], seeds: Sequence[int], *, jobs: int, fresh: bool, watch: Watch
) -> dict[str, list[float]]:
    """The accuracy of each of these settings on each seed."""
    points = [study.point(each, seed) for each in some for seed in seeds]
    with watch(points) as report:
        found = iter(run_points(points, jobs=jobs, fresh=fresh, report=report))
    return {_key(each): [next(found)["accuracy"] for _ in seeds] for each in some}


def _key(settings: Mapping[str, Any]) -> str:
    return repr(sorted(settings.items()))


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
