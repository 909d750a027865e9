"""The idx format of MNIST and its kin, plain or gzipped."""

import gzip
import math
import shutil
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pfels.data import hub
from pfels.data.cache import Progress, Workspace
from pfels.data.clients import SourceError, debian_package
from pfels.errors import InputError

TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
DEBIAN, DEBIAN_SIZE = "dataset-fashion-mnist", 30_900_652
HUB = "zalando-datasets/fashion_mnist"


def read(folder: Path, name: str) -> NDArray[np.uint8]:
    """The array of unsigned bytes in an idx file, with or without .gz at the end of its name."""
    path, zipped = folder / name, folder / f"{name}.gz"
    try:
        blob = path.read_bytes() if path.exists() or not zipped.exists() else gzip.decompress(zipped.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{zipped}: not a whole gzip file ({error})") from None
    axes = blob[3] if len(blob) > 4 else 0
    shape = struct.unpack_from(f">{axes}I", blob, 4) if len(blob) >= 4 + 4 * axes else ()
    start = 4 + 4 * axes
    if blob[:3] != b"\0\0\x08" or not axes or len(blob) - start != math.prod(shape):
        raise InputError(f"{path}: not a whole idx file of unsigned bytes")
    return np.frombuffer(bytearray(blob), np.uint8, offset=start).reshape(shape)


def write(path: Path, array: NDArray[np.uint8]) -> None:
    """An idx file of unsigned bytes."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    path.write_bytes(header + array.tobytes())


def gather(files: Iterable[Path], made: Path) -> Path:
    """The four files, unzipped, in one folder; those that are not among `files` are left out."""
    made.mkdir()
    wanted = {*TRAIN, *TEST}
    for path in files:
        if path.name in wanted:
            shutil.copyfile(path, made / path.name)
        elif path.suffix == ".gz" and path.stem in wanted:
            try:
                with gzip.open(path) as zipped, open(made / path.stem, "wb") as plain:
                    shutil.copyfileobj(zipped, plain)
            except (gzip.BadGzipFile, EOFError, zlib.error):
                raise SourceError(f"{path.name} is not a whole gzip file") from None
    return made


def from_debian(work: Workspace, progress: Progress) -> Path:
    """Fashion-MNIST's files from Debian's package."""
    return gather(debian_package(DEBIAN, work, progress, size=DEBIAN_SIZE), work.build / "idx")


def from_hub(work: Workspace, progress: Progress) -> Path:
    """Fashion-MNIST's files made from the hub's rows, which keep the official order."""
    made = work.build / "idx"
    made.mkdir()
    for split, (images, labels) in (("train", TRAIN), ("test", TEST)):
        x, y = [], []
        for row in hub.rows(HUB, split, progress):
            x.append(hub.pixels(row["image"], "L"))
            y.append(row["label"])
        write(made / images, np.stack(x))
        write(made / labels, np.array(y, np.uint8))
    return made
