"""Stored runs as a reader meets them: finished, unfinished or damaged. Nothing here writes."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pfels.arrays import Reals
from pfels.config.load import load_config
from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.experiment import log
from pfels.experiment.directory import RunDirectory
from pfels.experiment.schema import StoredRound, StoredSummary, checked
from pfels.runtime.files import read_json, show

MARKS = ("config.toml", "rounds.jsonl", "summary.json", "checkpoint.safetensors")


@dataclass(frozen=True)
class StoredRun:
    """One run: its config, what each round left in `columns` (NaN where it left nothing), and its summary if finished.

    `columns` holds train_loss, test_accuracy, test_loss, beta, noise_multiplier, energy, subcarriers, and the worst
    device's ε so far as server_epsilon. `limits` names what set β, round by round. `device_energy` is by device id.
    """

    path: Path
    config: Config
    environment: Mapping[str, Any]
    summary: Mapping[str, Any] | None
    columns: Mapping[str, Reals]
    limits: tuple[str | None, ...]
    device_energy: Mapping[int, float] | None
    last: Mapping[str, Any] | None

    @property
    def rounds(self) -> int:
        """How many rounds are done."""
        return len(self.limits)

    @property
    def name(self) -> str:
        """The path as text that any file can hold, whatever bytes it is made of."""
        return show(self.path)


@dataclass(frozen=True)
class Damaged:
    """A directory that should hold a run and does not hold a whole one, with the reason."""

    path: Path
    reason: str

    @property
    def name(self) -> str:
        """The path as text that any file can hold, whatever bytes it is made of."""
        return show(self.path)


COLUMNS = ("train_loss", "test_accuracy", "test_loss", "beta", "noise_multiplier", "energy", "subcarriers")


def find(paths: Iterable[Path]) -> tuple[list[StoredRun], list[Damaged]]:
    """Every run in these directories and below them, in the order of their paths, and every damaged one."""
    runs: dict[Path, StoredRun] = {}
    damaged: dict[Path, Damaged] = {}
    for top in paths:
        if not top.is_dir():
            raise InputError(f"{show(top)}: no such directory; give a run directory or a folder of them")
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
    environment, summary = _object(path / "environment.json"), _summary(path, config)
    _verify_checkpoint(path, config)
    columns: dict[str, list[float | None]] = {name: [] for name in (*COLUMNS, "server_epsilon")}
    limits: list[str | None] = []
    energies: dict[int, float] = {}
    last, on_air = None, False
    for last in _rounds(path, finished=summary is not None):
        for name in COLUMNS:
            columns[name].append(getattr(last, name))
        columns["server_epsilon"].append(last.privacy.server.epsilon)
        limits.append(last.limit)
        if last.device_energy is not None:
            on_air = True
            for device, energy in zip(last.cohort, last.device_energy, strict=True):
                energies[device] = energies.get(device, 0.0) + energy
    expected = config.rounds
    if len(limits) > expected or (summary is not None and len(limits) < expected):
        raise InputError(f"rounds.jsonl: holds {len(limits)} rounds of a run of {expected}")
    return StoredRun(
        path, config, environment or {}, summary,
        {name: np.array(values, np.float64) for name, values in columns.items()}, tuple(limits),
        energies if on_air else None, last.privacy.model_dump(mode="json") if last else None,
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
        return load_config(path / "config.toml")
    except InputError as error:
        reason = str(error).removeprefix(f"{path / 'config.toml'}: ")
        raise InputError(f"config.toml: {reason}") from None


def _object(path: Path) -> dict[str, Any] | None:
    try:
        return read_json(path)
    except InputError as error:
        raise InputError(f"{path.name}: {str(error).removeprefix(f'{path}: ')}") from None


def _summary(path: Path, config: Config) -> dict[str, Any] | None:
    content = _object(path / "summary.json")
    if content is None:
        return None
    summary = checked(StoredSummary, content, "summary.json").model_dump(mode="json")
    for key in ("scheme", "seed", "rounds"):
        if summary[key] != getattr(config, key):
            raise InputError(f"summary.json: {key} = {summary[key]}, but config.toml has {getattr(config, key)}")
    return summary


def _verify_checkpoint(path: Path, config: Config) -> None:
    """Refuse a run whose checkpoint is damaged, or whose log no longer fits it; one without a checkpoint may pass."""
    try:
        RunDirectory(path, config).checkpoint()
    except InputError as error:
        raise InputError(str(error).replace(f"{path}{os.sep}", "").partition(";")[0]) from None
    except KeyError as error:
        raise InputError(f"checkpoint.safetensors: lacks {error}") from None


def _rounds(path: Path, *, finished: bool) -> Iterator[StoredRound]:
    """What each round left, one after the other."""
    try:
        for t, line in enumerate(log.lines(path / "rounds.jsonl")):
            record = checked(StoredRound, line, f"rounds.jsonl, line {t + 1}")
            if record.round != t:
                raise InputError(f"rounds.jsonl, line {t + 1}: is round {record.round}, must be round {t}")
            if record.device_energy is not None and len(record.device_energy) != len(record.cohort):
                raise InputError(f"rounds.jsonl, line {t + 1}: device_energy does not fit the cohort")
            yield record
    except FileNotFoundError:
        if finished:
            raise InputError("rounds.jsonl: is missing") from None
    except OSError as error:
        raise InputError(f"rounds.jsonl: cannot be read ({error.strerror})") from None
