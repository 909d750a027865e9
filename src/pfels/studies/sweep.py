"""Many runs: grids and seeds, side by side in processes, each in a directory named by what sets it apart."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pfels.config.load import load_config
from pfels.config.scheme_keys import for_scheme, require_known
from pfels.config.tree import NEUTRAL_KEYS, Config
from pfels.errors import InputError, RunError
from pfels.experiment.directory import RunDirectory, check, point_name
from pfels.experiment.link import link_system
from pfels.experiment.loop import run
from pfels.experiment.setup import build
from pfels.runtime.distributed import launched
from pfels.runtime.processes import Report, side_by_side
from pfels.schemes.registry import load_scheme
from pfels.studies.aggregate import aggregate


@dataclass(frozen=True)
class Point:
    """One run of a sweep: what sets it apart, its whole config, and its directory."""

    settings: Mapping[str, Any]
    config: Config
    path: Path


def grid(
    preset: str | Path, axes: Mapping[str, Sequence[Any]], *, out: Path, overrides: Mapping[str, Any] | None = None
) -> list[Point]:
    """Every combination of the axes' values on top of a preset, each checked before any of them runs."""
    points = []
    for values in itertools.product(*axes.values()):
        settings = dict(zip(axes, values, strict=True))
        shared = for_scheme(overrides or {}, settings["scheme"]) if "scheme" in settings else overrides or {}
        config = load_config(preset, {**shared, **settings})
        require_known({**shared, **settings}, config.scheme)
        points.append(Point(settings, config, out / point_name(settings)))
    return points


@dataclass(frozen=True)
class Shard:
    """The part of a grid that one of `count` jobs takes: every count-th point from the index-th on, counted from 1."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """The shard that `2/8` means."""
        index, slash, count = text.partition("/")
        whole = slash and index.isdecimal() and count.isdecimal() and len(count) < 10 and len(index) < 10
        if not (whole and 1 <= int(index) <= int(count)):
            raise InputError(f"--shard = {text!r}: must read i/n with 1 ≤ i ≤ n, such as 2/8")
        return cls(int(index), int(count))

    def of(self, points: Sequence[Point]) -> list[Point]:
        """This shard's points. The shards of a grid share no point and leave none out."""
        return list(points[self.index - 1 :: self.count])


def run_points(
    points: Sequence[Point], *, jobs: int, report: Report = lambda index, done: None
) -> list[dict[str, Any]]:
    """The summaries of all points, in order. Finished points are read, unfinished ones resumed, `jobs` at a time.

    The results do not depend on `jobs`. Everything that can be wrong with a point is looked for before the first
    one starts.
    """
    todo = {}
    for index, point in enumerate(points):
        if check(point.path, point.config) and RunDirectory(point.path, point.config).finished() is not None:
            report(index, point.config.rounds)
        else:
            todo[index] = point
    _look_for_faults([point.config for point in todo.values()])
    if jobs <= 1 or len(todo) <= 1:
        for index, point in todo.items():
            _run(point, None, partial(report, index))
    else:
        side_by_side(_run, todo, jobs=min(jobs, len(todo)), report=report)
    return [_summary(point) for point in points]


def _look_for_faults(configs: Sequence[Config]) -> None:
    """Build what each data set and network needs once, and let every scheme settle its first round."""
    if launched():
        raise InputError("torchrun: shares one run out, with `pfels run`; several runs go side by side with --jobs")
    dimensions: dict[Any, int] = {}
    for config in {c.digest(leaving_out={*NEUTRAL_KEYS, "seed"}): c for c in configs}.values():
        kind = (config.data, config.model)
        if kind in dimensions:
            load_scheme(config.scheme).prepare(link_system(config, dimension=dimensions[kind]), 0)
        else:
            dimensions[kind] = build(config).network.dimension


def _run(point: Point, threads: int | None, done: Callable[[int], None]) -> None:
    started = (point.path / "config.toml").exists()
    run(point.config, point.path, resume=started, workers=threads, progress=lambda record: done(record["round"] + 1))


def _summary(point: Point) -> dict[str, Any]:
    summary = RunDirectory(point.path, point.config).summary
    if summary is None:
        raise RunError(f"{point.path}: did not finish")
    return summary


def group_by_settings(points: Sequence[Point], summaries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for each combination of settings other than the seed, in the order of the grid."""
    groups: dict[str, tuple[dict[str, Any], list[Mapping[str, Any]]]] = {}
    for point, summary in zip(points, summaries, strict=True):
        settings = {key: value for key, value in point.settings.items() if key != "seed"}
        groups.setdefault(repr(settings), (settings, []))[1].append(summary)
    return [{"settings": settings, **aggregate(members)} for settings, members in groups.values()]
