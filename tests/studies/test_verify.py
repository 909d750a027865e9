"""Published figures: recomputed to the bit or within a tolerance, right by other means; a wrong one is found."""

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dp_accounting
import pytest
from dp_accounting import pld, rdp

import pfels
from pfels.documents.verify import Published, Verification
from pfels.schemes.registry import scheme_names
from pfels.studies.published import KINDS, published
from pfels.studies.verify import compared_run
from tests.contract.misfits import misfits

ROOT = Path(__file__).parents[2]
KNOWN = published()


def test_every_figure_is_as_published():
    found = pfels.verify()
    assert (found["differs"], found["ok"]) == ([], True)
    assert misfits(Verification, found) == []
    assert len(found["figures"]) == len(KNOWN["figures"]) > 20
    assert all(run["same_bits"] is (True if found["same_arithmetic"] else None) for run in found["runs"].values())


def test_every_scheme_of_the_package_has_a_run_and_every_kind_a_figure():
    assert set(KNOWN["runs"]["schemes"]) == set(scheme_names())
    assert {each["kind"] for each in KNOWN["figures"]} == set(KNOWN["kinds"]) == set(KINDS)
    assert len({each["name"] for each in KNOWN["figures"]}) == len(KNOWN["figures"])
    assert misfits(Published, KNOWN) == []


def test_privacy_figures_say_against_whom_and_state_their_delta():
    for each in KNOWN["figures"]:
        if "ε" in each["name"]:
            assert {"adversary", "neighbours"} <= set(KNOWN["kinds"][each["kind"]]), each["name"]
            assert "delta" in each["inputs"], each["name"]


def test_the_script_that_writes_the_file_and_its_page_has_the_same_figures(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    import make_published

    described = [[each["name"], each["kind"], each["inputs"]] for each in KNOWN["figures"]]
    assert described == [list(each) for each in make_published.without_training()]
    assert KNOWN["kinds"] == make_published.KIND
    assert KNOWN["tolerances"] == make_published.TOLERANCES
    page = make_published.PAGE.read_text("utf-8")
    assert page == make_published.page(page, KNOWN), "python docs/make_published.py writes it anew"


# The same figures by other means: dp_accounting where pfels has formulas of its own, or the plain formula.


def _pld(z: float, rate: float, rounds: int, delta: float) -> float:
    accountant = pld.PLDAccountant(value_discretization_interval=1e-4)
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(z))
    return float(accountant.compose(event, rounds).get_epsilon(delta))


def _fixed(z: float, i: Mapping[str, Any]) -> float:
    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    gaussian = dp_accounting.GaussianDpEvent(z / 2)
    event = dp_accounting.SampledWithoutReplacementDpEvent(i["devices"], i["cohort"], gaussian)
    return float(accountant.compose(event, i["rounds"]).get_epsilon(i["delta"]))


def _claimed(epsilon: float, i: Mapping[str, Any]) -> float:
    q = i["cohort"] / i["devices"]
    return 2 * math.sqrt(2) * q * math.sqrt(math.log(1.25 * q / i["delta"])) / epsilon


def _exact(i: Mapping[str, Any]) -> float:
    q, z = i["cohort"] / i["devices"], _claimed(i["claimed_epsilon"], i)
    return math.log1p(q * math.expm1(dp_accounting.get_epsilon_gaussian(z, i["delta"] / q)))


def _level(i: Mapping[str, Any]) -> float:
    powers = [h * math.sqrt(p) for h, p in zip(i["gains"], i["powers"], strict=True)]
    claim = _claimed(1.0, i) * i["bound"] / i["noise_std"]
    return min(min(powers) / (i["bound"] * math.sqrt(i["share"])), i["epsilon"] / claim)


def _energy(i: Mapping[str, Any]) -> float:
    return sum((_level(i) / h) ** 2 for h in i["gains"]) * i["share"] * i["bound"] ** 2


ANOTHER_WAY: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "claimed-noise-multiplier": lambda i: _claimed(i["epsilon"], i),
    "exact-per-round": _exact,
    "server-epsilon": lambda i: dp_accounting.get_epsilon_gaussian(
        i["noise_multiplier"] / math.sqrt(i["participations"]), i["delta"]
    ),
    "server-epsilon-at-another-delta": lambda i: dp_accounting.get_epsilon_gaussian(
        dp_accounting.get_sigma_gaussian(i["epsilon"], i["delta"]), i["other_delta"]
    ),
    "outsider-epsilon-poisson": lambda i: _pld(
        i["noise_multiplier"], i["cohort"] / i["devices"], i["rounds"], i["delta"]
    ),
    "outsider-epsilon-fixed-size": lambda i: _fixed(i["noise_multiplier"], i),
    "noise-for-server": lambda i: (
        dp_accounting.get_sigma_gaussian(i["epsilon"], i["delta"]) * math.sqrt(i["participations"])
    ),
    "level": _level,
    "noise-of-round": lambda i: i["noise_std"] / (_level(i) * i["bound"]),
    "energy-of-round": _energy,
}
CLOSE = {"server-epsilon-at-another-delta": 1e-6, "noise-for-server": 1e-6}  # get_sigma_gaussian searches to 1e-7 or so


