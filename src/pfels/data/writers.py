"""MNIST by its writers: MNIST's images joined with the writers that QMNIST found for them, or a user's own file."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfels.data import hub
from pfels.data.cache import Progress, Workspace, digest
from pfels.data.catalog import find
from pfels.data.download import download
from pfels.data.formats import idx, npz
from pfels.data.packages import SourceError
from pfels.documents.data import HomeMade
from pfels.documents.validate import validated
from pfels.errors import InputError
from pfels.runtime.files import read_json, to_json, write_atomically

NAME = "mnist-writers"
MNIST_HUB = "ylecun/mnist"  # not pinned: what comes is held against the checksums of the arrays
LABELS = "qmnist-train-labels-idx2-int"
LABELS_URL = f"https://raw.githubusercontent.com/facebookresearch/qmnist/master/{LABELS}.gz"
LABELS_MD5 = "md5:0058f8dd561b90ffdd0f734c6a30e5e4"  # as torchvision publishes it
CLASS, WRITER, COLUMNS = 0, 2, 8  # of QMNIST's labels: the digit, its series, its writer, …
SHAPE = find(NAME).shape
Arrays = Mapping[str, NDArray[Any]]


def from_hub(work: Workspace, progress: Progress) -> Path:
    """MNIST from the hub, and QMNIST's labels from its authors, joined."""
    arrays: dict[str, NDArray[Any]] = {}
    for part in ("train", "test"):
        x, y = [], []
        for row in hub.rows(MNIST_HUB, part, progress, revision=None):
            x.append(hub.pixels(row["image"], "L"))
            y.append(row["label"])
        arrays |= {f"x_{part}": np.stack(x), f"y_{part}": np.array(y, np.uint8)}
    labels = download(LABELS_URL, LABELS_MD5, work, progress)
    try:
        made = joined(arrays, idx.read_file(labels, of=idx.INT32), work)
        original = is_original(own(made))
    except InputError as error:
        raise SourceError(str(error)) from None
    if not original:
        raise SourceError("its data differ from the original: the checksum of an array is another")
    return made


def from_folder(folder: Path, work: Workspace) -> Path:
    """The same from MNIST's four idx files and QMNIST's labels of the training set, zipped or not."""
    arrays: dict[str, NDArray[Any]] = {}
    for part, names in (("train", idx.TRAIN), ("test", idx.TEST)):
        arrays[f"x_{part}"], arrays[f"y_{part}"] = idx.read_pair(folder, names)
    return joined(arrays, idx.read(folder, LABELS, of=idx.INT32), work)


def joined(arrays: Arrays, labels: NDArray[np.int32], work: Workspace) -> Path:
    """One .npz of MNIST and the writers of its training images, which QMNIST lists in MNIST's order."""
    y = arrays["y_train"]
    if labels.ndim != 2 or labels.shape[1] != COLUMNS or len(labels) != len(y):
        raise InputError(f"{LABELS}: has shape {labels.shape}; must be {len(y)} rows of {COLUMNS}, one per image")
    wrong = np.flatnonzero(labels[:, CLASS] != y)
    if len(wrong):
        first = wrong[0]
        raise InputError(
            f"{LABELS}: row {first + 1} says {labels[first, CLASS]}, and MNIST's label there is {y[first]}"
        )
    made = work.build / "joined.npz"
    np.savez_compressed(made, **arrays, writer_train=labels[:, WRITER])  # type: ignore[arg-type]
    return made


def own(path: Path) -> Arrays:
    """The arrays of a user's own file; an InputError unless they can stand for this data set."""
    where = f"--from {path}"
    arrays = npz.read(path, where=where)
    shape = arrays["x_train"].shape[1:]
    if shape != SHAPE:
        raise InputError(f"{where}: examples of shape {shape}; must be {SHAPE}, as those of {NAME}")
    if npz.WRITERS not in arrays:
        raise InputError(f"{where}: lacks {npz.WRITERS}, who wrote each training image")
    most = max(int(arrays[f"y_{part}"].max()) for part in ("train", "test"))
    if most >= idx.CLASSES:
        raise InputError(f"{where}: has the label {most}; must be 0 to {idx.CLASSES - 1}")
    return arrays


def is_original(arrays: Arrays) -> bool:
    """Whether these are MNIST's images and labels, and QMNIST's writers, by the checksums of the arrays."""
    return all(name in arrays and _checksum(arrays[name]) == known for name, known in find(NAME).arrays.items())


def _checksum(array: NDArray[Any]) -> str:
    if array.dtype != np.uint8 or array.ndim == 1:
        if not np.issubdtype(array.dtype, np.integer):
            return ""
        array = array.astype("<i8")
    return f"sha256:{hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}"


def record(made: Path, target: Path, *, source: str) -> HomeMade:
    """Write down what is about to be installed at `target`: its checksum, and whether it is the original."""
    about: HomeMade = {"sha256": digest(made, "sha256"), "source": source, "original": is_original(own(made))}
    write_atomically(_beside(target), to_json(about))
    return about


def recorded(target: Path) -> HomeMade | None:
    """What was written down of an installed file; None if it came from an older version, which knew the original
    file alone."""
    content = read_json(_beside(target))
    return None if content is None else validated(HomeMade, content, f"{_beside(target)}")


def _beside(target: Path) -> Path:
    return target.with_suffix(".json")
