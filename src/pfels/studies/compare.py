"""Schemes side by side, over several seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfels.config.tree import Config
from pfels.documents.studies import AggregateRow, Comparison
from pfels.errors import InputError
from pfels.experiment.directory import point_name
from pfels.privacy.calibration import Budget
from pfels.schemes.registry import usable_schemes
from pfels.studies.aggregate import aggregate
from pfels.studies.budget import set_by_budget, with_budget
from pfels.studies.sweep import Point, Watch, grid, run_points, unwatched


def compare(
    base: str | Path | Config = "demo",
    *,
    schemes: Sequence[str] | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    overrides: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    jobs: int = 1,
    out: str | Path = "runs/compare",
    watch: Watch = unwatched,
) -> Comparison:
    """Run several schemes, all by default, over several seeds: one row per scheme, as in the paper's tables.

    `base` is a preset, a TOML file or a config. With a `budget`, every scheme whose noise a budget sets is brought to
    it for the whole training; `on_budget` of a row says whether it was.

    >>> import pfels, tempfile
    >>> found = pfels.compare("demo", schemes=["pfels"], seeds=[0], overrides={"rounds": 2}, out=tempfile.mkdtemp())
    >>> found["schemes"]["pfels"]["subcarriers"]
    1446
    """
    names = usable_schemes() if schemes is None else list(schemes)
    if not names or not seeds:
        raise InputError(f"{'seeds' if names else 'schemes'}: must be at least one")
    points = grid(base, {"scheme": names, "seed": seeds}, out=Path(out), overrides=overrides)
    if budget is not None:
        points = [_on_budget(point, budget, Path(out)) for point in points]
    with watch(points) as report:
        summaries = run_points(points, jobs=jobs, report=report)
    rows: dict[str, AggregateRow] = {}
    for name in names:
        rows[name] = aggregate(s for s in summaries if s["scheme"] == name)
        if budget is not None:
            rows[name]["on_budget"] = set_by_budget(name)
    return {"schemes": rows}


def _on_budget(point: Point, budget: Budget, out: Path) -> Point:
    settings = {**point.settings, **budget.settings()}
    return Point(settings, with_budget(point.config, budget), out / point_name(settings))
