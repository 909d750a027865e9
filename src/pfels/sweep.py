"""Many runs: grids and seeds, side by side in processes, each in a directory named by what sets it apart."""

import hashlib
import itertools
import multiprocessing
import os
import re
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

from pfels.assembly import build
from pfels.config import Config, load_config
from pfels.errors import InputError, RunError
from pfels.experiment import run
from pfels.store import RunDirectory, check

Report = Callable[[int, int], None]  # point's index, rounds done


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
        config = load_config(preset, {**(overrides or {}), **settings})
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


def point_name(settings: Mapping[str, Any]) -> str:
    """A directory name that reads like the settings: `scheme=pfels,seed=0`."""
    name = ",".join(f"{key}={value}" for key, value in settings.items())
    safe = re.sub(r"[^A-Za-z0-9=,._+-]", "_", name)[:150]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def run_points(
    points: Sequence[Point], *, jobs: int, report: Report = lambda index, done: None
) -> list[dict[str, Any]]:
    """The summaries of all points, in order. Finished points are read, unfinished ones resumed, `jobs` at a time.

    The results do not depend on `jobs`. Everything that can be wrong with a point is looked for before the first
    one starts.
    """
    todo = []
    for index, point in enumerate(points):
        if check(point.path, point.config) and RunDirectory(point.path, point.config).finished() is not None:
            report(index, point.config.rounds)
        else:
            todo.append(index)
    for config in {(c.data, c.model): c for c in (points[index].config for index in todo)}.values():
        build(config)
    if jobs <= 1 or len(todo) <= 1:
        for index in todo:
            _run_point(points[index], None, partial(report, index))
    else:
        _in_processes(points, todo, jobs=min(jobs, len(todo)), report=report)
    return [_summary(point) for point in points]


def _run_point(point: Point, workers: int | None, done: Callable[[int], None]) -> None:
    started = (point.path / "config.toml").exists()
    run(point.config, point.path, resume=started, workers=workers, progress=lambda record: done(record["round"] + 1))


def _summary(point: Point) -> dict[str, Any]:
    summary = RunDirectory(point.path, point.config).summary
    if summary is None:
        raise RunError(f"{point.path}: did not finish")
    return summary


def _in_processes(points: Sequence[Point], todo: Sequence[int], *, jobs: int, report: Report) -> None:
    context = multiprocessing.get_context("spawn")
    tasks: SimpleQueue[int | None] = context.SimpleQueue()
    news: SimpleQueue[tuple[str, int, Any]] = context.SimpleQueue()
    for index in [*todo, *[None] * jobs]:
        tasks.put(index)
    threads = max(1, len(os.sched_getaffinity(0)) // jobs)
    workers = [context.Process(target=_work, args=(list(points), tasks, news, threads)) for _ in range(jobs)]
    try:
        with _interrupts_ignored():  # the workers inherit this: Ctrl-C reaches them through the parent alone
            for worker in workers:
                worker.start()
        _listen(workers, news, points, report)
    except BaseException:
        for worker in workers:  # whatever ends the parent ends the workers too, each after saving a checkpoint
            if worker.is_alive():
                worker.terminate()
        raise
    finally:
        for worker in workers:
            if worker.pid is not None:
                worker.join()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _listen(workers: Sequence[SpawnProcess], news: Any, points: Sequence[Point], report: Report) -> None:
    """Pass on the workers' news until all of them are done; the first failure is raised here."""
    alive = True
    while alive:
        running = [worker.sentinel for worker in workers if worker.is_alive()]
        alive = bool(running)
        if alive:
            wait([news._reader, *running])
        while not news.empty():
            kind, index, detail = news.get()
            if kind == "round":
                report(index, detail)
            elif kind == "input":
                raise InputError(detail)
            else:
                raise RunError(f"{points[index].path}: {detail}")
    dead = [worker.exitcode for worker in workers if worker.exitcode]
    if dead:
        raise RunError(f"a worker process died (exit code {dead[0]}); the same command takes up where it was")


def _work(points: Sequence[Point], tasks: Any, news: Any, threads: int) -> None:
    """A worker's life: take points until there are none, or until it is told to stop, or its parent is gone."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Thread(target=_follow_parent, daemon=True).start()
    index = -1
    try:
        while (index := tasks.get()) is not None:
            point = points[index]
            _run_point(point, point.config.run.workers or threads, partial(_tell, news, index))
    except KeyboardInterrupt:
        return
    except InputError as error:
        news.put(("input", index, str(error)))
    except RunError as error:
        news.put(("failed", index, str(error)))
    except BaseException:
        news.put(("failed", index, traceback.format_exc()))


def _follow_parent() -> None:
    """Stop this worker once its parent has died, however that came about."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _tell(news: Any, index: int, done: int) -> None:
    news.put(("round", index, done))
