"""Work side by side in processes, which is told of as it goes and loses nothing when it is stopped."""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

from pfels.errors import RunError
from pfels.runtime.signals import interrupt_once

T = TypeVar("T")
Report = Callable[[int, int], None]  # an item's key, rounds done
Work = Callable[[T, int, Callable[[int], None]], None]  # on an item, with so many threads, telling the rounds done


def side_by_side(work: Work[T], items: Mapping[int, T], *, jobs: int, report: Report) -> None:
    """Do `work` on every item, `jobs` at a time; the first failure ends all of it and is raised here.

    Each worker has a pipe of its own and nothing else in common with the others: a lock that they shared would stay
    locked for ever if one were killed while it held it.
    """
    context = multiprocessing.get_context("spawn")
    threads = max(1, len(os.sched_getaffinity(0)) // jobs)
    crew: dict[Connection, SpawnProcess] = {}
    try:
        with _interrupts_ignored():  # the workers inherit this: Ctrl-C reaches them through the parent alone
            for _ in range(jobs):
                here, there = context.Pipe()
                crew[here] = context.Process(target=_live, args=(work, there, threads))
                crew[here].start()
                there.close()  # the worker has the only other end now, so that its end is the pipe's
        _serve(crew, iter(items.items()), report)
    except BaseException:
        for worker in crew.values():  # whatever ends the parent ends the workers too, each after saving a checkpoint
            if worker.pid is not None:
                worker.terminate()
        raise
    finally:
        for pipe, worker in crew.items():
            if worker.pid is not None:
                worker.join()
            pipe.close()


def _serve(crew: Mapping[Connection, SpawnProcess], items: Iterator[tuple[int, T]], report: Report) -> None:
    """Give every worker an item after the other, and pass on what they tell, until there is none left."""
    busy = set(crew)
    while busy:
        for pipe in wait(list(busy)):
            assert isinstance(pipe, Connection)
            try:
                kind, key, told = pipe.recv()
                if kind == "free":
                    item = next(items, None)
                    pipe.send(item)
                    busy -= {pipe} if item is None else set()
            except (EOFError, OSError):
                crew[pipe].join()
                raise RunError(
                    f"a worker process died (exit code {crew[pipe].exitcode}); the same command takes up where it was"
                ) from None
            if kind == "round":
                report(key, told)
            elif kind == "failed":
                raise told


def _live(work: Work[Any], pipe: Connection, threads: int) -> None:
    """A worker's life: take items until there are none, or until it is told to stop, or its parent is gone."""
    interrupt_once()
    with suppress(KeyboardInterrupt, EOFError, OSError):
        pipe.send(("free", None, None))
        while (given := pipe.recv()) is not None:
            key, item = given
            try:
                work(item, threads, partial(_tell, pipe, key))
            except Exception as error:
                error.add_note(f"In a worker process, {traceback.format_exc()}")
                pipe.send(("failed", key, error))
            else:
                pipe.send(("free", None, None))


def _tell(pipe: Connection, key: int, done: int) -> None:
    try:
        pipe.send(("round", key, done))
    except OSError:  # the parent is gone: stop as if it had said so, and save what there is
        raise KeyboardInterrupt from None


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
