"""A node's ledger on disk: what each of its devices has spent against the server, over all runs and restarts.

A charge is on the disk before anything is sent, and what would exceed the budget of the node's owner is refused. The
file is made once, by its owner. One that is missing or damaged is an error, never an empty ledger. The lock file beside
it counts the transmissions too, so that neither an older copy nor a second new file is taken for the ledger.

A path through a symbolic link is that of the file itself, and a file with a second hard link is refused: each charge
replaces the file, so the two names would become two ledgers.
"""

import fcntl
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pfels.documents.privacy import LedgerEntry, LedgerFile
from pfels.documents.validate import validated
from pfels.errors import InputError, RunError, shown
from pfels.privacy import checks
from pfels.privacy.events import rounded_up
from pfels.privacy.gaussian import gaussian_epsilon, gaussian_mu
from pfels.runtime.files import JsonLimits, printable, read_json, to_json, write_durably

MOST_SPENT = 1e12  # μ²; an ε of half of it, far beyond any budget
FORMAT = 1
DEVICES = 10**6  # on one node: a ledger of 91 MB, which takes 0.8 GB to read and 1.2 GB to charge
LIMITS = JsonLimits(size=2**27, groups=DEVICES + 100, values=4 * DEVICES)
ROUNDING = 1e-12  # relative; more than the last digits of μ² that floating point loses
CREATE = "pfels privacy --ledger FILE --create 0/4 --devices 100"
OWNER_ONLY = 0o600
NOTHING = LedgerEntry(mu_squared=0.0, participations=0)


