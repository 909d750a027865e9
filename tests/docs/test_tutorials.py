"""Every tutorial, done exactly as it is written: each file, command and script in order, in an empty directory.

All of it is run for real, with the rounds, seeds and options of the page, and every output that the page shows is held
to what was printed (`pages.differs`: words in order, and numbers to the last digit where the processor and PyTorch are
those of tests/e2e/golden.json). `pip install` works without an index, into an environment of its own.
"""

import json
from pathlib import Path

import pytest

from tests.docs.pages import differs, perform, steps
from tests.docs.tutorials import PAGES, environment_of
from tests.e2e import golden

SAME_ARITHMETIC = json.loads(golden.PINNED.read_text())["arithmetic"] == golden.arithmetic()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_works_as_it_is_written(page: Path, tmp_path: Path):
    text = page.read_text("utf-8")
    work = tmp_path / "work"
    work.mkdir()
    env = environment_of(text, tmp_path)
    for step in steps(text):
        printed = perform(step, work, env)
        if step.shown is not None:
            found = differs(step.shown.text, printed, exact=SAME_ARITHMETIC)
            where = f"{page.name}, line {step.shown.first + 1}"
            assert found is None, f"{where}: {found}; python -m tests.docs writes it anew"
