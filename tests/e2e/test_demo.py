"""The demo shows the paper's ordering, at the settings of the preset and no others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pfels


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """`pfels compare demo --json` over three seeds, all schemes."""
    out: Path = tmp_path_factory.mktemp("demo")
    command = [
        sys.executable,
        "-m",
        "pfels",
        "compare",
        "demo",
        "--seeds",
        "0,1,2",
        "--jobs",
        "2",
        "--out",
        str(out),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout)["schemes"]


def test_the_paper_s_ordering_shows_on_the_digits(rows: dict):
    accuracy = {name: row["accuracy"]["mean"] for name, row in rows.items()}
    assert accuracy["fedavg"] >= 0.93
    assert accuracy["pfels"] >= 0.80
    assert accuracy["pfels"] >= accuracy["wfl-pdp"] + 0.05


def test_pfels_takes_less_energy_and_spectrum(rows: dict):
    assert rows["pfels"]["energy"]["mean"] <= 0.75 * rows["wfl-pdp"]["energy"]["mean"]
    assert rows["pfels"]["subcarriers"] == 0.3 * rows["wfl-p"]["subcarriers"]


def test_three_lines_of_python_do_what_the_command_does(rows: dict):
    result = pfels.run(pfels.load_config("demo", {"seed": 0}))
    assert result.summary["dimension"] == 2410
    assert min(rows["pfels"]["accuracy"]["mean"] - 0.1, 0.8) < result.summary["accuracy"] <= 1


def test_echo_comes_close_to_noise_free_training_within_its_budget_and_on_less_energy(rows: dict):
    echo = rows["pfels-echo"]
    assert echo["accuracy"]["mean"] >= 0.93
    assert echo["accuracy"]["mean"] >= rows["pfels-plus"]["accuracy"]["mean"] + 0.01
    assert echo["privacy"]["server"]["epsilon"] <= 16.0
    assert echo["energy"]["mean"] < rows["pfels"]["energy"]["mean"]
