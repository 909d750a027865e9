"""A user's own arrays: an .npz with x_train, y_train, x_test, y_test and, if it says so, writer_train and classes."""

import struct
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from pfels.data.formats import npy
from pfels.data.formats.limits import require_file, require_size
from pfels.errors import InputError, shown

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
WRITERS = "writer_train"
WRITER_NAMES = "writer_names"  # in a node's own file: all its writers, in the order of its devices
CLASSES = "classes"  # how many there are, as a whole number
MAXIMUM_CLASSES = 1_000_000  # the network has one output per class
ENCRYPTED = 0x1  # in a member's flags
# What to do about an array of another type, by the beginning of its name.
CURES = {
    "x": "make text columns numbers, then save x.astype(numpy.float32)",
    "y": "save whole numbers from 0, such as [names.index(label) for label in labels]",
    "writer": "save writer.astype(str)",
    "classes": "save one whole number",
}
Array = NDArray[Any]


def read(path: Path, *, where: str = "") -> Mapping[str, Array]:
    """The arrays, validated: features in float32 or bytes, images of any layout with channels first. `where` is what
    messages call the file; by default it is that of data.path."""
    where = where or f"data.path = {str(path)!r}"
    arrays = _unpacked(path, where, (*ARRAYS, WRITERS, CLASSES))
    for part in ("train", "test"):
        _check(where, part, arrays[f"x_{part}"], arrays[f"y_{part}"], arrays["x_train"])
    _check_notes(where, arrays, examples=len(arrays["y_train"]))
    floats = {name: _in_float32(where, name, arrays[name]) for name in ("x_train", "x_test")}
    return arrays | {name: _channels_first(where, x) for name, x in floats.items()}


def read_of_node(path: Path, *, where: str) -> Mapping[str, Array]:
    """The training arrays of a node's own devices, their values as they are: NaN and any label included.

    Whether the file is refused depends on the names, types and shapes of its arrays, never on a value in them: what a
    node answers must not tell any. A device without examples may be missing, and so may all of them.
    """
    arrays = _unpacked(path, where, (*ARRAYS, WRITERS, WRITER_NAMES, CLASSES))
    x, y, writers = arrays["x_train"], arrays["y_train"], arrays.get(WRITERS)
    _check_shapes(where, "train", x, x, empty=True)
    _check_types(where, "train", y, examples=len(x))
    if writers is not None and writers.shape != y.shape:
        raise InputError(f"{where}: {WRITERS} has shape {writers.shape}; must be {y.shape}")
    _check_classes(where, arrays)
    with np.errstate(all="ignore"):
        x = x if x.dtype == np.uint8 else x.astype(np.float32)
    return arrays | {"x_train": _channels_first(where, x), "y_train": y.astype(np.int64)}


def labels_and_notes(path: Path) -> Mapping[str, Array]:
    """The labels, and whom the examples are from and how many classes there are if the file says so, without the
    examples themselves."""
    where = f"data.path = {str(path)!r}"
    arrays = _unpacked(path, where, ("y_train", "y_test", WRITERS, CLASSES))
    for part in ("train", "test"):
        _check_labels(where, part, arrays[f"y_{part}"], examples=arrays[f"y_{part}"].size)
    _check_notes(where, arrays, examples=len(arrays["y_train"]))
    return arrays


def stated_classes(arrays: Mapping[str, Array]) -> int | None:
    """The number of classes that a file states, or None."""
    return int(arrays[CLASSES].item()) if CLASSES in arrays else None


def _unpacked(path: Path, where: str, wanted: Collection[str]) -> dict[str, Array]:
    """Those arrays in an archive. What they would take is known from its directory, before any is read."""
    require_file(path, where, wanted=f"give an .npz with {', '.join(ARRAYS)}")
    try:
        with ZipFile(path) as archive:
            found = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            missing = [name for name in ARRAYS if name not in found]
            if missing:
                names = ", ".join(map(shown, list(found)[:9])) or "nothing"
                raise InputError(f"{where}: lacks {', '.join(missing)}; it has {names}")
            members = {name: found[name] for name in wanted if name in found}
            stored = path.stat().st_size
            require_size(sum(info.file_size for info in members.values()), where, stored=stored)
            return {name: _array(archive, info, where, name, stored) for name, info in members.items()}
    except InputError:
        raise
    # What the module raises on bytes that are no archive, or one that it cannot unpack.
    except (BadZipFile, RuntimeError, OSError, ValueError, EOFError, struct.error, zlib.error) as error:
        raise InputError(f"{where}: not a readable .npz of plain arrays ({shown(error)})") from None


