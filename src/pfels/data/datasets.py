"""Load a data set by name, as tensors."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfels.data import install
from pfels.data.catalog import find
from pfels.data.examples import Dataset, Examples
from pfels.data.formats import cifar10, idx, leaf, npz, packed
from pfels.errors import InputError

# CIFAR-10's pixels are scaled by constants that do not depend on the data: the usual means and deviations of its
# channels (0.45 to 0.49, and 0.25) are statistics of the private images on the devices.
CIFAR_CENTRE, CIFAR_SPREAD = 0.5, 0.25


def load(name: str, path: str | None = None, *, classes: int | None = None) -> Dataset:
    """The named data set, from `path` if given, else from the cache; "file" is the user's own .npz, whose number of
    `classes` may be said here."""
    if name == "digits":
        return _digits()
    if name == "file":
        return _npz(Path(str(path)), classes)
    place = _found(name) if path is None else Path(path)
    if name == "mnist-writers":
        return _npz(place, find(name).classes)
    if name == "femnist":
        return _femnist(place if path is None else leaf.converted(place))
    where = f"data.path = {path!r}" if path is not None else str(place)
    try:
        return _fashion(place) if name == "fashion" else _cifar10(place)
    except OSError as error:
        raise InputError(f"{where}: {error.filename}: {error.strerror}") from None


def _found(name: str) -> Path:
    """The place of the data set in the cache."""
    place = install.place(find(name))
    if place is None or not place.exists():
        raise InputError(f'data.name = "{name}": not in the cache; run: pfels data get {name}')
    return place


def _digits() -> Dataset:
    """UCI's 1,797 digits of 8×8 pixels, as scikit-learn has them (`docs/make_digits.py`); the same split for all seeds,
    so that they share a test set."""
    with resources.files("pfels.data").joinpath("digits.npz").open("rb") as file, np.load(file) as arrays:
        x, y = (arrays["images"] / 16.0).astype(np.float32)[:, None], arrays["labels"].astype(np.int64)
    order = np.random.Generator(np.random.Philox(key=1797)).permutation(len(y))
    test, train = order[:360], order[360:]
    return Dataset(_examples(x[train], y[train]), _examples(x[test], y[test]), classes=10)


def _npz(path: Path, classes: int | None) -> Dataset:
    """A user's own arrays. The number of classes is given or in the file; else it is the maximum label plus 1."""
    arrays = npz.read(path)
    return of_arrays(arrays, classes=_classes(f"data.path = {str(path)!r}", arrays, classes))


def of_arrays(arrays: Mapping[str, NDArray[Any]], *, classes: int) -> Dataset:
    """The data set in the arrays of a user's own file."""
    train, test = (_examples(arrays[f"x_{part}"], arrays[f"y_{part}"]) for part in ("train", "test"))
    return Dataset(train, test, classes=classes, writers=arrays.get(npz.WRITERS))


def _classes(where: str, arrays: Mapping[str, NDArray[Any]], given: int | None) -> int:
    """The number of classes that is given, in the file, or found in the labels, which must all be below it."""
    stated = npz.stated_classes(arrays)
    if None not in (given, stated) and given != stated:
        raise InputError(f"{where}: says {npz.CLASSES} = {stated}, but data.classes = {given}; they must be the same")
    classes = given if stated is None else stated
    most = {part: int(arrays[part].max()) for part in ("y_train", "y_test")}
    if classes is None:
        return max(most.values()) + 1
    for part, label in most.items():
        if label >= classes:
            raise InputError(f"{where}: {part} has the label {label}; must be below {classes}, the number of classes")
    return classes


def _fashion(folder: Path) -> Dataset:
    """Fashion-MNIST, pixels in [0, 1]."""
    (x, y), (x_test, y_test) = (idx.read_pair(folder, names) for names in (idx.TRAIN, idx.TEST))
    return Dataset(_examples(x[:, None], y), _examples(x_test[:, None], y_test), classes=idx.CLASSES)


def _cifar10(folder: Path) -> Dataset:
    """CIFAR-10, pixels as (x/255 − 0.5)/0.25."""
    inner = folder / "cifar-10-batches-bin"
    parts = [cifar10.read(inner if inner.is_dir() else folder, names) for names in (cifar10.TRAIN, cifar10.TEST)]
    train, test = (_examples(x, y, centre=CIFAR_CENTRE, spread=CIFAR_SPREAD) for x, y in parts)
    return Dataset(train, test, classes=cifar10.CLASSES)


def _femnist(folder: Path) -> Dataset:
    """FEMNIST by writer, as in LEAF: dark ink on white, pixels in [0, 1], no separate test set."""
    x, y, writers = packed.read(folder)
    return Dataset(_examples(x, y), None, classes=packed.CLASSES, writers=writers)


def _examples(x: NDArray[Any], y: NDArray[Any], *, centre: float = 0.0, spread: float = 1.0) -> Examples:
    stored = x if x.dtype == np.uint8 else np.ascontiguousarray(x, np.float32)
    return Examples(torch.from_numpy(stored), torch.from_numpy(y.astype(np.int64)), centre, spread)
