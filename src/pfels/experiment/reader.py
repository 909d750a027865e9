"""Stored runs, read and checked: finished, unfinished or damaged. Nothing here writes."""

import math
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from pfels.arrays import Reals
from pfels.config.load import stored_config
from pfels.config.tree import Config
from pfels.documents.privacy import RoundPrivacy
from pfels.documents.run import Environment, RoundRecord, Summary
from pfels.documents.validate import validated
from pfels.errors import InputError
from pfels.experiment import log, stored
from pfels.experiment.agreement import Evidence, require_agreement
from pfels.experiment.checkpoint import Checkpoint
from pfels.experiment.checkpoint_file import StoredCheckpoint
from pfels.experiment.log import LogMark
from pfels.experiment.possible import ROWS
from pfels.experiment.replay import LogTotals
from pfels.runtime.files import printable, read_json

MARKS = ("config.toml", "rounds.jsonl", "summary.json", "checkpoint.safetensors")
ATTEMPTS = 20  # a run that goes on every few milliseconds changes between two of them in one case of a hundred
# What a run that is only looked at may hold, so that no log takes more than 1 GB of memory.
ROUNDS = 10**7
DEVICES = 2**22  # that have sent
LIMITS = 16  # names of what set β; there are two


@dataclass(frozen=True)
class StoredRun:
    """One run: its config, its figures per round, and its summary if it is finished.

    `columns` has one value per round, NaN where there is none, of train_loss, test_accuracy, test_loss, beta,
    noise_multiplier, energy, subcarriers, and the worst device's ε so far as server_epsilon. `limits` names what set β
    in each round. `device_energy` is by device id. `last` is the privacy up to the last round.
    """

    path: Path
    config: Config
    environment: Environment
    summary: Summary | None
    columns: Mapping[str, Reals]
    limits: tuple[str | None, ...]
    device_energy: Mapping[int, float] | None
    last: RoundPrivacy | None

    @property
    def rounds(self) -> int:
        """How many rounds are done."""
        return len(self.limits)

    @property
    def name(self) -> str:
        """The path as valid Unicode."""
        return printable(self.path)


@dataclass(frozen=True)
class Damaged:
    """A directory with a run that cannot be read, and the reason."""

    path: Path
    reason: str

    @property
    def name(self) -> str:
        """The path as valid Unicode."""
        return printable(self.path)


COLUMNS: Final = ("train_loss", "test_accuracy", "test_loss", "beta", "noise_multiplier", "energy", "subcarriers")


def find(paths: Iterable[Path]) -> tuple[list[StoredRun], list[Damaged]]:
    """Every run in these directories and below them, in the order of their paths, and the damaged ones."""
    runs: dict[Path, StoredRun] = {}
    damaged: dict[Path, Damaged] = {}
    for top in paths:
        if not top.is_dir():
            raise InputError(f"{printable(top)}: no such directory; give a run directory or a folder of them")
        found = list(_candidates(top))
        if not found:
            damaged[top.resolve()] = Damaged(top, "holds no run")
        for path in found:
            try:
                runs[path.resolve()] = read(path)
            except InputError as error:
                damaged[path.resolve()] = Damaged(path, str(error))
    return list(runs.values()), list(damaged.values())


def read(path: Path) -> StoredRun:
    """The run in a directory, or an InputError that says what is wrong with it.

    A run that goes on while it is read changes its files: what does not fit together is then read once more.
    """
    for _ in range(ATTEMPTS):
        before = _versions(path)
        try:
            return _read(path)
        except InputError:
            if _versions(path) == before:
                raise
    return _read(path)


def _versions(path: Path) -> list[tuple[int, int, int]]:
    """What tells whether a file has been replaced or written since."""
    found = []
    for name in MARKS:
        with suppress(OSError):
            about = os.lstat(path / name)
            found.append((about.st_ino, about.st_size, about.st_mtime_ns))
    return found


def _read(path: Path) -> StoredRun:
    config = read_config(path)
    environment = validated(Environment, _object(path / "environment.json") or {}, "environment.json")
    summary = _summary(path, config)
    totals, columns = LogTotals(), _Columns(config)
    try:
        found = stored.verified(path, config, config.digest(), wanted=lambda name: name not in ROWS, looking=True)
        for record in _records(path, config, found, totals):
            columns.add(record)
        if summary is not None and totals.rounds != summary["rounds"]:
            raise InputError(f"rounds.jsonl: holds {totals.rounds} rounds of a run of {summary['rounds']}")
        if summary is not None:
            _require_agreement(summary, totals, found, config, environment)
    except InputError as error:
        raise InputError(str(error).replace(f"{path}{os.sep}", "").partition(";")[0]) from None
    return StoredRun(
        path, config, environment, summary, columns.arrays(), columns.limits, columns.energies,
        totals.last["privacy"] if totals.last else None,
    )  # fmt: skip


