"""A node's ledger: charged on the disk before it returns, never above the budget, never mistaken for an empty one."""

import json
import math
import multiprocessing
import os
import re
import stat
from pathlib import Path

import pytest

from pfels.documents.privacy import LedgerFile
from pfels.errors import InputError, RunError
from pfels.privacy import device_ledger
from pfels.privacy.device_ledger import DeviceLedger, OwnerBudget, spent_epsilon
from pfels.privacy.gaussian import gaussian_epsilon
from tests.contract.misfits import misfits

BUDGET = OwnerBudget(epsilon=4.0, delta=1e-5)
NODE = {"devices": 100, "partition": 1, "partitions": 4}


@pytest.fixture
def ledger(tmp_path: Path) -> DeviceLedger:
    made = DeviceLedger(tmp_path / "ledger.json")
    made.create(**NODE)
    return made


def test_charges_add_up_over_instances_and_are_rounded_up(ledger: DeviceLedger):
    for _ in range(10):
        assert DeviceLedger(ledger.path).charge({1: 0.01, 5: 0.02}, BUDGET) == set()
    spent = ledger.read()["spent"]
    for device, total in (("1", 0.1), ("5", 0.2)):
        assert total <= spent[device]["mu_squared"] <= total * (1 + 1e-10)
        assert spent[device]["participations"] == 10
    assert misfits(LedgerFile, json.loads(ledger.path.read_text())) == []


def test_no_device_ever_spends_more_than_the_budget(ledger: DeviceLedger):
    answers = [ledger.charge({1: 0.05, 5: 1e-9}, BUDGET) for _ in range(400)]
    assert answers[0] == set()
    first = answers.index({1})
    assert all(answer == {1} for answer in answers[first:]), "once spent, always refused; the other device is not"
    spent = ledger.read()["spent"]["1"]
    assert spent["participations"] == first
    assert gaussian_epsilon(mu=math.sqrt(spent["mu_squared"]), delta=1e-5) <= BUDGET.epsilon
    assert gaussian_epsilon(mu=math.sqrt(spent["mu_squared"] + 0.05), delta=1e-5) > BUDGET.epsilon
    assert ledger.charge({1: math.inf}, BUDGET) == {1}, "without noise, nothing is within a budget"
    assert ledger.charge({1: math.nan}, BUDGET) == {1}


def test_the_budget_is_what_its_mu_gives():
    assert spent_epsilon(BUDGET.mu_squared, delta=BUDGET.delta) == BUDGET.epsilon
    assert spent_epsilon(0.0, delta=1e-5) == 0
    assert spent_epsilon(0.123, delta=1e-5) >= gaussian_epsilon(mu=math.sqrt(0.123), delta=1e-5)


def test_a_charge_is_on_the_disk_before_it_returns(ledger: DeviceLedger, monkeypatch: pytest.MonkeyPatch):
    synced = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(device_ledger.os, "fsync", noted)
    ledger.charge({1: 0.01}, BUDGET)
    folder = str(ledger.path.parent)
    assert len(synced) == 3
    assert synced[0].startswith(folder)
    assert synced[1] == folder, "the new file, and then its name"
    assert synced[2] == f"{folder}/.ledger.json.lock", "and then the count beside it"


def _charge_many(path: Path) -> None:
    for _ in range(20):
        DeviceLedger(path).charge({1: 0.001}, BUDGET)


