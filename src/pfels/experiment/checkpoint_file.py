"""A checkpoint as bytes from elsewhere: its layout is known before any of it is read, its hash when all of it is."""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pfels.documents.run import CheckpointNotes, Totals
from pfels.documents.validate import validated
from pfels.errors import InputError
from pfels.experiment.checkpoint import FORMAT, NAMES, OPTIONAL, REQUIRED, UNTYPED
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.runtime.regular import reading

HEADER = 2**16  # bytes; the names of all tensors and the description take 3,000
BLOCK = 2**20
BYTES = {"int64": 8, "float64": 8, "float32": 4}


@dataclass(frozen=True)
class Entry:
    """A tensor of the file: its type, its shape, and where it begins."""

    kind: str
    shape: tuple[int, ...]
    at: int

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.count * BYTES[self.kind]


@dataclass(frozen=True)
class StoredCheckpoint:
    """A verified file: its description, what tensors it has, those that were asked for, and which are finite."""

    notes: CheckpointNotes
    entries: Mapping[str, Entry]
    tensors: Mapping[str, Tensor]
    finite: Mapping[str, bool]


Wanted = Callable[[str], bool]
Largest = Callable[[str], int]


def everything(name: str) -> bool:
    """Every tensor is wanted."""
    return True


def read(path: Path, *, cure: str, wanted: Wanted, largest: Largest) -> StoredCheckpoint | None:
    """The checkpoint in a file, or None if there is none; `cure` says what to do about a damaged one.

    Of the tensors only those `wanted` are kept. None may have more elements than `largest` allows, which is seen
    before anything is read.
    """
    damaged = InputError(f"{path}: truncated or altered; {cure}")
    try:
        with reading(path) as file:
            hashed, text, entries = _header(file)
            for name, entry in entries.items():
                if entry.count > (most := largest(name)):
                    raise InputError(f"{path}: {name} has {entry.count} elements; must have at most {most}; {cure}")
            content = _notes(text)
            version = content["format"]
            found, tensors, finite = _verified(file, text, entries, wanted, typed=version != UNTYPED)
            if found != hashed:
                raise damaged
    except FileNotFoundError:
        return None
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; {cure}") from None
    except (KeyError, ValueError, TypeError):  # bytes that are no such file, or a description that is none of ours
        raise damaged from None
    if version not in (UNTYPED, FORMAT):
        raise InputError(f"{path}: written in format {version!r}, this version reads format {FORMAT}; {cure}")
    notes = validated(CheckpointNotes, content, f"{path}")
    if set(notes["totals"]) != set(Totals.__annotations__):
        raise InputError(f"{path}: totals: must be {', '.join(Totals.__annotations__)}")
    _require_known(entries, path)
    _require_lengths(entries, tensors, path)
    return StoredCheckpoint(notes, entries, tensors, finite)


def _header(file: BinaryIO) -> tuple[str, str, dict[str, Entry]]:
    """The hash, the description, and the tensors, which fill the rest of the file without a gap."""
    size = int.from_bytes(file.read(8), "little")
    if not 0 < size <= HEADER:
        raise ValueError
    from pydantic_core import from_json

    header = from_json(file.read(size))
    hashed, _, text = header.pop("__metadata__")["pfels"].partition(" ")
    entries = {name: _entry(about) for name, about in header.items()}
    end = 0
    for entry in sorted(entries.values(), key=lambda each: (each.at, each.size)):
        if entry.at != end:
            raise ValueError
        end += entry.size
    if file.seek(0, 2) != 8 + size + end:
        raise ValueError
    return hashed, text, {name: Entry(e.kind, e.shape, e.at + 8 + size) for name, e in entries.items()}


def _entry(about: Any) -> Entry:
    kind, shape, (begin, end) = NAMES[about["dtype"]], tuple(about["shape"]), about["data_offsets"]
    numbers = (*shape, begin, end)
    if not all(type(each) is int and 0 <= each < 2**63 for each in numbers) or len(shape) > 2:
        raise ValueError
    entry = Entry(kind, shape, begin)
    if entry.size != end - begin:
        raise ValueError
    return entry


def _notes(text: str) -> dict[str, Any]:
    from pydantic_core import from_json

    content = from_json(text)
    if not isinstance(content, dict):
        raise TypeError
    return content


def _verified(
    file: BinaryIO, text: str, entries: Mapping[str, Entry], wanted: Wanted, *, typed: bool
) -> tuple[str, dict[str, Tensor], dict[str, bool]]:
    """The hash of the file as `checkpoint.digest` has it, the tensors that are wanted, and which are finite. What is
    not wanted is read block by block."""
    total, tensors, finite = hashlib.sha256(text.encode()), dict[str, Tensor](), dict[str, bool]()
    for name, entry in sorted(entries.items()):
        total.update(f"{name} torch.{entry.kind} {entry.shape}".encode() if typed else name.encode())
        file.seek(entry.at)
        finite[name], left = True, entry.size
        if wanted(name):
            tensors[name] = torch.empty(entry.shape, dtype=getattr(torch, entry.kind))
            whole = tensors[name].view(-1).numpy().view(np.uint8)
        at = 0
        while at < left:
            block = whole[at : at + BLOCK] if name in tensors else np.empty(min(BLOCK, left - at), np.uint8)
            if file.readinto(block) != len(block):  # type: ignore[attr-defined]
                raise ValueError
            total.update(block.data)
            finite[name] &= bool(np.isfinite(block.view(entry.kind)).all())
            at += len(block)
    return total.hexdigest(), tensors, finite


def _require_known(entries: Mapping[str, Entry], path: Path) -> None:
    """An InputError unless every tensor is one that a checkpoint holds, of its type."""
    known = REQUIRED | OPTIONAL
    missing = [name for name in REQUIRED if name not in entries]
    if missing or not set(entries) <= set(known):
        raise InputError(
            f"{path}: lacks {missing[0]}" if missing else f"{path}: holds {min(set(entries) - set(known))}"
        )
    for name, entry in entries.items():
        kind, _ = known[name]
        rows = name == "memory" and len(entry.shape) == 2 and "memory.sizes" not in entries  # version 0.1 before echo
        if entry.kind != kind or not (len(entry.shape) == 1 or rows):
            raise InputError(f"{path}: {name} is {entry.kind} of shape {entry.shape}; must be 1-D {kind}")


def _require_lengths(entries: Mapping[str, Entry], tensors: Mapping[str, Tensor], path: Path) -> None:
    """An InputError unless tensors that go with each other have the same length."""
    known, lengths = REQUIRED | OPTIONAL, dict[str, int]()
    for name, entry in entries.items():
        group, length = known[name][1], entry.shape[0]
        if lengths.setdefault(group, length) != length:
            raise InputError(f"{path}: {name} has {length} elements; must have {lengths[group]}")
    for group in ("memory", "decoded"):
        names = {name for name in entries if name.partition(".")[0] == group}
        needed = {name for name in OPTIONAL if name.partition(".")[0] == group}
        old = names == {"memory", "memory.ids"}
        if names and names != needed and not old:
            raise InputError(f"{path}: lacks {min(needed - names)}")
        sizes = tensors.get(f"{group}.sizes")
        most = entries[group].count if sizes is not None else 0
        if sizes is not None and (bool(((sizes < 0) | (sizes > most)).any()) or int(sizes.sum()) != most):
            raise InputError(f"{path}: {group}.sizes does not fit {group}")
        if old and entries["memory"].shape[0] != entries["memory.ids"].shape[0]:
            raise InputError(f"{path}: memory.ids does not fit memory")