@pytest.mark.parametrize("each", [each for each in KNOWN["figures"] if each["kind"] in ANOTHER_WAY], ids=str)
def test_a_published_figure_is_right_by_other_means(each: Any):
    kind = KNOWN["kinds"][each["kind"]]
    relative = CLOSE.get(each["kind"], max(KNOWN["tolerances"][kind["tolerance"]]["relative"], 1e-9))
    assert ANOTHER_WAY[each["kind"]](each["inputs"]) == pytest.approx(each["value"], rel=relative)


def test_the_noise_for_a_budget_meets_it_and_wastes_less_than_stated():
    (each,) = [each for each in KNOWN["figures"] if each["kind"] == "noise-for-outsider-poisson"]
    i: Any = each["inputs"]
    assert 0.997 * i["epsilon"] <= _pld(each["value"], 0.032, i["rounds"], i["delta"]) <= i["epsilon"] * 1.001


def test_energies_are_near_those_that_the_paper_prints():
    """Within 6 %, as docs/results.md has it."""
    printed = {
        "pfels on CIFAR-10": 2.55e11, "wfl-p on CIFAR-10": 5.19e11, "wfl-pdp on CIFAR-10": 3.70e11,
        "pfels on FEMNIST": 1.90e11, "wfl-p on FEMNIST": 2.89e11, "wfl-pdp on FEMNIST": 2.22e11,
    }  # fmt: skip
    found = {each["name"]: each["value"] for each in KNOWN["figures"] if each["kind"] == "energy-of-training"}
    assert {f"energy: {name}" for name in printed} == set(found)
    for name, value in printed.items():
        assert found[f"energy: {name}"] == pytest.approx(value, rel=0.06)


# A wrong figure is found.


def test_a_figure_of_a_run_beyond_its_tolerance_is_found_and_one_within_it_is_not():
    figures = KNOWN["runs"]["schemes"]["pfels"]["figures"]
    for key, value in figures.items():
        assert value is not None
        tolerance = KNOWN["tolerances"][KNOWN["runs"]["tolerances"][key]]
        allowed = tolerance["absolute"] + tolerance["relative"] * value
        for factor, ok in ((0.5, True), (1.5, False)):
            rows = compared_run(KNOWN, "pfels", figures, {**figures, key: value + factor * allowed})
            assert [row["ok"] for row in rows] == [ok or name != key for name in figures]
        rows = compared_run(KNOWN, "pfels", figures, {**figures, key: None})
        assert not all(row["ok"] for row in rows)


def test_the_command_finds_what_was_tampered_with_names_it_and_fails(tmp_path: Path):
    """A copy of the package whose published file has four wrong entries."""
    shutil.copytree(ROOT / "src" / "pfels", tmp_path / "pfels", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "pfels" / "studies" / "published.json"
    content = json.loads(file.read_text("utf-8"))
    for each in content["figures"]:
        if each["name"] in ("server ε: z = 1.5, n = 10, δ = 0.001", "energy: wfl-p on FEMNIST"):
            each["value"] *= 1 + 1e-6
    schemes = content["runs"]["schemes"]
    schemes["pfels-plus"]["figures"]["accuracy"] += 0.01
    schemes["fedavg"]["sha256"]["rounds.jsonl"] = "0" * 64
    file.write_text(json.dumps(content), "utf-8")

    def call(*options: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "100"}
        return subprocess.run(
            [sys.executable, "-m", "pfels", "verify", *options],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    done = call("--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    bits = ["fedavg: bits"] if found["same_arithmetic"] else []
    wrong = ["server ε: z = 1.5, n = 10, δ = 0.001", "energy: wfl-p on FEMNIST"]
    assert (found["ok"], found["differs"]) == (False, [*wrong, *bits, "pfels-plus: accuracy"])
    done = call()
    assert done.returncode == 1
    lines = [line for line in done.stdout.splitlines() if line.startswith("differs: ")]
    assert len(lines) == len(found["differs"])
    assert all(line.startswith(f"differs: {name}: ") for line, name in zip(lines, found["differs"], strict=True))
    assert "differs: pfels-plus: accuracy: published 0.490555555556, found 0.480555555556" in done.stdout
