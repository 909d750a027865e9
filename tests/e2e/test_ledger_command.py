"""`pfels privacy --ledger` makes the ledger of a deployment's node, and shows it."""

import json
import math
from pathlib import Path

import pytest

from pfels.documents.privacy import LedgerReport
from pfels.privacy.device_ledger import DeviceLedger, OwnerBudget
from pfels.privacy.events import rounded_up
from pfels.privacy.gaussian import gaussian_epsilon, gaussian_mu
from tests.contract.misfits import misfits

NEW = ("privacy", "--ledger", "ledger.json", "--create", "1/4", "--devices", "100")


def test_a_ledger_is_made_charged_and_shown(pfels, tmp_path: Path):
    made = pfels(*NEW)
    assert made.returncode == 0, made.stderr
    assert "ledger.json: the ledger of partition 1 of 4 of 100 devices; keep it" in made.stderr
    budget = OwnerBudget(epsilon=4.0, delta=1e-5)
    for _ in range(3):
        DeviceLedger(tmp_path / "ledger.json").charge({1: 0.1, 97: 0.0001}, budget)
    shown = pfels("privacy", "--ledger", "ledger.json")
    assert shown.returncode == 0, shown.stderr
    rows = {line.split()[0]: line.split() for line in shown.stdout.splitlines() if line.strip()}
    epsilon = rounded_up(gaussian_epsilon(mu=math.sqrt(0.3), delta=1e-5), digits=6)
    left = 100 - 30 / gaussian_mu(epsilon=4.0, delta=1e-5) ** 2
    assert rows["1"] == ["1", "3", "0.300001", f"{epsilon:g}", f"{math.floor(10 * left) / 10:g}", "%"]
    assert rows["97"][:3] == ["97", "3", "0.000300001"]
    assert "budget ε = 4 at δ = 1e-05" in shown.stdout
    report = json.loads(pfels("privacy", "--ledger", "ledger.json", "--json").stdout)
    assert misfits(LedgerReport, report) == []
    assert [one["device"] for one in report["spent"]] == [1, 97]
    assert (report["adversary"], report["neighbours"], report["delta"]) == ("server", "device-emptied", 1e-5)
    other = json.loads(pfels("privacy", "--ledger", "ledger.json", "--delta", "0.001", "--json").stdout)
    assert other["spent"][0]["epsilon"] < report["spent"][0]["epsilon"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--ledger", "lost.json"), "error: ledger = lost.json: not found; restore it from a backup"),
        (("--ledger", "l.json", "--create", "1"), "--create 1: reads PARTITION/PARTITIONS"),
        (("--ledger", "l.json", "--create", "1/4"), "--devices: needed with --create"),
        (("--ledger", "l.json", "--create", "4/4", "--devices", "9"), "partition = 4: must be a whole number"),
        (("--ledger", "no/l.json", "--create", "0/4", "--devices", "9"), "no/l.json: its folder does not exist"),
        (("--create", "0/4", "--devices", "9"), "--create: makes the file of --ledger; give both"),
        (("--renumber", "0/4", "--devices", "9"), "--renumber: changes the file of --ledger; give both"),
        (("--ledger", "l.json", "--renumber", "0/4", "--devices", "9"), "l.json: not found"),
        (("--ledger", "l.json", "--renumber", "0/4"), "--devices: needed with --renumber"),
        (("demo", "--ledger", "l.json"), "PRESET: a ledger holds what was spent"),
        (("--ledger", "damaged.json"), "damaged.json: not readable as JSON"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(pfels, tmp_path: Path, arguments: tuple[str, ...], line: str):
    (tmp_path / "damaged.json").write_text('{"format": 1')
    done = pfels("privacy", *arguments)
    assert done.returncode == 2
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "l.json").exists()


def test_a_ledger_is_never_made_anew(pfels, tmp_path: Path):
    assert pfels(*NEW).returncode == 0
    before = (tmp_path / "ledger.json").read_bytes()
    again = pfels(*NEW)
    assert again.returncode == 2
    assert "exists already; a ledger is made once" in again.stderr
    assert (tmp_path / "ledger.json").read_bytes() == before


def test_a_ledger_carried_over_to_other_numbers_says_what_every_device_starts_from(pfels, tmp_path: Path):
    assert pfels(*NEW).returncode == 0
    DeviceLedger(tmp_path / "ledger.json").charge({1: 0.3, 97: 0.1}, OwnerBudget(epsilon=4.0, delta=1e-5))
    moved = pfels("privacy", "--ledger", "ledger.json", "--renumber", "0/5", "--devices", "200")
    assert moved.returncode == 0, moved.stderr
    assert "partition 0 of 5 of 200 devices; every device starts from μ² = 0.300001" in moved.stderr
    report = json.loads(pfels("privacy", "--ledger", "ledger.json", "--json").stdout)
    assert misfits(LedgerReport, report) == []
    assert (report["devices"], report["partition"], report["partitions"]) == (200, 0, 5)
    assert report["carried_epsilon"] == rounded_up(gaussian_epsilon(mu=math.sqrt(0.3), delta=1e-5), digits=6)
    assert "every device starts from ε = " in pfels("privacy", "--ledger", "ledger.json").stdout
