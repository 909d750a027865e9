"""Features on disk: computed once per set of images, then mapped into memory.

A file is an .npy of float16 with a checksum behind it. Its name is a hash of the images and of the features'
definition, so other images or another definition give another file. A file that is damaged, or was made from
something else, is replaced; without a cache that can be written, features are computed for each run.
"""

import fcntl
import hashlib
import io
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfels.data.cache import BLOCK, home
from pfels.data.examples import Examples
from pfels.runtime.files import PARTIAL
from pfels.runtime.memory import Scratch
from pfels.runtime.threads import OrderedPool, one_thread_each

BATCH = 250  # images per call, a constant, since it may change the last bits
DTYPE = np.dtype("<f2")  # half the memory of float32; a feature is rounded by at most 1 part in 2,000
Definition = Callable[[Tensor], Tensor]
Table = NDArray[np.float16]


def table(examples: Examples, definition: Definition, name: str, *, width: int) -> Tensor:
    """The features (n, width) of all examples, in float16: from the cache if they are there, else computed."""
    key, shape, folder = _key(examples, name), (len(examples), width), home() / "features"
    path = folder / f"{name}-{key}.npy"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        if (found := _read(path, key, shape)) is not None:
            return torch.from_numpy(found)
        with _alone(folder):  # whoever had to wait finds the features that another process computed
            if (found := _read(path, key, shape)) is None:
                _write(path, key, shape, _batches(examples, definition))
                found = _read(path, key, shape)
        if found is not None:
            return torch.from_numpy(found)
    whole, start = torch.empty(shape, dtype=torch.float16), 0
    for batch in _batches(examples, definition):
        whole[start : start + len(batch)] = torch.from_numpy(batch)
        start += len(batch)
    return whole


def _batches(examples: Examples, definition: Definition) -> Iterator[Table]:
    """The features of the images as devices see them, batch after batch, computed on all cores."""

    def work(start: int, scratch: Scratch) -> Table:
        x, _ = examples.take(torch.arange(start, min(start + BATCH, len(examples))))
        with np.errstate(over="ignore", invalid="ignore"):  # features of one extreme image are no warning to all
            return definition(x).numpy().astype(DTYPE)

    with one_thread_each():
        yield from OrderedPool(len(os.sched_getaffinity(0))).map(work, range(0, len(examples), BATCH))


def _key(examples: Examples, name: str) -> str:
    """A hash of all that features depend on."""
    x = np.ascontiguousarray(examples.x.numpy())
    facts = f"{name} {x.dtype.str} {x.shape} {examples.centre!r} {examples.spread!r}\n"
    hashed = hashlib.sha256(facts.encode())
    hashed.update(x.data)
    return hashed.hexdigest()


def _header(shape: tuple[int, int]) -> bytes:
    header = io.BytesIO()
    facts = {"descr": DTYPE.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, facts)
    return header.getvalue()


def _read(path: Path, key: str, shape: tuple[int, int]) -> Table | None:
    """The table in a file, mapped into memory, or None if it is not there complete and undamaged."""
    header, hashed = _header(shape), hashlib.sha256(key.encode())
    left = len(header) + shape[0] * shape[1] * DTYPE.itemsize
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size != left + hashed.digest_size or file.read(len(header)) != header:
                return None
            file.seek(0)
            while left and (block := file.read(min(BLOCK, left))):
                hashed.update(block)
                left -= len(block)
            if file.read() != hashed.digest():
                return None
        # Copy on write: nobody writes to it, but PyTorch warns of an array that cannot be written.
        return np.memmap(path, DTYPE, mode="c", offset=len(header), shape=shape)
    except (OSError, ValueError):
        return None


def _write(path: Path, key: str, shape: tuple[int, int], batches: Iterator[Table]) -> None:
    """Store a table with its checksum, atomically. Files of processes that were killed here are deleted."""
    for left in path.parent.glob(PARTIAL):
        left.unlink(missing_ok=True)
    partial, hashed = path.with_name(f".{path.name}.{os.getpid()}.partial"), hashlib.sha256(key.encode())
    try:
        with open(partial, "wb") as file:
            for content in itertools.chain([_header(shape)], (batch.tobytes() for batch in batches)):
                file.write(content)
                hashed.update(content)
            file.write(hashed.digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time; the lock of a killed process is released automatically."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
