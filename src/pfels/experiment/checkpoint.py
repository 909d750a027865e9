"""`checkpoint.safetensors`: the state of a run between two rounds, as tensors and a description, under one hash.

The file is in the safetensors format, and is written here, tensor by tensor: the library would hold a second copy of
the whole state, and ends the process where memory is short.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from pfels.documents.run import CheckpointNotes, Stopped, Totals
from pfels.documents.validate import validated
from pfels.errors import InputError
from pfels.experiment.log import LogMark
from pfels.runtime.files import written_atomically
from pfels.runtime.lazy_torch import Tensor, torch

FORMAT = 3
UNTYPED = 2  # the format before, which is read: its hash leaves out types and shapes
NAMES = {"I64": "int64", "F64": "float64", "F32": "float32"}  # the file has tensors in this order, then by name
# Every tensor that a checkpoint may hold: its type, and with which others it goes element by element.
REQUIRED = {
    "theta": ("float32", "theta"),
    "server.ids": ("int64", "server"),
    "server.mu_squared": ("float64", "server"),
    "server.participations": ("int64", "server"),
    "noise_multipliers": ("float64", "noise"),
    "noise_multiplier_rounds": ("int64", "noise"),
}
OPTIONAL = {
    "velocity": ("float32", "theta"),
    "average": ("float32", "theta"),
    "memory": ("float32", "memory rows"),
    "memory.ids": ("int64", "memory"),
    "memory.norms": ("float64", "memory"),
    "memory.used_until": ("int64", "memory"),
    "memory.sizes": ("int64", "memory"),
    "decoded": ("float32", "decoded rows"),
    "decoded.rounds": ("int64", "decoded"),
    "decoded.sizes": ("int64", "decoded"),
}


@dataclass(frozen=True)
class Checkpoint:
    """The state after `round` rounds: tensors by name, totals as JSON values, and the log up to there. Of a run that
    was `stopped` it is the last one, which has no memory of devices to go on with."""

    round: int
    tensors: Mapping[str, Tensor]
    totals: Mapping[str, Any]
    mark: LogMark
    stopped: Stopped | None = None


def write(path: Path, checkpoint: Checkpoint, *, config: str) -> None:
    """Replace the file by a newer checkpoint of the run whose config has this hash."""
    about = {
        "format": FORMAT,
        "config": config,
        "round": checkpoint.round,
        "totals": checkpoint.totals,
        "log_size": checkpoint.mark.size,
        "log_sha256": checkpoint.mark.sha256.hexdigest(),
    }
    if checkpoint.stopped is not None:
        about["stopped"] = checkpoint.stopped
    text = json.dumps(about, sort_keys=True, allow_nan=False)
    with written_atomically(path) as file:
        for part in safetensors(checkpoint.tensors, f"{digest(checkpoint.tensors, text)} {text}"):
            file.write(part)


def safetensors(tensors: Mapping[str, Tensor], note: str) -> Iterator[bytes]:
    """The bytes of a safetensors file with these tensors and a note: as the library writes it, in parts."""
    types = {getattr(torch, name): code for code, name in NAMES.items()}
    order = sorted(tensors, key=lambda name: (list(NAMES).index(types[tensors[name].dtype]), name))
    header: dict[str, Any] = {"__metadata__": {"pfels": note}}
    at = 0
    for name in order:
        tensor = tensors[name]
        size = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": types[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + size],
        }  # fmt: skip
        at += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        yield tensors[name].contiguous().numpy().tobytes()


def read(path: Path, *, cure: str) -> tuple[CheckpointNotes, dict[str, Tensor]]:
    """The description and the tensors of a checkpoint, verified; `cure` says what to do about a damaged one."""
    damaged = InputError(f"{path}: truncated or altered; {cure}")
    if not path.is_file():
        raise damaged
    try:
        with safe_open(path, framework="pt") as file:
            hashed, _, text = file.metadata()["pfels"].partition(" ")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        content = json.loads(text)
        version = content["format"]
        typed = version != UNTYPED
        if hashed != digest(tensors, text, typed=typed):
            raise damaged
    except InputError:
        raise
    # What the library raises on bytes that are no such file, and what follows from a description that is none of ours.
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RecursionError):
        raise damaged from None
    if version not in (UNTYPED, FORMAT):
        raise InputError(f"{path}: written in format {version!r}, this version reads format {FORMAT}; {cure}")
    notes = validated(CheckpointNotes, content, f"{path}")
    if set(notes["totals"]) != set(Totals.__annotations__):
        raise InputError(f"{path}: totals: must be {', '.join(Totals.__annotations__)}")
    _require_description(tensors, path)
    return notes, tensors


def _require_description(tensors: Mapping[str, Tensor], path: Path) -> None:
    """An InputError unless every tensor is one that a checkpoint holds, of its type and of its length."""
    known = REQUIRED | OPTIONAL
    missing = [name for name in REQUIRED if name not in tensors]
    if missing or not set(tensors) <= set(known):
        raise InputError(
            f"{path}: lacks {missing[0]}" if missing else f"{path}: holds {min(set(tensors) - set(known))}"
        )
    lengths: dict[str, int] = {}
    for name, tensor in tensors.items():
        kind, group = known[name]
        rows = name == "memory" and tensor.ndim == 2 and "memory.sizes" not in tensors  # version 0.1 before echo
        if tensor.dtype != getattr(torch, kind) or not (tensor.ndim == 1 or rows):
            raise InputError(f"{path}: {name} is {tensor.dtype} of shape {tuple(tensor.shape)}; must be 1-D {kind}")
        if lengths.setdefault(group, len(tensor)) != len(tensor):
            raise InputError(f"{path}: {name} has {len(tensor)} elements; must have {lengths[group]}")
    for group in ("memory", "decoded"):
        names = {name for name in tensors if name.partition(".")[0] == group}
        needed = {name for name in OPTIONAL if name.partition(".")[0] == group}
        old = names == {"memory", "memory.ids"}
        if names and names != needed and not old:
            raise InputError(f"{path}: lacks {min(needed - names)}")
        sizes = tensors.get(f"{group}.sizes")
        if sizes is not None and (bool((sizes < 0).any()) or int(sizes.sum()) != len(tensors[group])):
            raise InputError(f"{path}: {group}.sizes does not fit {group}")
        if old and len(tensors["memory"]) != len(tensors["memory.ids"]):
            raise InputError(f"{path}: memory.ids does not fit memory")


def digest(tensors: Mapping[str, Tensor], text: str, *, typed: bool = True) -> str:
    """A hash of a description and of tensors: names, types, shapes and bytes."""
    total = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode() if typed else name.encode())
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()
