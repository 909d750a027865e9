"""`checkpoint.safetensors`: the state of a run between two rounds, as tensors and a description, under one hash.

The file is in the safetensors format. It is written here, tensor by tensor, and read in `checkpoint_file`: the library
would hold a second copy of the whole state, ends the process where memory is short, and opens a file twice.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfels.documents.run import Stopped
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
    """The state after `round` rounds: tensors by name, totals as JSON values, and the log up to there.

    Of a run that was `stopped` it is the last one, which has no memory of devices to go on with. One that was read may
    hold some of its tensors only; `dimension` is the length of its model, and `diverged` says that the model is not
    finite.
    """

    round: int
    tensors: Mapping[str, Tensor]
    totals: Mapping[str, Any]
    mark: LogMark
    dimension: int = 0
    diverged: bool = False
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
        for part in safetensors(checkpoint.tensors, {"pfels": f"{digest(checkpoint.tensors, text)} {text}"}):
            file.write(part)


def safetensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Iterator[bytes]:
    """The bytes of a safetensors file with these tensors and notes: as the library writes it, in parts, except that the
    notes keep their order."""
    types = {getattr(torch, name): code for code, name in NAMES.items()}
    order = sorted(tensors, key=lambda name: (list(NAMES).index(types[tensors[name].dtype]), name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
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


def digest(tensors: Mapping[str, Tensor], text: str, *, typed: bool = True) -> str:
    """A hash of a description and of tensors: names, types, shapes and bytes."""
    total = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode() if typed else name.encode())
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()
