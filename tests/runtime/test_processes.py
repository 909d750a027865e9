"""Parallel jobs: every item is processed, every failure is raised, and a dead worker is noticed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

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


@pytest.mark.parametrize("start", [["script.py"], ["-m", "script"]], ids=["script", "module"])
def test_a_script_whose_call_workers_repeat_is_told_to_guard_it(start: list[str], tmp_path: Path):
    """Workers import the script, which must not start its work again there."""
    (tmp_path / "script.py").write_text(
        "import pfels\nsmall = {'data.devices': 20, 'cohort.size': 4}\n"
        "pfels.sweep('demo', {'rounds': [1, 2]}, overrides=small, jobs=2)\n"
    )
    done = subprocess.run(
        [sys.executable, *start], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "pfels.errors.RunError: a worker process died (exit code 1) while it imported this script; "
        'put the call under `if __name__ == "__main__":`'
    )


class Arriving:
    """Work that fails. One worker has it at once; any other needs a second to read it, and ignores signals so long."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[Path], "Arriving"], tuple[Path]]:
        return arrive, (self.mark,)

    def __call__(self, item: int, threads: int, done: Report) -> None:
        raise GuardError(f"the limit of item {item}")


def arrive(mark: Path) -> Arriving:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        time.sleep(1)
    return Arriving(mark)


def fail_while_another_worker_starts(mark: Path) -> None:
    with pytest.raises(GuardError, match="the limit of item 0"):
        run_jobs(Arriving(mark), {0: 0, 1: 1}, jobs=2, report=ignore)
    print("ended")


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


def test_a_worker_that_is_only_starting_is_stopped_too(tmp_path: Path):
    """In a process of its own: a worker that misses its signal would be waited for without end."""
    code = "import sys, pathlib; from tests.runtime import test_processes as own; "
    code += "own.fail_while_another_worker_starts(pathlib.Path(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "mark")],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout == "ended\n", done.stderr


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
