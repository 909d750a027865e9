"""A user's own arrays: an .npz with x_train, y_train, x_test, y_test and, for a natural partition, writer_train."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from pfels.errors import InputError

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
MAXIMUM_CLASSES = 1_000_000  # the network has one output per class
Array = NDArray[Any]


def read(path: Path) -> Mapping[str, Array]:
    """The arrays, validated; images of any layout are returned with channels first."""
    where = f"data.path = {str(path)!r}"
    if not path.is_file():
        raise InputError(f"{where}: no such file; give an .npz with {', '.join(ARRAYS)}")
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, NpzFile):
            raise InputError(f"{where}: a single array; give an .npz with {', '.join(ARRAYS)}")
        with archive:
            missing = [name for name in ARRAYS if name not in archive]
            if missing:
                raise InputError(f"{where}: lacks {', '.join(missing)}; it has {', '.join(archive) or 'nothing'}")
            arrays = {name: archive[name] for name in (*ARRAYS, "writer_train") if name in archive}
    except (BadZipFile, OSError, ValueError, EOFError, MemoryError, zlib.error) as error:
        if isinstance(error, InputError):
            raise
        reason = "" if isinstance(error, ValueError) else f" ({error})"  # NumPy's own advice is to unpickle it
        raise InputError(f"{where}: not a readable .npz of plain arrays{reason}") from None
    odd = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
    if odd:
        raise InputError(f"{where}: {', '.join(odd)}: not an array")
    for part in ("train", "test"):
        _check(where, part, arrays[f"x_{part}"], arrays[f"y_{part}"], arrays["x_train"])
    writers = arrays.get("writer_train")
    if writers is not None and writers.shape != arrays["y_train"].shape:
        raise InputError(f"{where}: writer_train has shape {writers.shape}; must be {arrays['y_train'].shape}")
    return arrays | {name: _channels_first(where, arrays[name]) for name in ("x_train", "x_test")}


def _check(where: str, part: str, x: Array, y: Array, train: Array) -> None:
    if x.ndim not in (2, 3, 4) or len(x) == 0 or x.shape[1:] != train.shape[1:]:
        raise InputError(
            f"{where}: x_{part} has shape {x.shape}; must be (n, features), (n, h, w), (n, h, w, c) or (n, c, h, w), "
            "n > 0"
        )
    if not (np.issubdtype(x.dtype, np.floating) or x.dtype == np.uint8):
        raise InputError(f"{where}: x_{part} is {x.dtype}; must be floating point, or uint8 for pixels")
    if np.issubdtype(x.dtype, np.floating) and not np.isfinite(x).all():
        raise InputError(f"{where}: x_{part} holds NaN or infinity; must be finite")
    if y.shape != x.shape[:1] or not np.issubdtype(y.dtype, np.integer) or y.min() < 0:
        raise InputError(f"{where}: y_{part} is {y.dtype} of shape {y.shape}; must be {len(x)} integer labels from 0")
    if y.max() >= MAXIMUM_CLASSES:
        raise InputError(f"{where}: y_{part} has the label {y.max()}; must be below {MAXIMUM_CLASSES}")


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
