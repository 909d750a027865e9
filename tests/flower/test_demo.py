"""The demo leaves other files alone, and a report shows a run on Flower like any other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pfels.errors import InputError
from pfels.flower.demo import main, table_notes
from pfels.report.page import write_report
from pfels.studies.compare import compared


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path):
    kept = tmp_path / "scheme=pfels,seed=0" / "thesis.tex"
    kept.parent.mkdir()
    kept.write_text("all of it")
    with pytest.raises(InputError, match="holds other files"):
        main(tmp_path)
    assert kept.read_text() == "all of it"


def test_the_table_says_against_whom_its_figures_hold(flower: Callable[..., Any]):
    """Not against the operator, not under known noise; of two figures against an outsider, the smaller one."""
    result, _ = flower(scheme="pfels-plus", rounds=3)
    privacy = result.summary["privacy"]
    assert privacy["server"]["epsilon"] < privacy["outsider"]["epsilon"]
    notes = table_notes(compared({"pfels-plus": [result.summary]}))
    assert "do not hold against the operator of this digital server" in notes[0]
    assert "do not hold against anyone who knows the seed either" in notes[0]
    [server] = [note for note in notes if note.startswith("server ε")]
    assert "NOT valid here: the noise was drawn from the seed" in server
    assert "proven" not in server
    [outsider] = [note for note in notes if "against an outsider" in note]
    assert f"ε = {privacy['server']['display']} " in outsider
    assert privacy["outsider"]["display"] not in outsider
    assert outsider.endswith("NOT valid here either.")


def test_a_report_shows_a_run_on_flower(flower: Callable[..., Any], tmp_path: Path):
    flower(scheme="pfels", rounds=3)
    document = write_report([tmp_path / "run"])
    assert document["damaged"] == []
    json.dumps(document)