def _array(archive: ZipFile, info: ZipInfo, where: str, name: str, stored: int) -> Array:
    at = f"{where}: {name}"
    if info.flag_bits & ENCRYPTED:
        raise InputError(f"{at}: encrypted; must be as numpy.savez writes it")
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise InputError(f"{at}: packed by method {info.compress_type}; must be as numpy.savez writes it")
    with archive.open(info) as file:
        return npy.read(file, info.file_size, at, stored=stored, cure=CURES[name.partition("_")[0]])


def _check(where: str, part: str, x: Array, y: Array, train: Array) -> None:
    _check_shapes(where, part, x, train)
    _check_labels(where, part, y, examples=len(x))


def _check_shapes(where: str, part: str, x: Array, train: Array, *, empty: bool = False) -> None:
    """What types and shapes of features tell; `empty`: there may be no example."""
    sides = x.shape[1:] if empty else x.shape
    if x.ndim not in (2, 3, 4) or 0 in sides or x.shape[1:] != train.shape[1:]:
        raise InputError(
            f"{where}: x_{part} has shape {x.shape}; must be (n, features), (n, h, w), (n, h, w, c) or (n, c, h, w), "
            "all above 0, and the same for both parts"
        )
    if not (np.issubdtype(x.dtype, np.floating) or x.dtype == np.uint8):
        cure = CURES["x"] if x.dtype.kind in "SU" else "save x.astype(numpy.float32)"
        raise InputError(f"{where}: x_{part} is {x.dtype}; must be floating point, or uint8 for pixels; {cure}")


def _check_types(where: str, part: str, y: Array, *, examples: int) -> None:
    if y.shape != (examples,) or not np.issubdtype(y.dtype, np.integer):
        cure = "" if np.issubdtype(y.dtype, np.integer) else f"; {CURES['y']}"
        raise InputError(
            f"{where}: y_{part} is {y.dtype} of shape {y.shape}; must be {examples} integer labels from 0{cure}"
        )


def _check_labels(where: str, part: str, y: Array, *, examples: int) -> None:
    _check_types(where, part, y, examples=examples)
    if y.min(initial=0) < 0:
        raise InputError(f"{where}: y_{part} has the label {y.min()}; must be {examples} integer labels from 0")
    if y.max(initial=0) >= MAXIMUM_CLASSES:
        raise InputError(f"{where}: y_{part} has the label {y.max()}; must be below {MAXIMUM_CLASSES}")


def _check_notes(where: str, arrays: Mapping[str, Array], *, examples: int) -> None:
    """Whom the examples are from, and how many classes there are, if the file says so."""
    writers = arrays.get(WRITERS)
    if writers is not None and writers.shape != (examples,):
        raise InputError(f"{where}: {WRITERS} has shape {writers.shape}; must be {(examples,)}")
    if writers is not None and np.issubdtype(writers.dtype, np.floating) and not np.isfinite(writers).all():
        raise InputError(f"{where}: {WRITERS} holds NaN or infinity; every training example must be from somebody")
    _check_classes(where, arrays)


def _check_classes(where: str, arrays: Mapping[str, Array]) -> None:
    classes = arrays.get(CLASSES)
    if classes is None:
        return
    if classes.size != 1 or not np.issubdtype(classes.dtype, np.integer):
        raise InputError(f"{where}: {CLASSES} is {classes.dtype} of shape {classes.shape}; must be one whole number")
    if not 1 <= classes.item() <= MAXIMUM_CLASSES:
        raise InputError(f"{where}: {CLASSES} = {classes.item()}; must be in [1, {MAXIMUM_CLASSES}]")


def _in_float32(where: str, name: str, x: Array) -> Array:
    """Features as devices train on them; bytes stay bytes."""
    if x.dtype == np.uint8:
        return x
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.ascontiguousarray(x, np.float32)
    if not np.isfinite(found).all():
        raise InputError(f"{where}: {name} holds NaN, infinity, or a number that is one in float32; must be finite")
    return found


def _channels_first(where: str, x: Array) -> Array:
    """Images as (n, channels, height, width). Channels are recognised as fewer than rows and columns."""
    if x.ndim < 4:
        return x[:, None] if x.ndim == 3 else x
    _, first, middle, last = x.shape
    if last < min(first, middle):
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    if first < min(middle, last):
        return x
    raise InputError(
        f"{where}: images of shape {x.shape[1:]}; must be (h, w, c) or (c, h, w), with fewer channels than rows and "
        "columns"
    )
