"""Data files of every format: accepted data are finite, of one shape, and labelled within range."""

import gzip
import io
import json
import os
import shutil
import struct
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from pfels.data import datasets, users, writers
from pfels.data.cache import Workspace
from pfels.data.formats import cifar10, idx, npz, packed
from pfels.errors import InputError
from tests.fuzz.target import Target, part, require

ARRAYS = {
    "x_train": np.linspace(0, 1, 24, dtype=np.float64).reshape(6, 4), "y_train": np.arange(6) % 3,
    "x_test": np.ones((2, 4), np.float32), "y_test": np.array([0, 1], np.uint8),
    "writer_train": np.array(["ann", "bob"] * 3), "classes": np.array(3),
}  # fmt: skip


def _load(name: str, path: Path) -> None:
    if name == "file":  # what a config and its privacy figures take from it
        found = users.defaults(path, {})
        users.notes(name, str(path), partition="iid", devices=2, per_device=None, classes=None)
        require(found.get("devices", 1) >= 1, "no device")
    data = datasets.load(name, str(path))
    for examples in filter(None, (data.train, data.test)):
        require(len(examples) > 0 and len(examples.x) == len(examples.y), "examples and labels of different number")
        require(all(examples.shape), "an empty example")
        require(int(examples.y.min()) >= 0 and int(examples.y.max()) < data.classes, "a label out of range")
        x, _ = examples.take(torch.arange(min(len(examples), 50)))
        require(x.dtype == torch.float32 and bool(torch.isfinite(x).all()), "not finite in float32")
    require(data.test is None or data.test.shape == data.train.shape, "two shapes")
    require(data.writers is None or len(data.writers) == len(data.train), "writers of another number")


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _archive(members: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return made.getvalue()


MEMBERS = {name: _npy(array) for name, array in ARRAYS.items()}


def _npz_corpus(folder: Path) -> Sequence[bytes]:
    images = MEMBERS | {"x_train": _npy(np.zeros((6, 5, 5, 3), np.uint8)), "x_test": _npy(np.zeros((2, 5, 5, 3)))}
    whole = [_archive(MEMBERS), _archive(MEMBERS, method=zipfile.ZIP_STORED), _archive(images)]
    return [part(0, each) for each in whole] + [part(1 + i, each) for i, each in enumerate(MEMBERS.values())]


def _npz(data: bytes, folder: Path) -> None:
    path, names = folder / "own.npz", list(MEMBERS)
    kind = data[0] % (1 + len(names))
    path.write_bytes(data[1:] if kind == 0 else _archive(MEMBERS | {names[kind - 1]: data[1:]}))
    with suppress(InputError):
        npz.read_of_node(path, where="local-data")
    _load("file", path)


IDX = (*idx.TRAIN, *idx.TEST)


def _idx_files(folder: Path) -> list[bytes]:
    for names, count in ((idx.TRAIN, 3), (idx.TEST, 2)):
        idx.write(folder / names[0], np.zeros((count, 28, 28), np.uint8))
        idx.write(folder / names[1], np.arange(count, dtype=np.uint8))
    return [(folder / name).read_bytes() for name in IDX]


def _idx_corpus(folder: Path) -> Sequence[bytes]:
    files = _idx_files(folder)
    plain = [part(i, file) for i, file in enumerate(files)]
    return [*plain, *(part(4 + i, gzip.compress(f, 1)) for i, f in enumerate(files)), *(b"\x08" + f for f in files[:1])]


def _idx(data: bytes, folder: Path) -> None:
    _idx_files(folder)
    how, which = divmod(data[0] % 12, 4)  # plain; zipped and then changed; changed and then zipped
    path = folder / IDX[which]
    if how == 0:
        path.write_bytes(data[1:])
    else:
        path.unlink()
        path.with_name(f"{path.name}.gz").write_bytes(data[1:] if how == 1 else gzip.compress(data[1:], 1))
    _load("fashion", folder)


def _labels(*, writers: Sequence[int] = (0, 9, 9)) -> bytes:
    """QMNIST's labels for the three images of `_idx_files`."""
    rows = np.array([[i, 4, writer, i, 48, i, 0, 0] for i, writer in enumerate(writers)], ">i4")
    return struct.pack(">III", 0xC02, *rows.shape) + rows.tobytes()


def _writers_corpus(folder: Path) -> Sequence[bytes]:
    return [part(0, _labels()), part(1, gzip.compress(_labels(writers=(-1, 2**31 - 1, 0)), 1))]


def _writers(data: bytes, folder: Path) -> None:
    """QMNIST's labels beside MNIST, joined and read back."""
    _idx_files(folder)
    (folder / f"{writers.LABELS}{'.gz' * (data[0] % 2)}").write_bytes(data[1:])
    (folder / "build").mkdir()
    made = writers.from_folder(folder, Workspace(folder, folder / "build", -1))
    _load("mnist-writers", made)
    require(len(writers.own(made)["writer_train"]) == 3, "writers of another number")


CIFAR = (*cifar10.TRAIN, *cifar10.TEST)


def _cifar_corpus(folder: Path) -> Sequence[bytes]:
    return [part(i, bytes([i]) + bytes(cifar10.RECORD - 1)) for i in range(len(CIFAR))]


def _cifar(data: bytes, folder: Path) -> None:
    for name in CIFAR:
        (folder / name).write_bytes(bytes([3]) + bytes(cifar10.RECORD - 1))
    (folder / CIFAR[data[0] % len(CIFAR)]).write_bytes(data[1:])
    _load("cifar10", folder)


def _leaf_corpus(folder: Path) -> Sequence[bytes]:
    def file(users: dict[str, int]) -> bytes:
        data = {name: {"x": [[1.0, 0.0] * 392] * n, "y": list(range(n))} for name, n in users.items()}
        return json.dumps({"users": list(users), "num_samples": list(users.values()), "user_data": data}).encode()

    return [part(0, file(users)) for users in ({"ann": 1}, {"ann": 1, "bob": 1}, {"none": 0, "ann": 1})]


def _leaf(data: bytes, folder: Path) -> None:
    os.environ["PFELS_DATA"] = str(folder / "cache")
    (folder / "leaf").mkdir()
    (folder / "leaf" / "a.json").write_bytes(data[1:])
    _load("femnist", folder / "leaf")


def _packed_corpus(folder: Path) -> Sequence[bytes]:
    made = _packed_folder(folder / "packed")
    return [part(i, (made / name).read_bytes()) for i, name in enumerate(PACKED)]


PACKED = (packed.INDEX, packed.WRITERS, packed.LABELS, packed.IMAGES)


def _packed_folder(folder: Path) -> Path:
    with packed.Packer(folder, source="LEAF") as packer:
        packer.add("ann", np.zeros((2, 784), np.uint8), np.arange(2, dtype=np.uint8))
        packer.add("bob", np.zeros((1, 784), np.uint8), np.full(1, 61, np.uint8))
    return folder


def _packed(data: bytes, folder: Path) -> None:
    os.environ["PFELS_DATA"] = str(folder)
    made = _packed_folder(folder / "femnist")
    (made / PACKED[data[0] % 4]).write_bytes(data[1:])
    found = datasets.load("femnist")
    require(
        int(found.train.y.max()) < 62 and len(found.train.x) == len(found.train.y) > 0, "nonsense in a packed folder"
    )
    shutil.rmtree(made)


TARGETS = (
    Target("npz", _npz_corpus, _npz),
    Target("idx", _idx_corpus, _idx),
    Target("writers", _writers_corpus, _writers),
    Target("cifar", _cifar_corpus, _cifar),
    Target("leaf", _leaf_corpus, _leaf),
    Target("packed", _packed_corpus, _packed),
)
