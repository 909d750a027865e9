"""The demo shows every scheme on one budget, at the settings of the preset and no others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pfels


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """`make demo`: all schemes over three seeds on a budget of ε = 16 against the server."""
    out: Path = tmp_path_factory.mktemp("demo")
    command = [
        sys.executable,
        "-m",
        "pfels",
        "compare",
        "demo",
        "--total-epsilon",
        "16",
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


def test_schemes_reach_what_their_tuned_settings_promise(rows: dict):
    accuracy = {name: row["accuracy"]["mean"] for name, row in rows.items()}
    assert accuracy["fedavg"] >= 0.95
    assert accuracy["pfels"] >= 0.85
    assert accuracy["wfl-pdp"] >= 0.85
    assert accuracy["truncated-inversion"] >= 0.93
    assert accuracy["pfels-plus"] >= accuracy["pfels"] + 0.03


def test_every_scheme_that_a_budget_sets_is_within_it(rows: dict):
    on_budget = {name: row["privacy"]["server"]["epsilon"] for name, row in rows.items() if row["on_budget"]}
    assert set(rows) - set(on_budget) == {"wfl-p", "fedavg"}
    assert all(15 < epsilon <= 16 for epsilon in on_budget.values())


def test_pfels_takes_less_energy_and_spectrum(rows: dict):
    assert rows["pfels"]["energy"]["mean"] <= 0.75 * rows["wfl-pdp"]["energy"]["mean"]
    assert rows["pfels"]["subcarriers"] == 0.3 * rows["wfl-p"]["subcarriers"]


def test_three_lines_of_python_do_what_the_command_does(rows: dict):
    result = pfels.run(pfels.load_config("demo", {"seed": 0}))
    assert result.summary["dimension"] == 2410
    assert min(rows["pfels"]["accuracy"]["mean"] - 0.1, 0.8) < result.summary["accuracy"] <= 1


def test_echo_comes_close_to_noise_free_training_within_its_budget_and_on_less_energy(rows: dict):
    echo = rows["pfels-echo"]
    assert echo["accuracy"]["mean"] >= 0.95
    assert echo["accuracy"]["mean"] >= rows["pfels-plus"]["accuracy"]["mean"]
    assert echo["privacy"]["server"]["epsilon"] <= 16.0
    assert echo["energy"]["mean"] < rows["pfels"]["energy"]["mean"]
