"""The checkpoint and the log of a stored run, verified one by one and held against each other."""

import math
from collections.abc import Iterator
from pathlib import Path

from pfels.config.tree import Config
from pfels.documents.run import RoundRecord
from pfels.errors import InputError
from pfels.experiment import checkpoint_file, log, replay
from pfels.experiment.checkpoint import Checkpoint
from pfels.experiment.checkpoint_file import StoredCheckpoint, Wanted
from pfels.experiment.ledger import Ledger
from pfels.experiment.log import Log
from pfels.experiment.possible import largest, require_possible
from pfels.experiment.replay import LogTotals, Sealed
from pfels.runtime.lazy_torch import torch

NORMS = 1e-3  # relative; of rows in float32


def checkpoint(
    path: Path, config: Config, digest: str, *, wanted: Wanted, dimension: int | None, totals: LogTotals
) -> Checkpoint | None:
    """The latest checkpoint in a run directory, or None where there is none yet; see `RunDirectory.checkpoint`. The
    config that it was written for has this `digest`."""
    found = verified(path, config, digest, wanted=wanted, dimension=dimension)
    if found is None:
        return None
    notes = found.notes
    with log.opened(path / "rounds.jsonl", config) as file:
        for _ in records(path, config, found, file, totals):
            if totals.rounds == notes["round"]:
                break
        mark = file.marked(notes["log_size"], rounds=notes["round"])
    count, diverged = found.entries["theta"].count, not found.finite["theta"]
    stopped = notes.get("stopped")
    return Checkpoint(notes["round"], found.tensors, notes["totals"], mark, count, diverged, stopped)


def verified(
    path: Path, config: Config, digest: str, *, wanted: Wanted, dimension: int | None = None, looking: bool = False
) -> StoredCheckpoint | None:
    """The latest checkpoint, of which the hash is right and the content is possible; `looking` says that the run is not
    continued, so that its config may be an attacker's too."""
    file = path / "checkpoint.safetensors"
    cure = f"restore it from a backup, or delete {path} and start again"
    limits = largest(config, dimension=dimension, looking=looking)
    found = checkpoint_file.read(file, cure=cure, wanted=wanted, largest=limits)
    if found is None:
        return None
    if found.notes["config"] != digest:
        raise InputError(f"{file}: belongs to another config; give {path} back the config.toml it began with")
    require_possible(found, config, file)
    return found


def records(
    path: Path, config: Config, found: StoredCheckpoint | None, file: Log, totals: LogTotals
) -> Iterator[RoundRecord]:
    """The records of the open log, held against the checkpoint if there is one; see `replay.records`."""
    sealed = None
    if found is not None:
        notes = found.notes
        ledger = Ledger.restore(found.tensors, notes["totals"], devices=config.data.devices)
        last = notes["round"] == config.rounds or "stopped" in notes
        sealed = Sealed(notes["round"], notes["log_size"], notes["log_sha256"], notes["totals"], ledger, last)
    return replay.records(file, sealed, totals, config, path / "rounds.jsonl")


def require_continuable(last: Checkpoint | None, dimension: int | None, path: Path) -> None:
    """An InputError unless a run whose model has this length can go on from a checkpoint."""
    file = path / "checkpoint.safetensors"
    if last is None:
        return
    if dimension not in (None, last.dimension):
        raise InputError(f"{file}: a model of {last.dimension} parameters; must be {dimension}")
    for name in ("memory.sizes", "decoded.sizes"):
        if name in last.tensors and bool((last.tensors[name] > last.dimension).any()):
            raise InputError(f"{file}: {name}: must be at most {last.dimension}")
    if "memory.norms" in last.tensors:
        rows = torch.split(last.tensors["memory"].double(), last.tensors["memory.sizes"].tolist())
        for row, norm in zip(rows, last.tensors["memory.norms"].tolist(), strict=True):
            if norm and not math.isclose(norm, float(torch.linalg.vector_norm(row)), rel_tol=NORMS, abs_tol=1e-30):
                raise InputError(f"{file}: memory.norms: {norm:g} is not the norm of what is kept; altered")
    if last.diverged:
        raise InputError(
            f"{file}: its model is not finite: the training has diverged; choose a smaller training.learning_rate or "
            "server.learning_rate, or scale the data, and another --out"
        )
