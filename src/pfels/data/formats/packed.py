"""Packed images by writer: one byte per pixel and per label, ordered by writer, with a list of counts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfels.data.cache import digest
from pfels.data.formats.limits import require_file
from pfels.errors import InputError

FORMAT = 1
SIDE = 28
CLASSES = 62
INDEX, IMAGES, LABELS, WRITERS = "index.json", "images.bin", "labels.bin", "writers.json"


class Packer:
    """Writes images one by one; leaving the `with` block without an error completes the folder."""

    def __init__(self, folder: Path, *, source: str) -> None:
        self._folder, self._source = folder, source
        self._runs: list[tuple[str, int]] = []
        folder.mkdir(parents=True)
        self._images = open(folder / IMAGES, "wb")  # noqa: SIM115
        self._labels = open(folder / LABELS, "wb")  # noqa: SIM115

    def add(self, writer: str, x: NDArray[np.uint8], y: NDArray[np.uint8]) -> None:
        """Append images of one writer, with their labels."""
        self._images.write(x.tobytes())
        self._labels.write(y.tobytes())
        self._runs.append((writer, len(y)))

    def __enter__(self) -> "Packer":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._images.close()
        self._labels.close()
        if kind is None:
            (self._folder / WRITERS).write_text(json.dumps(self._runs), "utf-8")
            files = {name: digest(self._folder / name, "sha256") for name in (IMAGES, LABELS, WRITERS)}
            index = {"format": FORMAT, "source": self._source, "files": files}
            (self._folder / INDEX).write_text(json.dumps(index), "utf-8")


def index(folder: Path) -> Mapping[str, Any]:
    """The index of a packed folder: its source and the checksums of its files."""
    found = _json(folder / INDEX)
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("files"), dict):
        raise InputError(f"{folder / INDEX}: not of format {FORMAT}; install the data again")
    return found


def read(folder: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int32]]:
    """The images (n, 1, 28, 28), their labels, and the number of each image's writer.

    The images are memory-mapped: they are read from disk on access.
    """
    index(folder)
    runs = _runs(folder / WRITERS)
    counts = np.array([count for _, count in runs], np.int64)
    total = int(counts.sum())
    for name, size in ((IMAGES, total * SIDE**2), (LABELS, total)):
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            raise InputError(f"{path}: missing or truncated; must have {size} bytes")
    names = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in runs))}
    writers = np.repeat(np.array([names[name] for name, _ in runs], np.int32), counts)
    # Copy-on-write: nothing is written, but PyTorch requires writable memory.
    images = np.memmap(folder / IMAGES, np.uint8, mode="c", shape=(total, 1, SIDE, SIDE))
    labels = np.fromfile(folder / LABELS, np.uint8)
    if labels.max() >= CLASSES:
        raise InputError(f"{folder / LABELS}: has the label {labels.max()}; must be 0 to {CLASSES - 1}")
    return images, labels, writers


def size(folder: Path) -> tuple[int, int]:
    """How many examples there are, and of how many writers."""
    runs = _runs(folder / WRITERS)
    return sum(count for _, count in runs), len({name for name, count in runs if count})


def _runs(path: Path) -> list[tuple[str, int]]:
    """Writers and how many images follow of each."""
    found = _json(path)
    pairs = found if isinstance(found, list) else []
    whole = all(isinstance(p, list) and len(p) == 2 and isinstance(p[0], str) and type(p[1]) is int for p in pairs)
    if not whole or any(not 0 <= count < 2**31 for _, count in pairs) or not any(count for _, count in pairs):
        raise InputError(f"{path}: missing or altered; install the data again")
    return pairs


def _json(path: Path) -> Any:
    try:
        require_file(path, str(path))
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path}: missing or altered; install the data again") from None
