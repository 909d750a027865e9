"""FEMNIST in LEAF's JSON, read one writer at a time, so that memory never holds the whole file."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfels.data.cache import Progress, Workspace, home, workspace
from pfels.data.formats import packed
from pfels.data.formats.json_stream import JsonStream
from pfels.data.formats.limits import require_file
from pfels.errors import InputError, shown

PIXELS = packed.SIDE**2


def sources(folder: Path) -> list[Path]:
    """The JSON files of a LEAF directory: directly in it, in its all_data, or in its train and test together.

    LEAF's own split into train and test is ignored: each device's split is drawn from the seed later.
    """
    if not folder.is_dir():
        raise InputError(f"data.path = {str(folder)!r}: no such directory; give a LEAF directory with *.json files")
    for choice in ((folder,), (folder / "all_data",), (folder / "train", folder / "test")):
        files = [path for place in choice for path in sorted(place.glob("*.json"))]
        if files:
            return files
    raise InputError(f"data.path = {str(folder)!r}: contains no *.json, all_data/*.json or train/*.json of LEAF")


def converted(folder: Path) -> Path:
    """The packed form of a LEAF directory, made on first use and whenever the files change."""
    files = sources(folder)
    marks = [(path.relative_to(folder).as_posix(), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    fingerprint = hashlib.sha256(repr((packed.FORMAT, marks)).encode()).hexdigest()[:16]
    place = home() / "leaf" / fingerprint
    if not place.exists():
        with workspace(f"leaf-{fingerprint}", say=lambda message: None) as work:
            if not place.exists():
                work.install(pack(files, work), place)
    return place


def pack(files: list[Path], work: Workspace, progress: Progress = lambda what, done, total: None) -> Path:
    """LEAF's files in packed form."""
    made, examples = work.build / "packed", 0
    with packed.Packer(made, source="LEAF") as packer:
        for done, path in enumerate(files):
            progress("reading LEAF's files", done, len(files))
            for writer, data in users(path):
                x, y = _arrays(path, writer, data)
                packer.add(writer, x, y)
                examples += len(y)
        if not examples:
            raise InputError(f"{files[0]}: LEAF's files hold no examples")
    return made


def users(path: Path) -> Iterator[tuple[str, Any]]:
    """Each writer in a LEAF file with their data."""
    require_file(path, str(path))
    with open(path, encoding="utf-8") as file:
        stream = JsonStream(file, name=str(path))
        found = False
        for key in stream.members():
            if key == "user_data":
                found = True
                for writer in stream.members():
                    yield writer, stream.value()
            else:
                stream.value()
        if not found:
            raise InputError(f"{path}: has no user_data; must be a LEAF file")


def _arrays(path: Path, writer: str, data: Any) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """One writer's pixels as bytes, and labels; values that LEAF never writes are refused, not rounded."""
    where = f"{path}: writer {shown(writer)}"
    try:
        x, y = np.array(data["x"], np.float64), np.array(data["y"], np.float64)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"{where}: must have x, {PIXELS} numbers per image, and y") from None
    if x.size == y.size == 0:  # LEAF's own split left no examples of this writer in this file
        return np.empty((0, PIXELS), np.uint8), np.empty(0, np.uint8)
    if y.ndim != 1 or x.shape != (len(y), PIXELS):
        raise InputError(f"{where}: x has shape {x.shape} and y {y.shape}; must be (n, {PIXELS}) and (n,)")
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers that are refused next
        scaled = np.rint(x * 255)
        close = np.abs(x * 255 - scaled) < 0.01
    if not close.all() or scaled.min() < 0 or scaled.max() > 255:
        raise InputError(f"{where}: a pixel is not a multiple of 1/255 in [0, 1], as LEAF's are")
    if not ((y == np.rint(y)) & (y >= 0) & (y < packed.CLASSES)).all():
        raise InputError(f"{where}: a label is not an integer from 0 to {packed.CLASSES - 1}")
    return scaled.astype(np.uint8), y.astype(np.uint8)
