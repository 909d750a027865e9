"""A copy of this process answers questions, and learns nothing else."""

import os

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
        assert not copy._process.is_alive()
