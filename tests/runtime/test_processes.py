"""Work side by side: all of it done, every failure told, and no worker's death goes unnoticed."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from pfels.errors import GuardError, RunError
from pfels.runtime.processes import side_by_side

Tell = Callable[[int], None]


def tell(item: int, threads: int, done: Tell) -> None:
    done(item)


def fall(item: int, threads: int, done: Tell) -> None:
    if item == 1:
        raise GuardError("the limit of item 1")
    time.sleep(600)


def die(item: int, threads: int, done: Tell) -> None:
    if item == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def chatter(item: int, threads: int, done: Tell) -> None:
    """Tell without end, so that a kill at any moment is likely to fall into a message."""
    while True:
        done(os.getpid())


def silent(key: int, done: int) -> None:
    pass


def test_every_item_is_done_once_however_many_there_are():
    told = []
    side_by_side(tell, {key: 2 * key for key in range(3000)}, jobs=2, report=lambda *news: told.append(news))
    assert sorted(told) == [(key, 2 * key) for key in range(3000)]


def test_a_failure_is_raised_as_it_was_and_ends_the_others():
    began = time.monotonic()
    with pytest.raises(GuardError, match="limit") as failure:
        side_by_side(fall, {0: 0, 1: 1}, jobs=2, report=silent)
    assert str(failure.value) == "the limit of item 1"
    assert "in fall" in failure.value.__notes__[0]
    assert time.monotonic() - began < 60


def test_a_worker_that_is_killed_is_missed_at_once():
    began = time.monotonic()
    with pytest.raises(RunError, match=r"a worker process died \(exit code -9\)"):
        side_by_side(die, {0: 0, 1: 1}, jobs=2, report=silent)
    assert time.monotonic() - began < 60


def test_a_worker_that_is_killed_while_it_tells_holds_nobody_up():
    def kill(key: int, done: int) -> None:
        if key == 1:
            os.kill(done, signal.SIGKILL)

    for _ in range(3):
        with pytest.raises(RunError, match=r"a worker process died \(exit code -9\)"):
            side_by_side(chatter, {0: 0, 1: 1}, jobs=2, report=kill)
