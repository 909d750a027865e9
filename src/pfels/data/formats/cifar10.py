"""CIFAR-10's official binary layout: records of one label byte, then 1024 red, 1024 green and 1024 blue bytes."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pfels.data.formats.limits import require_file, require_size
from pfels.errors import InputError

Bytes = NDArray[np.uint8]
TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST = ("test_batch.bin",)
RECORD = 1 + 3 * 32 * 32
CLASSES = 10


def read(folder: Path, names: Iterable[str]) -> tuple[Bytes, Bytes]:
    """The images (n, 3, 32, 32) and the labels, from 0 to 9, of these files."""
    sizes = []
    paths = [folder / name for name in names]
    for path in paths:
        require_file(path, str(path))
        size = path.stat().st_size
        if size == 0 or size % RECORD:
            raise InputError(f"{path}: {size} bytes; must be records of {RECORD}")
        sizes.append(size // RECORD)
    require_size(sum(sizes) * RECORD, str(folder))
    x, y, first = np.empty((sum(sizes), 3, 32, 32), np.uint8), np.empty(sum(sizes), np.uint8), 0
    for path, count in zip(paths, sizes, strict=True):  # one file at a time, so that memory never holds the data twice
        records = np.fromfile(path, np.uint8).reshape(count, RECORD)
        if records[:, 0].max() >= CLASSES:
            raise InputError(f"{path}: has the label {records[:, 0].max()}; must be 0 to {CLASSES - 1}")
        y[first : first + count] = records[:, 0]
        x[first : first + count] = records[:, 1:].reshape(count, 3, 32, 32)
        first += count
    return x, y


def write(path: Path, x: Bytes, y: Bytes) -> None:
    """One file of records from images (n, 32, 32, 3) and labels."""
    planes = x.reshape(len(y), 32 * 32, 3).transpose(0, 2, 1).reshape(len(y), -1)
    np.concatenate([y[:, None], planes], axis=1).tofile(path)
