"""Parallel jobs: every item is processed, every failure is raised, and a dead worker is noticed."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from pfels.errors import GuardError, RunError
from pfels.runtime.processes import run_jobs

Report = Callable[[int], None]


def report_item(item: int, threads: int, done: Report) -> None:
    done(item)


def fail(item: int, threads: int, done: Report) -> None:
    if item == 1:
        raise GuardError("the limit of item 1")
    time.sleep(600)


def die(item: int, threads: int, done: Report) -> None:
    if item == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def report_forever(item: int, threads: int, done: Report) -> None:
    """Report without end, so that a kill at any time is likely to interrupt a message."""
    while True:
        done(os.getpid())


def ignore(key: int, done: int) -> None:
    pass


def test_every_item_is_processed_exactly_once():
    reports = []
    run_jobs(report_item, {key: 2 * key for key in range(3000)}, jobs=2, report=lambda *r: reports.append(r))
    assert sorted(reports) == [(key, 2 * key) for key in range(3000)]


def test_a_failure_is_raised_unchanged_and_stops_the_other_workers():
    began = time.monotonic()
    with pytest.raises(GuardError, match="limit") as failure:
        run_jobs(fail, {0: 0, 1: 1}, jobs=2, report=ignore)
    assert str(failure.value) == "the limit of item 1"
    assert "in fail" in failure.value.__notes__[0]
    assert time.monotonic() - began < 60


def test_a_killed_worker_is_noticed_at_once():
    began = time.monotonic()
    with pytest.raises(RunError, match=r"a worker process died \(exit code -9\)"):
        run_jobs(die, {0: 0, 1: 1}, jobs=2, report=ignore)
    assert time.monotonic() - began < 60


def test_a_worker_killed_during_a_report_does_not_block_the_others():
    def kill(key: int, done: int) -> None:
        if key == 1:
            with suppress(ProcessLookupError):  # gone already; these are reports that it had sent before
                os.kill(done, signal.SIGKILL)

    for _ in range(3):
        with pytest.raises(RunError, match=r"a worker process died \(exit code -9\)"):
            run_jobs(report_forever, {0: 0, 1: 1}, jobs=2, report=kill)
