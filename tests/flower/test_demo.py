"""The demo leaves other files alone, and a report shows a run on Flower like any other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pfels.errors import InputError
from pfels.flower.demo import main
from pfels.report.page import write_report


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path):
    kept = tmp_path / "scheme=pfels,seed=0" / "thesis.tex"
    kept.parent.mkdir()
    kept.write_text("all of it")
    with pytest.raises(InputError, match="holds other files"):
        main(tmp_path)
    assert kept.read_text() == "all of it"


def test_a_report_shows_a_run_on_flower(flower: Callable[..., Any], tmp_path: Path):
    flower(scheme="pfels", rounds=3)
    document = write_report([tmp_path / "run"])
    assert document["damaged"] == []
    json.dumps(document)