def test_processes_that_charge_at_the_same_time_lose_no_charge(ledger: DeviceLedger):
    workers = [multiprocessing.get_context("spawn").Process(target=_charge_many, args=(ledger.path,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 3
    assert ledger.read()["spent"]["1"]["participations"] == 60


def test_a_lost_ledger_is_an_error_and_not_an_empty_one(ledger: DeviceLedger):
    ledger.charge({1: 0.01}, BUDGET)
    ledger.path.unlink()
    for use in (ledger.read, lambda: ledger.charge({1: 0.01}, BUDGET), lambda: ledger.check(BUDGET, **NODE)):
        with pytest.raises(InputError, match=r"ledger\.json: not found; restore it from a backup"):
            use()
    assert not ledger.path.exists()


def test_an_older_copy_of_a_ledger_is_refused_and_the_newest_one_is_not(ledger: DeviceLedger):
    """Else a restored backup would let devices spend again what they have spent since."""
    ledger.charge({1: 0.01, 5: 0.02}, BUDGET)
    older = ledger.path.read_bytes()
    ledger.charge({1: 0.01}, BUDGET)
    newest = ledger.path.read_bytes()
    ledger.path.write_bytes(older)
    for use in (ledger.read, lambda: ledger.charge({1: 0.01}, BUDGET), lambda: ledger.check(BUDGET, **NODE)):
        with pytest.raises(
            InputError, match=r"ledger\.json: an older copy, with 2 of 3 transmissions; restore its newest"
        ):
            use()
    assert ledger.path.read_bytes() == older
    ledger.path.write_bytes(newest)
    assert ledger.charge({1: 0.01}, BUDGET) == set()
    assert ledger.read()["spent"]["1"]["participations"] == 3


def test_a_kill_between_the_ledger_and_its_count_loses_nothing(ledger: DeviceLedger):
    """The count follows the file, so it is at most behind."""
    ledger.charge({1: 0.01}, BUDGET)
    lock = ledger.path.with_name(".ledger.json.lock")
    behind = lock.read_bytes()
    ledger.charge({1: 0.01}, BUDGET)
    lock.write_bytes(behind)
    assert ledger.charge({1: 0.01}, BUDGET) == set()
    assert int(lock.read_bytes()) == ledger.read()["spent"]["1"]["participations"] == 3


def test_a_new_ledger_in_place_of_one_that_is_lost_does_not_start_at_zero(ledger: DeviceLedger):
    ledger.charge({1: 0.01, 5: 0.02}, BUDGET)
    ledger.path.unlink()
    with pytest.raises(InputError, match=r"was here before, with 2 transmissions; restore it from its newest backup"):
        ledger.create(**NODE)
    assert not ledger.path.exists()
    ledger.path.with_name(".ledger.json.lock").write_text("x")
    with pytest.raises(InputError, match=r"\.ledger\.json\.lock is damaged"):
        ledger.create(**NODE)


def test_a_ledger_that_has_sent_nothing_may_be_made_again(ledger: DeviceLedger):
    ledger.path.unlink()
    ledger.create(**NODE)
    assert ledger.charge({1: 0.01}, BUDGET) == set()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-20],
        lambda text: "",
        lambda text: text.replace('"participations": 1', '"participations": 0'),
        lambda text: text.replace('"mu_squared": 0.01', '"mu_squared": 0.00'),
        lambda text: text.replace('"partition": 1', '"partition": 2'),
        lambda text: text.replace('"format": 1', '"format": 2'),
        lambda text: "{}",
        lambda text: "[]",
    ],
)
def test_a_damaged_ledger_is_one_line_and_stays_as_it_is(ledger: DeviceLedger, damage):
    ledger.charge({1: 0.01}, BUDGET)
    ledger.path.write_text(damage(ledger.path.read_text()))
    left = ledger.path.read_text()
    with pytest.raises(InputError, match=r"ledger\.json") as caught:
        ledger.charge({1: 0.01}, BUDGET)
    assert "\n" not in str(caught.value)
    assert ledger.path.read_text() == left


