"""Runs of several seeds as one row: means, spreads, and the worst privacy figure among them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.experiment.directory import point_name
from pfels.privacy.calibration import Footing
from pfels.runtime.processes import Report
from pfels.schemes.registry import SCHEMES
from pfels.studies.aggregate import aggregate
from pfels.studies.budget import on_footing
from pfels.studies.sweep import Point, grid, run_points


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
