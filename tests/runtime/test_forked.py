"""A copy of this process answers questions, and learns nothing else."""

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pfels.errors import RunError
from pfels.runtime.forked import Forked


def test_it_answers_in_order_with_what_it_knew_and_not_with_what_came_later():
    known = ["before"]
    copy: Forked[int, tuple[int, str, int]] = Forked(lambda question: (question, known[0], os.getpid()))
    known[0] = "after"
    try:
        for question in (1, 2):
            copy.ask(question)
            answer = copy.answer()
            assert answer[:2] == (question, "before")
            assert answer[2] != os.getpid()
    finally:
        copy.close()


def test_one_that_has_died_is_one_line():
    copy: Forked[int, None] = Forked(lambda question: os._exit(1))
    copy.ask(1)
    with pytest.raises(RunError, match="has ended; is there enough memory"):
        copy.answer()
    copy.close()


def test_several_end_in_any_order():
    copies: list[Forked[int, int]] = [Forked(abs) for _ in range(3)]
    for copy in copies:
        copy.close()
        with pytest.raises(ProcessLookupError):
            os.kill(copy.pid, 0)


def test_it_ends_with_the_process_that_made_it():
    """Even if that is killed, and there are two of them."""
    code = (
        "from pfels.runtime.forked import Forked; import os; a = [Forked(abs), Forked(abs)];"
        "print(*(x.pid for x in a), flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 30
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_it_works_where_processes_may_have_no_children():
    """In a worker of a `multiprocessing.Pool`, which is one that must not start others that way."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_asked) == 5


def _asked() -> int:
    copy: Forked[int, int] = Forked(abs)
    copy.ask(-5)
    answer = copy.answer()
    copy.close()
    return answer
