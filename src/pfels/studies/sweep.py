"""Many runs: grids and seeds, in parallel processes, each in a directory named by what sets it apart."""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pfels.config.load import changes, load_config, parse_value
from pfels.config.scheme_settings import require_used_by_any, used_by
from pfels.config.tree import NEUTRAL_KEYS, Config
from pfels.documents.run import Summary
from pfels.documents.studies import Sweep, SweepRow
from pfels.errors import InputError, RunError, quoted, shown
from pfels.experiment.code import foreign_code
from pfels.experiment.directory import RunDirectory, check, point_name
from pfels.experiment.link import link_of
from pfels.experiment.loop import run
from pfels.experiment.setup import build, require_fitting
from pfels.experiment.standing import Standing
from pfels.runtime.arguments import axes_of, called, path_of, seed_values, whole
from pfels.runtime.distributed import launched
from pfels.runtime.lazy_torch import torch
from pfels.runtime.processes import Report, run_jobs
from pfels.schemes.registry import scheme_entry
from pfels.schemes.release import require_sound
from pfels.studies.aggregate import aggregate

Watch = Callable[["Sequence[Point]"], AbstractContextManager[Report[Standing]]]


def unwatched(points: "Sequence[Point]") -> AbstractContextManager[Report[Standing]]:
    """Report no progress."""
    return nullcontext(lambda index, standing: None)


@dataclass(frozen=True)
class Point:
    """One run of a sweep: what sets it apart, its whole config, its directory, and the settings that were derived."""

    settings: Mapping[str, Any]
    config: Config
    path: Path
    derived: Collection[str] = ()


def grid(
    base: str | Path | Config,
    axes: Mapping[str, Sequence[Any]],
    *,
    out: Path,
    overrides: Mapping[str, Any] | None = None,
) -> list[Point]:
    """Every combination of the axes' values on top of a preset or a config, each checked before any of them runs.

    Where the scheme is an axis, each scheme takes those of the overrides that it uses.
    """
    shared = dict(overrides or {})
    if "scheme" in axes:
        for name in axes["scheme"]:
            scheme_entry(name)
        require_used_by_any(shared, axes["scheme"])
    points = []
    for values in itertools.product(*axes.values()):
        settings = dict(zip(axes, values, strict=True))
        mine = used_by(settings["scheme"], shared) if "scheme" in settings else shared
        points.append(Point(settings, load_config(base, {**mine, **settings}), out / point_name(settings)))
    return points


def parse_axes(texts: Sequence[str]) -> dict[str, list[Any]]:
    """The axes that `--grid key=v1,v2` options describe."""
    axes: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or key == "seed":
            raise InputError(f"--grid {shown(text)}: must read key=v1,v2 (seeds go to --seeds)")
        if key in axes:
            raise InputError(f"--grid {shown(text)}: {shown(key)} has an axis already; give all its values there")
        items = [item.strip() for item in values.split(",")]
        axes[key] = [parse_value(item) for item in items]
        if not all(items) or len({repr(value) for value in axes[key]}) < len(items):
            raise InputError(f"--grid {shown(text)}: must be distinct values separated by commas")
    return axes


def sweep(
    base: str | Path | Config,
    axes: Mapping[str, Sequence[Any]],
    *,
    seeds: Sequence[int] = (0,),
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    jobs: int = 1,
    out: str | Path = "runs/sweep",
    fresh: bool = False,
    watch: Watch = unwatched,
) -> Sweep:
    """Run a grid of settings over several seeds; finished runs are read, unfinished ones continued.

    Runs of a scheme from elsewhere that was edited since are refused; `fresh` makes all runs anew.
    `part` = "2/8" runs the second of eight parts of the grid. In a script, a call with `jobs` above 1 belongs under
    `if __name__ == "__main__":`, since worker processes import the script.

    >>> import pfels, tempfile
    >>> out = tempfile.mkdtemp()
    >>> found = pfels.sweep("demo", {"compression.ratio": [0.1, 0.3]}, overrides={"rounds": 2}, out=out)
    >>> [point["settings"] for point in found["points"]]
    [{'compression.ratio': 0.1}, {'compression.ratio': 0.3}]
    """
    table, numbers, place = axes_of("axes", axes), seed_values(seeds), path_of("out", out)
    jobs, changed = whole("jobs", jobs, minimum=1), changes(overrides)
    if "seed" in table:
        raise InputError("axes: seed: seeds go to seeds, such as seeds=[0, 1, 2]")
    called(watch=watch)
    everything = grid(base, {**table, "seed": numbers}, out=place, overrides=changed)
    mine = None if part is None else GridPart.parse(part)
    points = everything if mine is None else mine.of(everything)
    with watch(points) as report:
        summaries = run_points(points, jobs=jobs, fresh=fresh, report=report)
    found: Sweep = {"points": group_by_settings(points, summaries)}
    if mine is not None:
        found["shard"] = {
            "index": mine.index, "count": mine.count, "runs": len(points), "of_runs": len(everything)
        }  # fmt: skip
    return found


