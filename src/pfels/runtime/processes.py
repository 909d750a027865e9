"""Jobs in parallel worker processes, which report progress and save their state when stopped."""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import Any, TypeVar

from pfels.errors import RunError
from pfels.runtime.search_path import SAFE
from pfels.runtime.signals import SIGNALS, interrupt_once

T = TypeVar("T")
M = TypeVar("M")
Report = Callable[[int, M], None]  # (key of the item, what its work tells)
Workers = Mapping[Connection, ForkServerProcess]
Work = Callable[[T, int, Callable[[M], None]], None]  # (item, number of threads, callback for what it tells)


def warm_up(*modules: str) -> None:
    """Start the process from which workers will be forked. It imports `modules` meanwhile, once for all of them.

    It is a process of its own because threads do not survive a fork: it has none, whatever runs in this one. A signal
    to the process group reaches the workers through the parent alone, so that it waits until they have saved.
    """
    multiprocessing.set_forkserver_preload(list(modules))
    with _signals_ignored(), _current_directory_left_out():  # which it inherits
        forkserver.ensure_running()


def run_jobs(work: Work[T, M], items: Mapping[int, T], *, jobs: int, report: Report[M]) -> None:
    """Run `work` on every item, `jobs` at a time; the first failure stops all workers and is raised here.

    Each worker has its own pipe and shares nothing else with the others: a shared lock would stay locked forever
    if a worker were killed while holding it.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # a worker that imports an unguarded script
        raise SystemExit(1)  # its parent says what to do
    context = multiprocessing.get_context("forkserver")
    threads = max(1, len(os.sched_getaffinity(0)) // jobs)
    workers: dict[Connection, ForkServerProcess] = {}
    try:
        warm_up(work.__module__)
        for _ in range(jobs):
            parent_end, worker_end = context.Pipe()
            workers[parent_end] = context.Process(target=_work_loop, args=(work, worker_end, threads))
            workers[parent_end].start()
            worker_end.close()  # now only the worker holds it, so the pipe closes when the worker ends
        _distribute(workers, iter(items.items()), report)
    except BaseException:  # anything that stops the parent stops the workers, which save a checkpoint
        _stop([worker for worker in workers.values() if worker.pid is not None])
        raise
    finally:
        for pipe, worker in workers.items():
            if worker.pid is not None:
                worker.join()
            pipe.close()


def _stop(workers: list[ForkServerProcess]) -> None:
    """Signal the workers until all have ended. A worker that is only starting ignores signals, like the process that it
    is forked from, so the first one may be lost. One that has been interrupted ignores the rest while it saves."""
    while workers:
        for worker in workers:
            worker.terminate()
        wait([worker.sentinel for worker in workers], timeout=0.2)
        workers = [worker for worker in workers if worker.is_alive()]


def _distribute(workers: Workers, items: Iterator[tuple[int, T]], report: Report[Any]) -> None:
    """Send items to idle workers and forward their progress reports until no item is left."""
    busy, started = set(workers), set[Connection]()
    while busy:
        for pipe in wait(list(busy)):
            assert isinstance(pipe, Connection)
            try:
                kind, key, message = pipe.recv()
                if kind == "idle":
                    started.add(pipe)
                    item = next(items, None)
                    pipe.send(item)
                    busy -= {pipe} if item is None else set()
            except (EOFError, OSError):
                workers[pipe].join()
                exit_code = workers[pipe].exitcode
                cure = "; run the same command again to continue"
                if pipe not in started and exit_code == 1 and _imports_script():
                    cure = ' while it imported this script; put the call under `if __name__ == "__main__":`'
                raise RunError(f"a worker process died (exit code {exit_code}){cure}") from None
            if kind == "told":
                report(key, message)
            elif kind == "failed":
                raise message


def _imports_script() -> bool:
    """Whether workers import what runs here: a script, and not a command or a notebook."""
    from multiprocessing.spawn import get_preparation_data

    return not {"init_main_from_path", "init_main_from_name"}.isdisjoint(get_preparation_data("worker"))


def _work_loop(work: Work[Any, Any], pipe: Connection, threads: int) -> None:
    """Process items in a worker until there are none left, a signal stops it, or its parent is gone."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the one signal that the parent sends
    with suppress(KeyboardInterrupt, EOFError, OSError):
        interrupt_once()
        pipe.send(("idle", None, None))
        while (received := pipe.recv()) is not None:
            key, item = received
            try:
                work(item, threads, partial(_tell, pipe, key))
            except Exception as error:
                error.add_note(f"In a worker process, {traceback.format_exc()}")
                pipe.send(("failed", key, error))
            else:
                pipe.send(("idle", None, None))


def _tell(pipe: Connection, key: int, message: object) -> None:
    try:
        pipe.send(("told", key, message))
    except OSError:  # the parent is gone: stop as on a signal, which saves the state
        raise KeyboardInterrupt from None


@contextmanager
def _signals_ignored() -> Iterator[None]:
    before = {each: signal.signal(each, signal.SIG_IGN) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _current_directory_left_out() -> Iterator[None]:
    """Processes that are started within import nothing from the current directory."""
    before = os.environ.get(SAFE)
    os.environ[SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE]
        else:
            os.environ[SAFE] = before