@dataclass(frozen=True)
class OwnerBudget:
    """What a node's owner allows each device, over all runs: (ε, δ) against the server."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        checks.require_budget("budget-epsilon", self.epsilon)
        if not checks.SMALLEST_DELTA <= self.delta < 1:
            raise InputError(f"budget-delta = {self.delta:g}: must be in (0, 1)")

    @property
    def mu_squared(self) -> float:
        """The maximum μ² that the budget allows."""
        return gaussian_mu(epsilon=self.epsilon, delta=self.delta) ** 2 * (1 - ROUNDING)


def spent_epsilon(mu_squared: float, *, delta: float) -> float:
    """ε of a device that has spent μ², rounded up to six digits."""
    return rounded_up(gaussian_epsilon(mu=math.sqrt(mu_squared), delta=delta), digits=6)


@dataclass(frozen=True)
class DeviceLedger:
    """The ledger in a file."""

    path: Path

    def create(self, *, devices: int, partition: int, partitions: int) -> None:
        """Make the file of a node whose devices have never sent anything; one that exists is never replaced."""
        _require_layout(devices, partition, partitions)
        with self._locked():
            if os.path.lexists(self._file):
                raise InputError(f"{self._name}: exists already; a ledger is made once, and never starts again at zero")
            if sent := self._counted():
                raise InputError(
                    f"{self._name}: was here before, with {sent} transmissions; restore it from its newest backup"
                )
            self._write({
                "format": FORMAT, "devices": devices, "partition": partition, "partitions": partitions,
                "budget": None, "spent": {}, "sha256": "",
            })  # fmt: skip

    def renumber(self, *, devices: int, partition: int, partitions: int) -> LedgerEntry:
        """Say that the node's devices, each with its own data as before, have the numbers of another layout; what every
        one of them starts from there: the most that any has spent, since nothing says which of them is which."""
        _require_layout(devices, partition, partitions)
        self.read()  # so that one that is lost leaves no lock behind
        with self._locked():
            ledger = self.read()
            if (devices, partition, partitions) == (ledger["devices"], ledger["partition"], ledger["partitions"]):
                raise InputError(f"{self._name}: is of partition {partition} of {partitions} of {devices} already")
            before = [ledger.get("carried", NOTHING), *ledger["spent"].values()]
            carried: LedgerEntry = {
                "mu_squared": max(entry["mu_squared"] for entry in before),
                "participations": _transmissions(ledger),
            }
            new = {"devices": devices, "partition": partition, "partitions": partitions}
            self._write({**ledger, **new, "spent": {}, "carried": carried})  # type: ignore[typeddict-item]
        return carried

    def read(self) -> LedgerFile:
        """What the file holds, verified."""
        counted = self._counted()  # before the file: a charge writes it after that
        content = read_json(self._file, LIMITS)
        if content is None:
            raise InputError(
                f"{self._name}: not found; restore it from a backup, or, if its devices have never sent, make it with "
                f"{CREATE}"
            )
        if os.stat(self._file).st_nlink > 1:
            raise InputError(
                f"{self._name}: has a second name (a hard link), which would become a second ledger; delete the other"
            )
        ledger = validated(LedgerFile, content, self._name)
        if ledger["format"] != FORMAT:
            raise InputError(f"{self._name}: written in format {ledger['format']}; this version reads format {FORMAT}")
        if ledger["sha256"] != _digest(ledger):
            raise InputError(f"{self._name}: damaged or altered; restore it from a backup")
        for field in content.keys() - LedgerFile.__annotations__.keys():
            raise InputError(f"{self._name}: has an unknown field {shown(field)}; damaged or altered")
        devices, partition, partitions = ledger["devices"], ledger["partition"], ledger["partitions"]
        if not partition < partitions <= devices:
            raise InputError(f"{self._name}: of partition {partition} of {partitions} of {devices} devices; damaged")
        for device, entry in {"of before": ledger.get("carried", NOTHING), **ledger["spent"]}.items():
            if entry["mu_squared"] > MOST_SPENT:
                raise InputError(f"{self._name}: device {shown(device)} has spent more than any can; damaged")
        for device in ledger["spent"]:
            if not _carried(device, devices=devices, partition=partition, partitions=partitions):
                raise InputError(f"{self._name}: holds the device {shown(device)}, which is not on this node; damaged")
        if _transmissions(ledger) < counted:
            raise InputError(
                f"{self._name}: an older copy, with {_transmissions(ledger)} of {counted} transmissions; restore its "
                "newest one"
            )
        return ledger

    def check(self, budget: OwnerBudget, *, devices: int, partition: int, partitions: int) -> None:
        """An InputError unless this is the ledger of these devices, and they have spent no more than the budget."""
        ledger, allowed = self.read(), budget.mu_squared
        here, there = (partition, partitions, devices), (ledger["partition"], ledger["partitions"], ledger["devices"])
        if here != there:
            raise InputError(
                f"{self._name}: of partition {there[0]} of {there[1]} of {there[2]} devices; this node is partition "
                f"{here[0]} of {here[1]} of {here[2]}; a new ledger would forget what was spent: if each device keeps "
                f"its own data, run pfels privacy --ledger FILE --renumber {here[0]}/{here[1]} --devices {here[2]}"
            )
        spending = {f"device {device}": entry for device, entry in ledger["spent"].items()}
        for who, entry in {**spending, "every device": ledger.get("carried", NOTHING)}.items():
            if entry["mu_squared"] > allowed:
                spent = spent_epsilon(entry["mu_squared"], delta=budget.delta)
                raise InputError(
                    f"budget-epsilon = {budget.epsilon:g}: {who} has already spent {spent:g} at δ = "
                    f"{budget.delta:g}; it must be at least that ({self._name})"
                )

    def charge(self, costs: Mapping[int, float], budget: OwnerBudget) -> set[int]:
        """Charge each device μ², on the disk when this returns; the devices that are refused, and not charged."""
        with self._locked():
            ledger, allowed = self.read(), budget.mu_squared
            spent, refused = dict(ledger["spent"]), set[int]()
            start: LedgerEntry = {**ledger.get("carried", NOTHING), "participations": 0}
            for device, cost in costs.items():
                before = spent.get(str(device), start)
                total = (before["mu_squared"] + cost) * (1 + ROUNDING)
                if not total <= allowed:
                    refused.add(device)
                else:
                    spent[str(device)] = {"mu_squared": total, "participations": before["participations"] + 1}
            if len(refused) < len(costs):
                self._write({**ledger, "budget": {"epsilon": budget.epsilon, "delta": budget.delta}, "spent": spent})
        return refused

    @property
    def _name(self) -> str:
        return f"ledger = {printable(self.path)}"

    def _write(self, ledger: LedgerFile) -> None:
        write_durably(self._file, to_json({**ledger, "sha256": _digest(ledger)}), mode=OWNER_ONLY)
        with open(self._lock, "r+b") as file:
            file.write(f"{_transmissions(ledger):020d}\n".encode())  # always as long, so never half of an old one
            file.flush()
            os.fsync(file.fileno())

    @property
    def _file(self) -> Path:
        """The file itself, where the path leads through links: one lock and one count for all of them."""
        return Path(os.path.realpath(self.path))

    @property
    def _lock(self) -> Path:
        return self._file.with_name(f".{self._file.name}.lock")

    def _counted(self) -> int:
        """How many transmissions the lock file has counted; 0 if there is none yet, or for whoever may only look."""
        try:
            text = self._lock.read_bytes().strip()
        except (FileNotFoundError, PermissionError):
            return 0
        if text and not text.isdigit():
            raise InputError(f"{self._name}: {self._lock.name} is damaged; restore both from a backup")
        return int(text or b"0")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the file; a failure to lock or to write it is an error, and nothing is sent. Permissions that are
        wider than its owner's, as version 0.2 left them, are taken away."""
        if not self._file.parent.is_dir():
            raise InputError(f"{self._name}: its folder does not exist; choose one that does")
        try:
            lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, OWNER_ONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                for path in (self._lock, self._file):
                    with suppress(FileNotFoundError, PermissionError):  # of another owner: it is replaced soon
                        os.chmod(path, OWNER_ONLY)
                yield
            finally:
                os.close(lock)
        except OSError as error:
            reason = error.strerror or str(error)
            raise RunError(f"{self._name}: cannot be written ({reason}), so nothing is sent; fix the cause") from None


def _require_layout(devices: int, partition: int, partitions: int) -> None:
    checks.require_count("devices", devices)
    checks.require_count("partitions", partitions, maximum=devices)
    checks.require_count("partition", partition, minimum=0, maximum=partitions - 1)
    if -(-devices // partitions) > DEVICES:
        raise InputError(f"devices = {devices}: a node carries at most {DEVICES} devices; give more partitions")


def _carried(device: str, *, devices: int, partition: int, partitions: int) -> bool:
    """Whether this is the number of a device that the node carries, written as numbers are."""
    number = int(device) if device.isdecimal() and len(device) < 19 else -1
    return str(number) == device and number < devices and number % partitions == partition


def _transmissions(ledger: LedgerFile) -> int:
    earlier = ledger.get("carried", NOTHING)["participations"]
    return earlier + sum(entry["participations"] for entry in ledger["spent"].values())


def _digest(ledger: LedgerFile) -> str:
    content = {key: value for key, value in ledger.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
