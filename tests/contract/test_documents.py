"""Every document has a type, every field of a document is in its type, and docs/files.md lists them all.

What the commands print is held to the types in tests/e2e/test_commands.py.
"""

import json
import sys
from pathlib import Path

import pytest

import pfels
from pfels.documents.report import Report
from pfels.documents.run import Environment, Replies, RoundRecord, Summary
from pfels.documents.validate import validated
from pfels.errors import InputError
from tests.conftest import small
from tests.contract.misfits import misfits

ROOT = Path(__file__).parents[2]


def test_a_run_directory_holds_what_its_types_say(tmp_path: Path, scheme: str):
    config = small(scheme=scheme)
    result = pfels.run(config, tmp_path / "run")
    assert misfits(Summary, json.loads((tmp_path / "run" / "summary.json").read_text())) == []
    assert misfits(Environment, json.loads((tmp_path / "run" / "environment.json").read_text())) == []
    assert [f for record in result.records for f in misfits(RoundRecord, record)] == []
    assert misfits(Report, pfels.write_report(tmp_path / "run")) == []


def test_a_misfit_is_found():
    assert misfits(Environment, {"python": 3, "pythn": "3.11"}) == [".pythn: not in the type", ".python: int"]
    with pytest.raises(InputError, match=r"here: expected: Field required"):
        validated(Replies, {}, "here")


def test_the_page_of_files_is_that_of_the_types(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    import make_files

    assert make_files.PAGE.read_text("utf-8") == make_files.page(), "python docs/make_files.py writes it anew"
