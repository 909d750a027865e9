"""The idx format of MNIST and similar data sets, plain or gzipped."""

import gzip
import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfels.data.formats.limits import MAXIMUM_AXES, require_file, require_shape, require_size
from pfels.errors import InputError

TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
SIDE, CLASSES = 28, 10


class Kind(NamedTuple):
    """What an idx file holds: its code in the header, its type as stored, and its name."""

    code: int
    stored: str
    name: str


BYTES, INT32 = Kind(0x08, "u1", "unsigned bytes"), Kind(0x0C, ">i4", "32-bit integers")


def read(folder: Path, name: str, *, of: Kind = BYTES) -> NDArray[Any]:
    """The array in an idx file, with or without .gz at the end of its name."""
    plain, zipped = folder / name, folder / f"{name}.gz"
    path = zipped if zipped.exists() and not plain.exists() else plain
    require_file(path, str(path))
    return read_file(path, of=of)


def read_file(path: Path, *, of: Kind = BYTES) -> NDArray[Any]:
    """The array in an idx file; it is unzipped if its name ends in .gz."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            return _array(file, path, of)  # type: ignore[arg-type]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a complete gzip file ({error})") from None


def read_pair(folder: Path, names: tuple[str, str]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The images (n, 28, 28) of a part of the data set, and their labels from 0 to 9."""
    x, y = (read(folder, name) for name in names)
    if y.ndim != 1 or x.shape != (len(y), SIDE, SIDE) or len(y) == 0:
        raise InputError(f"{folder}: {x.shape} images and {y.shape} labels; must be n×{SIDE}×{SIDE} and n, n > 0")
    if y.max() >= CLASSES:
        raise InputError(f"{folder / names[1]}: has the label {y.max()}; must be 0 to {CLASSES - 1}")
    return x, y


def _array(file: BinaryIO, path: Path, of: Kind) -> NDArray[Any]:
    """The array in a stream: the header says how much there must be, and no more is read."""
    broken = f"{path}: not a complete idx file of {of.name}"
    magic = file.read(4)
    if len(magic) < 4 or magic[:3] != bytes((0, 0, of.code)) or not 1 <= magic[3] <= MAXIMUM_AXES:
        raise InputError(broken)
    header = file.read(4 * magic[3])
    if len(header) < 4 * magic[3]:
        raise InputError(broken)
    shape = struct.unpack(f">{magic[3]}I", header)
    size = require_shape(shape, str(path)) * np.dtype(of.stored).itemsize
    require_size(size, str(path))
    content = bytearray(file.read(size + 1))
    if len(content) != size:
        raise InputError(broken)
    found = np.frombuffer(content, of.stored).reshape(shape)
    return found.astype(found.dtype.newbyteorder("="), copy=False)


def write(path: Path, array: NDArray[np.uint8]) -> None:
    """An idx file of unsigned bytes."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    path.write_bytes(header + array.tobytes())