@dataclass(frozen=True)
class GridPart:
    """The part of a grid that one of `count` jobs runs: every count-th point from the index-th on, counted from 1."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "GridPart":
        """The part that `2/8` means."""
        index, slash, count = text.partition("/") if isinstance(text, str) else ("", "", "")
        whole = slash and index.isdecimal() and count.isdecimal() and len(count) < 10 and len(index) < 10
        if not (whole and 1 <= int(index) <= int(count)):
            raise InputError(f"--shard = {quoted(text)}: must read i/n with 1 ≤ i ≤ n, such as 2/8")
        return cls(int(index), int(count))

    def of(self, points: Sequence[Point]) -> list[Point]:
        """This part's points. The parts of a grid share no point and leave none out."""
        return list(points[self.index - 1 :: self.count])


def run_points(
    points: Sequence[Point],
    *,
    jobs: int,
    fresh: bool = False,
    report: Report[Standing] = lambda index, standing: None,
) -> list[Summary]:
    """The summaries of all points, in order. Finished points are read, unfinished ones resumed, `jobs` at a time.
    `fresh` deletes what is stored of them first.

    The results do not depend on `jobs`. Everything that can be wrong with a point is looked for before the first
    one starts.
    """
    configs = {(point.config.scheme, point.config.effects): point.config for point in points}
    code = {key: foreign_code(config) for key, config in configs.items()}
    directories = [RunDirectory(point.path, point.config) for point in points]
    todo: dict[int, Point] = {}
    done: dict[int, Summary] = {}
    for index, (point, directory) in enumerate(zip(points, directories, strict=True)):
        if not fresh:
            directory.require_same_code(code[point.config.scheme, point.config.effects], derived=point.derived)
        if not fresh and check(point.path, point.config) and (found := directory.finished()):
            done[index] = _whole(found[0], point.path)
        else:
            todo[index] = point
    _look_for_faults([point.config for point in todo.values()], jobs=min(jobs, len(todo)))
    for point, directory in zip(points, directories, strict=True):
        if fresh:
            directory.discard(derived=point.derived)
    for index, summary in done.items():
        report(index, Standing.of(summary))
    if jobs <= 1 or len(todo) <= 1:
        for index, point in todo.items():
            _run(point, None, partial(report, index))
    else:
        run_jobs(_run, todo, jobs=min(jobs, len(todo)), report=report)
    for directory in directories:  # one that was edited meanwhile, or is another in a worker process
        directory.require_same_code(code[directory.config.scheme, directory.config.effects])
    return [done[index] if index in done else _summary(point) for index, point in enumerate(points)]


def _look_for_faults(configs: Sequence[Config], *, jobs: int) -> None:
    """Build each data set and network once, and let every scheme plan its first round."""
    if launched():
        raise InputError("torchrun: is for one run, with `pfels run`; --jobs runs several in parallel")
    dimensions: dict[Any, int] = {}
    for config in {c.digest(leaving_out={*NEUTRAL_KEYS, "seed"}): c for c in configs}.values():
        kind = (config.data, config.model)
        if kind in dimensions:
            link = link_of(config, dimension=dimensions[kind])
            start = torch.zeros(link.setting.dimension)
            require_sound(link.scheme, replace(link.draws, start=start), start)
        else:
            dimensions[kind] = build(config).network.dimension
            require_fitting(config, dimensions[kind], runs=jobs)


def _run(point: Point, threads: int | None, tell: Callable[[Standing], None]) -> None:
    started = (point.path / "config.toml").exists()
    run(
        point.config, point.path, resume=started, workers=threads, begin=lambda rounds: tell(Standing(rounds)),
        progress=lambda record: tell(Standing.after(record)),
    )  # fmt: skip


def _summary(point: Point) -> Summary:
    found = RunDirectory(point.path, point.config).finished()
    if found is None:
        raise RunError(f"{point.path}: did not finish")
    return _whole(found[0], point.path)


def _whole(summary: Summary, path: Path) -> Summary:
    """The summary, unless the run was stopped: its figures are not those of the rounds that others have."""
    if "stopped" in summary:
        rounds, planned = summary["rounds"], summary["stopped"]["planned_rounds"]
        raise InputError(
            f"{path}: holds a run that was stopped after {rounds} of {planned} rounds; choose another --out, or make "
            "it anew with --fresh (in Python, fresh=True)"
        )
    return summary


def group_by_settings(points: Sequence[Point], summaries: Sequence[Summary]) -> list[SweepRow]:
    """One row for each combination of settings other than the seed, in the order of the grid."""
    groups: dict[str, tuple[dict[str, object], list[Summary]]] = {}
    for point, summary in zip(points, summaries, strict=True):
        settings = {key: value for key, value in point.settings.items() if key != "seed"}
        groups.setdefault(repr(settings), (settings, []))[1].append(summary)
    return [{"settings": settings, **aggregate(members)} for settings, members in groups.values()]
