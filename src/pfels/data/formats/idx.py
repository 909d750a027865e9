"""The idx format of MNIST and similar data sets, plain or gzipped."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pfels.errors import InputError

TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def read(folder: Path, name: str) -> NDArray[np.uint8]:
    """The array of unsigned bytes in an idx file, with or without .gz at the end of its name."""
    path, zipped = folder / name, folder / f"{name}.gz"
    try:
        blob = path.read_bytes() if path.exists() or not zipped.exists() else gzip.decompress(zipped.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{zipped}: not a complete gzip file ({error})") from None
    axes = blob[3] if len(blob) > 4 else 0
    shape = struct.unpack_from(f">{axes}I", blob, 4) if len(blob) >= 4 + 4 * axes else ()
    start = 4 + 4 * axes
    if blob[:3] != b"\0\0\x08" or not axes or len(blob) - start != math.prod(shape):
        raise InputError(f"{path}: not a complete idx file of unsigned bytes")
    return np.frombuffer(bytearray(blob), np.uint8, offset=start).reshape(shape)


def write(path: Path, array: NDArray[np.uint8]) -> None:
    """An idx file of unsigned bytes."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    path.write_bytes(header + array.tobytes())