ENTRY = {"mu_squared": 0.1, "participations": 1}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"spent": {"1": ENTRY | {"mu_squared": 1.1e12}}}, "device 1 has spent more than any can; damaged"),
        ({"carried": ENTRY | {"mu_squared": 1.1e12}}, "device of before has spent more than any can; damaged"),
        ({"spent": {"2": ENTRY}}, "holds the device 2, which is not on this node; damaged"),
        ({"spent": {"101": ENTRY}}, "holds the device 101, which is not on this node; damaged"),
        ({"spent": {"01": ENTRY}}, "holds the device 01, which is not on this node; damaged"),
        ({"spent": {"-3": ENTRY}}, "holds the device -3, which is not on this node; damaged"),
        ({"spent": {"5" * 4400: ENTRY}}, "which is not on this node; damaged"),
        ({"partition": 4}, "of partition 4 of 4 of 100 devices; damaged"),
        ({"partitions": 101}, "of partition 1 of 101 of 100 devices; damaged"),
        ({"later": 1}, "has an unknown field later; damaged or altered"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_ledger_that_no_charges_leave_is_refused_though_its_hash_is_right(ledger: DeviceLedger, change, line: str):
    ledger._write({**ledger.read(), **change})
    left = ledger.path.read_bytes()
    for use in (ledger.read, lambda: ledger.charge({1: 0.01}, BUDGET), lambda: ledger.check(BUDGET, **NODE)):
        with pytest.raises(InputError, match=re.escape(line)):
            use()
    assert ledger.path.read_bytes() == left


def test_a_ledger_is_made_once(ledger: DeviceLedger, tmp_path: Path):
    with pytest.raises(InputError, match="exists already; a ledger is made once"):
        ledger.create(**NODE)
    with pytest.raises(InputError, match="its folder does not exist"):
        DeviceLedger(tmp_path / "nowhere" / "ledger.json").create(**NODE)
    with pytest.raises(InputError, match="partition = 4: must be a whole number from 0 to 3"):
        DeviceLedger(tmp_path / "other.json").create(devices=100, partition=4, partitions=4)


@pytest.mark.parametrize("other", [{"devices": 101}, {"partition": 0}, {"partitions": 5}])
def test_a_ledger_of_other_devices_is_refused(ledger: DeviceLedger, other: dict[str, int]):
    ledger.check(BUDGET, **NODE)
    with pytest.raises(InputError, match="of partition 1 of 4 of 100 devices; this node is partition"):
        ledger.check(BUDGET, **NODE | other)


def test_a_budget_below_what_is_spent_is_refused(ledger: DeviceLedger):
    ledger.charge({5: 0.2}, BUDGET)
    with pytest.raises(InputError, match=r"budget-epsilon = 1: device 5 has already spent 1\.760\d* at δ = 1e-05"):
        ledger.check(OwnerBudget(epsilon=1.0, delta=1e-5), **NODE)
    with pytest.raises(InputError, match="budget-epsilon = 0: must be a finite number > 0"):
        OwnerBudget(epsilon=0.0, delta=1e-5)


def test_what_cannot_be_written_is_not_charged(ledger: DeviceLedger, monkeypatch: pytest.MonkeyPatch):
    def full(path: Path, content: bytes, **options: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(device_ledger, "write_durably", full)
    with pytest.raises(RunError, match="cannot be written \\(No space left on device\\), so nothing is sent"):
        ledger.charge({1: 0.01}, BUDGET)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_ledger_and_its_lock_are_their_owner_s_alone_also_when_they_are_replaced(ledger: DeviceLedger):
    lock = ledger.path.with_name(".ledger.json.lock")
    assert {mode(ledger.path), mode(lock)} == {0o600}
    for path in (ledger.path, lock):
        path.chmod(0o664)  # as an earlier version left them, or a restored backup
    ledger.charge({1: 0.01}, BUDGET)
    assert {mode(ledger.path), mode(lock)} == {0o600}
    ledger.path.chmod(0o666)
    assert ledger.charge({1: math.inf}, BUDGET) == {1}, "nothing is written"
    assert mode(ledger.path) == 0o600


@pytest.mark.parametrize("kind", ["file", "folder", "chain"])
def test_a_path_through_a_link_is_the_ledger_itself(ledger: DeviceLedger, tmp_path: Path, kind: str):
    """Else a link and its target would be two ledgers after the first charge."""
    link = tmp_path / "link.json"
    if kind == "file":
        link.symlink_to("ledger.json")
    elif kind == "chain":
        (tmp_path / "middle.json").symlink_to(ledger.path)
        link.symlink_to("middle.json")
    else:
        (tmp_path / "folder").symlink_to(tmp_path, target_is_directory=True)
        link = tmp_path / "folder" / "ledger.json"
    for _ in range(5):
        assert DeviceLedger(link).charge({1: 0.001}, BUDGET) == set()
        assert ledger.charge({1: 0.001}, BUDGET) == set()
    assert ledger.read()["spent"]["1"]["participations"] == 10
    assert DeviceLedger(link).read() == ledger.read()
    assert link.is_symlink() == (kind != "folder"), "the link stays one"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.endswith(".lock")) == [".ledger.json.lock"]
    with pytest.raises(InputError, match="exists already"):
        DeviceLedger(link).create(**NODE)


def test_a_link_to_nothing_is_no_empty_ledger(tmp_path: Path):
    link = tmp_path / "link.json"
    link.symlink_to("lost.json")
    with pytest.raises(InputError, match=r"link\.json: not found"):
        DeviceLedger(link).read()
    DeviceLedger(link).create(**NODE)
    assert (tmp_path / "lost.json").is_file()
    assert link.is_symlink()


def test_a_ledger_with_a_second_name_is_refused_by_either(ledger: DeviceLedger, tmp_path: Path):
    """A charge replaces the file under one name, and the other would keep what had been spent until then."""
    ledger.charge({1: 0.01}, BUDGET)
    os.link(ledger.path, tmp_path / "second.json")
    for path in (ledger.path, tmp_path / "second.json"):
        with pytest.raises(InputError, match="has a second name"):
            DeviceLedger(path).charge({1: 0.01}, BUDGET)
    (tmp_path / "second.json").unlink()
    assert ledger.charge({1: 0.01}, BUDGET) == set()


def test_a_lock_is_never_another_file(ledger: DeviceLedger, tmp_path: Path):
    other, lock = tmp_path / "other", tmp_path / ".ledger.json.lock"
    other.write_text("precious")
    lock.unlink()
    lock.symlink_to(other)
    with pytest.raises((InputError, RunError)):
        ledger.charge({1: 0.01}, BUDGET)
    assert other.read_text() == "precious"


def test_another_layout_keeps_the_most_that_any_device_has_spent(ledger: DeviceLedger):
    ledger.charge({1: 0.2, 5: 0.1}, BUDGET)
    ledger.charge({5: 0.05}, BUDGET)
    after = {"devices": 120, "partition": 1, "partitions": 5}
    with pytest.raises(InputError, match=r"--renumber 1/5 --devices 120"):
        ledger.check(BUDGET, **after)
    ledger.renumber(**after)
    ledger.check(BUDGET, **after)
    with pytest.raises(InputError, match=r"every device has already spent 1\.760\d*"):
        ledger.check(OwnerBudget(epsilon=1.0, delta=1e-5), **after)
    most = ledger.read()["carried"]["mu_squared"]
    assert 0.2 <= most <= 0.2 * (1 + 1e-10)
    while ledger.charge({6: 0.1}, BUDGET) == set():
        pass
    entry = ledger.read()["spent"]["6"]
    assert entry["participations"] == int((BUDGET.mu_squared - most) / 0.1), "what was carried over counts"
    assert gaussian_epsilon(mu=math.sqrt(entry["mu_squared"]), delta=1e-5) <= BUDGET.epsilon
    assert misfits(LedgerFile, json.loads(ledger.path.read_text())) == []
    ledger.renumber(**NODE)
    assert ledger.read()["carried"]["mu_squared"] == entry["mu_squared"], "there and back again forgets nothing"
    with pytest.raises(InputError, match="of partition 1 of 4 of 100 already"):
        ledger.renumber(**NODE)


def test_a_copy_from_before_other_numbers_is_an_older_copy(ledger: DeviceLedger):
    ledger.charge({1: 0.2}, BUDGET)
    older = ledger.path.read_bytes()
    ledger.renumber(devices=120, partition=1, partitions=5)
    ledger.charge({1: 0.2}, BUDGET)
    ledger.path.write_bytes(older)
    with pytest.raises(InputError, match="an older copy, with 1 of 2 transmissions"):
        ledger.check(BUDGET, **NODE)
