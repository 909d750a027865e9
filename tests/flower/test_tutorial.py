"""The tutorial on real machines, done as it is written: a SuperLink, two SuperNodes and a run, as its commands start them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pfels.flower.loopback import MARK, Loopback
from tests.docs.pages import ROOT, differs, environment, perform, steps

PAGE = ROOT / "docs" / "tutorials" / "real-machines.md"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of the page's commands; all that they left running is stopped at the end."""
    mark = Loopback(tmp_path, 0)
    home = {"FLWR_HOME": str(tmp_path / "flower-home"), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    yield environment(tmp_path / "data") | home | {MARK: mark.mark}
    mark.stop()


def test_the_page_works_as_it_is_written(tmp_path: Path, started: dict[str, str]):
    for step in steps(PAGE.read_text("utf-8")):
        printed = perform(step, tmp_path, started)
        if step.shown is not None:
            assert differs(step.shown.text, printed, exact=False) is None, printed
