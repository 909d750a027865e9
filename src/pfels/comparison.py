"""Runs of several seeds as one row: means, spreads, and the worst privacy figure among them."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pfels.footing import Footing, on_footing
from pfels.processes import Report
from pfels.schemes import SCHEMES
from pfels.spreads import spread
from pfels.sweep import Point, grid, point_name, run_points


def compare(
    preset: str | Path = "demo",
    *,
    schemes: Sequence[str] = tuple(SCHEMES),
    seeds: Sequence[int] = (0, 1, 2),
    overrides: Mapping[str, Any] | None = None,
    jobs: int = 1,
    out: str | Path = "runs/compare",
    footing: Footing | None = None,
    report: Report = lambda index, done: None,
) -> dict[str, Any]:
    """The paper's kind of table: `{"schemes": {name: {accuracy, energy, subcarriers, airtime_s, privacy, …}}}`.

    With a `footing`, every private scheme is brought to that budget for the whole training.
    """
    points = grid(preset, {"scheme": schemes, "seed": seeds}, out=Path(out), overrides=overrides)
    if footing is not None:
        points = [_at(point, footing, Path(out)) for point in points]
    summaries = run_points(points, jobs=jobs, report=report)
    return {"schemes": {name: aggregate(s for s in summaries if s["scheme"] == name) for name in schemes}}


def _at(point: Point, footing: Footing, out: Path) -> Point:
    settings = {**point.settings, **footing.settings()}
    return Point(settings, on_footing(point.config, footing), out / point_name(settings))


def aggregate(summaries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One row from the summaries of runs that differ in their seed alone."""
    runs = list(summaries)
    return {
        "seeds": [run["seed"] for run in runs],
        "rounds": runs[0]["rounds"],
        "dimension": runs[0]["dimension"],
        "accuracy": spread([run["accuracy"] for run in runs]),
        "loss": spread([run["loss"] for run in runs]),
        "energy": spread([run["energy"] for run in runs]),
        "subcarriers": _common([run["subcarriers"] for run in runs]),
        "airtime_s": _common([run["airtime_s"] for run in runs]),
        "privacy": max((run["privacy"] for run in runs), key=_severity),
    }


def group_by_settings(points: Sequence[Point], summaries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for each combination of settings other than the seed, in the order of the grid."""
    groups: dict[str, tuple[dict[str, Any], list[Mapping[str, Any]]]] = {}
    for point, summary in zip(points, summaries, strict=True):
        settings = {key: value for key, value in point.settings.items() if key != "seed"}
        groups.setdefault(repr(settings), (settings, []))[1].append(summary)
    return [{"settings": settings, **aggregate(members)} for settings, members in groups.values()]


def _common(values: Sequence[float]) -> float:
    """The value of all runs, or their mean where a Poisson cohort makes them differ."""
    return values[0] if len(set(values)) == 1 else statistics.fmean(values)


def _severity(privacy: Mapping[str, Any]) -> float:
    epsilon = privacy["server"]["epsilon"]
    return float("inf") if epsilon is None else float(epsilon)
