"""Runs of several seeds as one row: means, spreads, and the worst privacy figure among them."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pfels.config import Config
from pfels.errors import InputError
from pfels.footing import Footing, on_footing
from pfels.naming import point_name
from pfels.processes import Report
from pfels.schemes import SCHEMES
from pfels.spreads import spread
from pfels.sweep import Point, grid, run_points


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
    if isinstance(preset, Config):
        raise InputError("preset: must be a preset's name or a TOML file; Config.to_toml writes one")
    if not schemes or not seeds:
        raise InputError(f"{'seeds' if schemes else 'schemes'}: must be at least one")
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
        "privacy": _worst([run["privacy"] for run in runs]),
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


def _worst(seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The worst of every figure by itself: the seed that costs most against the server may not be the one that costs
    most against an outsider."""
    worst = dict(seeds[0])
    for key in ("claimed", "exact_per_round", "server", "outsider"):
        figures = [privacy[key] for privacy in seeds if privacy.get(key) is not None]
        if figures:
            worst[key] = max(figures, key=_severity)
    least = [privacy["noise_multiplier_min"] for privacy in seeds if privacy.get("noise_multiplier_min") is not None]
    if least:
        worst["noise_multiplier_min"] = min(least)
    if worst.get("claimed") is not None:
        worst |= {f"claimed_{key}": worst["claimed"][key] for key in ("epsilon", "valid")}
    return worst


def _severity(figure: Mapping[str, Any]) -> float:
    return float("inf") if figure["epsilon"] is None else float(figure["epsilon"])
