"""Real data as tensors."""

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfels.errors import InputError

ARRAYS = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True)
class Dataset:
    """Examples in float32, of shape (features,) or (channels, height, width), with int64 labels from 0.

    `writers` names who wrote each training example, where the data say so.
    """

    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    classes: int
    writers: NDArray[np.generic] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return tuple(self.x_train.shape[1:])


def load(name: str, path: str | None = None) -> Dataset:
    """The data set of that name; "file" is the user's own .npz at `path`."""
    return _digits() if name == "digits" else _npz(Path(str(path)))


def _digits() -> Dataset:
    """Scikit-learn's 1,797 digits of 8×8 pixels; one split for all seeds, so that they share a test set."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = (bunch.images / 16.0).astype(np.float32)[:, None]
    y = bunch.target.astype(np.int64)
    order = np.random.Generator(np.random.Philox(key=1797)).permutation(len(y))
    test, train = order[:360], order[360:]
    parts = [torch.from_numpy(array) for array in (x[train], y[train], x[test], y[test])]
    return Dataset(parts[0], parts[1], parts[2], parts[3], classes=10)


def _npz(path: Path) -> Dataset:
    """A user's own arrays: x_train, y_train, x_test, y_test and, for a natural partition, writer_train."""
    where = f"data.path = {str(path)!r}"
    if not path.is_file():
        raise InputError(f"{where}: no such file; give an .npz with {', '.join(ARRAYS)}")
    try:
        with np.load(path, allow_pickle=False) as archive:
            missing = [name for name in ARRAYS if name not in archive]
            if missing:
                raise InputError(f"{where}: lacks {', '.join(missing)}; it has {', '.join(archive) or 'nothing'}")
            arrays = {name: archive[name] for name in (*ARRAYS, "writer_train") if name in archive}
    except (BadZipFile, OSError, ValueError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: not a readable .npz of plain arrays ({error})") from None
    for part in ("train", "test"):
        _check(where, part, arrays[f"x_{part}"], arrays[f"y_{part}"], arrays["x_train"])
    writers = arrays.get("writer_train")
    if writers is not None and writers.shape != arrays["y_train"].shape:
        raise InputError(f"{where}: writer_train has shape {writers.shape}; must be {arrays['y_train'].shape}")
    labels = np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(np.int64)
    train = len(arrays["y_train"])
    return Dataset(
        _examples(arrays["x_train"]),
        torch.from_numpy(labels[:train]),
        _examples(arrays["x_test"]),
        torch.from_numpy(labels[train:]),
        classes=int(labels.max()) + 1,
        writers=writers,
    )


def _check(where: str, part: str, x: NDArray[np.generic], y: NDArray[np.generic], train: NDArray[np.generic]) -> None:
    if x.ndim not in (2, 3, 4) or len(x) == 0 or x.shape[1:] != train.shape[1:]:
        raise InputError(
            f"{where}: x_{part} has shape {x.shape}; must be (n, features), (n, h, w) or (n, h, w, c), n > 0"
        )
    if not (np.issubdtype(x.dtype, np.floating) or x.dtype == np.uint8):
        raise InputError(f"{where}: x_{part} is {x.dtype}; must be floating point, or uint8 for pixels")
    if np.issubdtype(x.dtype, np.floating) and not np.isfinite(x).all():
        raise InputError(f"{where}: x_{part} holds NaN or infinity; must be finite")
    if y.shape != x.shape[:1] or not np.issubdtype(y.dtype, np.integer) or y.min() < 0:
        raise InputError(f"{where}: y_{part} is {y.dtype} of shape {y.shape}; must be {len(x)} whole labels from 0")


def _examples(x: NDArray[np.generic]) -> Tensor:
    """Pixels scaled to [0, 1]; images with their channels first."""
    scaled = x.astype(np.float32) / 255.0 if x.dtype == np.uint8 else x.astype(np.float32)
    if x.ndim == 3:
        scaled = scaled[:, None]
    elif x.ndim == 4 and x.shape[-1] in (1, 3) and x.shape[1] not in (1, 3):
        scaled = scaled.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.ascontiguousarray(scaled))
