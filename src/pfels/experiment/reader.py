"""Stored runs, read and checked: finished, unfinished or damaged. Nothing here writes."""

import os
from collections.abc import Iterable, Iterator, Mapping
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
from pfels.experiment import log
from pfels.experiment.directory import RunDirectory
from pfels.runtime.files import printable, read_json

MARKS = ("config.toml", "rounds.jsonl", "summary.json", "checkpoint.safetensors")


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
    """The run in a directory, or an InputError that says what is wrong with it."""
    config = _config(path)
    environment = validated(Environment, _object(path / "environment.json") or {}, "environment.json")
    summary = _summary(path, config)
    _verify_checkpoint(path, config)
    columns: dict[str, list[float | None]] = {name: [] for name in (*COLUMNS, "server_epsilon")}
    limits: list[str | None] = []
    energies: dict[int, float] = {}
    last, on_air = None, False
    for last in _rounds(path, finished=summary is not None):
        for name in COLUMNS:
            columns[name].append(last[name])
        columns["server_epsilon"].append(last["privacy"]["server"]["epsilon"])
        limits.append(last["limit"])
        if last["device_energy"] is not None:
            on_air = True
            for device, energy in zip(last["cohort"], last["device_energy"], strict=True):
                energies[device] = energies.get(device, 0.0) + energy
    expected = config.rounds if summary is None else summary["rounds"]
    if len(limits) > expected or (summary is not None and len(limits) < expected):
        raise InputError(f"rounds.jsonl: holds {len(limits)} rounds of a run of {expected}")
    return StoredRun(
        path, config, environment, summary,
        {name: np.array(values, np.float64) for name, values in columns.items()}, tuple(limits),
        energies if on_air else None, last["privacy"] if last else None,
    )  # fmt: skip


def _candidates(top: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(top):
        folders.sort()
        if any(mark in files for mark in MARKS):
            yield Path(folder)


def _config(path: Path) -> Config:
    try:
        if not (path / "config.toml").is_file():
            raise InputError("is missing")
        if not (path / "config.toml").stat().st_size:
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


def _verify_checkpoint(path: Path, config: Config) -> None:
    """Refuse a run whose checkpoint is damaged, or whose log no longer fits it; a run without one is accepted."""
    try:
        RunDirectory(path, config).checkpoint()
    except InputError as error:
        raise InputError(str(error).replace(f"{path}{os.sep}", "").partition(";")[0]) from None


def _rounds(path: Path, *, finished: bool) -> Iterator[RoundRecord]:
    """The records of the log, one after the other."""
    try:
        for t, line in enumerate(log.lines(path / "rounds.jsonl")):
            record = validated(RoundRecord, line, f"rounds.jsonl, line {t + 1}")
            if record["round"] != t:
                raise InputError(f"rounds.jsonl, line {t + 1}: is round {record['round']}, must be round {t}")
            if record["device_energy"] is not None and len(record["device_energy"]) != len(record["cohort"]):
                raise InputError(f"rounds.jsonl, line {t + 1}: device_energy does not fit the cohort")
            yield record
    except FileNotFoundError:
        if finished:
            raise InputError("rounds.jsonl: is missing") from None
    except OSError as error:
        raise InputError(f"rounds.jsonl: cannot be read ({error.strerror})") from None