def _records(path: Path, config: Config, found: StoredCheckpoint | None, totals: LogTotals) -> Iterator[RoundRecord]:
    """The records of the log, no more than the run has rounds; those of a log that is not there are none."""
    try:
        with log.opened(path / "rounds.jsonl", config) as file:
            for record in stored.records(path, config, found, file, totals):
                if totals.rounds > min(config.rounds, ROUNDS):
                    raise InputError(f"rounds.jsonl: holds {totals.rounds} rounds of a run of {config.rounds}")
                yield record
    except FileNotFoundError:
        if found is not None:
            raise InputError("rounds.jsonl: is missing") from None
    except OSError as error:
        raise InputError(f"rounds.jsonl: cannot be read ({error.strerror})") from None
    if found is not None and totals.rounds < found.notes["round"]:
        raise InputError(f"rounds.jsonl: holds {totals.rounds} rounds, and the checkpoint {found.notes['round']}")


def _require_agreement(
    summary: Summary, totals: LogTotals, found: StoredCheckpoint | None, config: Config, environment: Environment
) -> None:
    if found is None:
        raise InputError("checkpoint.safetensors: is missing, and with it what the summary must agree with")
    notes, count, diverged = found.notes, found.entries["theta"].count, not found.finite["theta"]
    last = Checkpoint(notes["round"], found.tensors, notes["totals"], LogMark(), count, diverged, notes.get("stopped"))
    require_agreement(summary, Evidence(config, totals, last, environment), Path("summary.json"))


class _Columns:
    """The figures per round as they are read, a few bytes for each, and the energy of each device."""

    def __init__(self, config: Config) -> None:
        self._values = {name: array("d") for name in (*COLUMNS, "server_epsilon")}
        self._limits = array("b")
        self._names: list[str | None] = []
        self._energies: dict[int, float] = {}
        self._on_air = False

    def add(self, record: RoundRecord) -> None:
        for name in COLUMNS:
            value = record[name]
            self._values[name].append(math.nan if value is None else value)
        epsilon = record["privacy"]["server"]["epsilon"]
        self._values["server_epsilon"].append(math.nan if epsilon is None else epsilon)
        if record["limit"] not in self._names:
            self._names.append(record["limit"])
        if len(self._names) > LIMITS:
            raise InputError(f"rounds.jsonl: names more than {LIMITS} limits")
        self._limits.append(self._names.index(record["limit"]))
        if record["device_energy"] is not None:
            self._on_air = True
            for device, energy in zip(record["cohort"], record["device_energy"], strict=True):
                self._energies[device] = self._energies.get(device, 0.0) + energy
        if len(self._energies) > DEVICES:
            raise InputError(f"rounds.jsonl: more than {DEVICES} devices have sent; too many to look at")

    def arrays(self) -> dict[str, Reals]:
        return {name: np.array(values, np.float64) for name, values in self._values.items()}

    @property
    def limits(self) -> tuple[str | None, ...]:
        return tuple(self._names[at] for at in self._limits)

    @property
    def energies(self) -> dict[int, float] | None:
        return self._energies if self._on_air else None


def _candidates(top: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(top):
        folders.sort()
        if any(mark in files for mark in MARKS):
            yield Path(folder)


def read_config(path: Path) -> Config:
    """The config of the run in a directory."""
    try:
        if not os.path.lexists(path / "config.toml"):
            raise InputError("is missing")
        if not os.lstat(path / "config.toml").st_size:
            raise InputError("is empty")
        return stored_config(path / "config.toml")
    except InputError as error:
        reason = str(error).removeprefix(f"{path / 'config.toml'}: ")
        raise InputError(f"config.toml: {reason}") from None


def _object(path: Path) -> dict[str, Any] | None:
    try:
        return read_json(path)
    except InputError as error:
        raise InputError(f"{path.name}: {str(error).removeprefix(f'{path}: ')}") from None


def _summary(path: Path, config: Config) -> Summary | None:
    content = _object(path / "summary.json")
    if content is None:
        return None
    summary = validated(Summary, content, "summary.json")
    stopped = summary.get("stopped")
    if stopped is not None and summary["rounds"] >= stopped["planned_rounds"]:
        raise InputError(f"summary.json: stopped after {summary['rounds']} of {stopped['planned_rounds']} rounds")
    planned = summary["rounds"] if stopped is None else stopped["planned_rounds"]
    for key, found in (("scheme", summary["scheme"]), ("seed", summary["seed"]), ("rounds", planned)):
        if found != getattr(config, key):
            raise InputError(f"summary.json: {key} = {found}, but config.toml has {getattr(config, key)}")
    return summary
