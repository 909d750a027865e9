"""Whatever a data file holds, it is read as data or refused in one line, before it costs memory or time."""

import gzip
import io
import json
import os
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pfels.data import datasets
from pfels.data.formats import npz
from pfels.errors import InputError
from tests.data.fixtures import cifar_folder, idx_blobs, idx_folder

GOOD = {"x_train": np.ones((9, 4)), "y_train": np.arange(9), "x_test": np.ones((2, 4)), "y_test": np.arange(2)}
GIB = 2**30


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PFELS_DATA", str(tmp_path / "cache"))


def refused(name: str, path: Path, reason: str) -> None:
    """It is refused in one printable line, which names the file."""
    with pytest.raises(InputError, match=reason) as caught:
        datasets.load(name, str(path))
    assert str(caught.value).isprintable()
    assert path.name in str(caught.value)
    assert len(str(caught.value)) < 600


def deflated(head: bytes, zeros: int) -> tuple[bytes, int]:
    """A raw deflate stream of `head` and then zeros, and its checksum; made fast, out of equal blocks."""
    unit = 2**24
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(unit)) + packer.flush(zlib.Z_FULL_FLUSH)
    crc, blank = zlib.crc32(head), bytes(unit)
    for _ in range(zeros // unit):
        crc = zlib.crc32(blank, crc)
    return start + block * (zeros // unit) + packer.flush(zlib.Z_FINISH), crc


def test_numbers_that_are_infinite_in_float32_are_refused(tmp_path: Path):
    np.savez(tmp_path / "own.npz", **{**GOOD, "x_train": GOOD["x_train"] * 1e300})
    refused("file", tmp_path / "own.npz", "x_train holds NaN, infinity, or a number that is one in float32")
    np.savez(tmp_path / "own.npz", **{**GOOD, "x_test": GOOD["x_test"] * 3e38})
    assert datasets.load("file", str(tmp_path / "own.npz")).test.x.max() > 2.9e38


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "x_train",
            np.ones((9, 4)).astype(object),
            "Python objects, .*; make text columns numbers, then save x.astype",
        ),
        (
            "x_train",
            np.ones((9, 4), int),
            r"x_train is int64; must be floating point, or uint8 for pixels; save x\.astype",
        ),
        (
            "x_train",
            np.ones((9, 4)).astype(str),
            "x_train is <U32; must be floating point, .*; make text columns numbers",
        ),
        (
            "y_train",
            np.arange(9).astype(object),
            r"Python objects, .*; save whole numbers from 0, such as \[names\.index",
        ),
        ("y_train", np.arange(9).astype(str), r"y_train is <U21 .*; save whole numbers from 0, such as \[names\.index"),
        ("y_test", np.arange(2.0), "y_test is float64 .*; must be 2 integer labels from 0; save whole numbers from 0"),
        ("y_train", np.arange(-1, 8), "y_train has the label -1; must be 9 integer labels from 0$"),
        ("writer_train", np.array(["ann"] * 9, object), r"Python objects, .*; save writer\.astype\(str\)"),
        ("writer_train", np.array([np.nan] * 9), "writer_train holds NaN or infinity; every training example must be"),
        ("classes", np.array("three", object), "Python objects, .*; save one whole number"),
    ],
)
def test_what_pandas_saves_is_refused_with_the_cure(name: str, value: np.ndarray, message: str, tmp_path: Path):
    np.savez(tmp_path / "own.npz", **{**GOOD, name: value})
    refused("file", tmp_path / "own.npz", message)


@pytest.mark.parametrize("value", [1e308, -1e308, 1e999, -1e999, float("nan")])
def test_a_pixel_beyond_all_numbers_is_refused_without_a_warning(value: float, tmp_path: Path):
    text = json.dumps({"user_data": {"ann": {"x": [[value] * 784], "y": [1]}}})
    with pytest.raises(InputError, match="writer ann: a pixel is not a multiple of 1/255"):
        datasets.load("femnist", str(leaf(tmp_path / "leaf", text)))


def test_a_label_that_the_data_set_does_not_have_is_refused(tmp_path: Path):
    folder = idx_folder(tmp_path / "idx", zipped=False)
    name = "train-labels-idx1-ubyte"
    (folder / name).write_bytes(idx_blobs()[name][:-1] + b"\xc8")
    refused("fashion", folder, f"{name}: has the label 200; must be 0 to 9")
    cifar = cifar_folder(tmp_path / "cifar")
    blob = bytearray((cifar / "data_batch_3.bin").read_bytes())
    blob[3073] = 10
    (cifar / "data_batch_3.bin").write_bytes(blob)
    refused("cifar10", cifar, r"data_batch_3\.bin: has the label 10; must be 0 to 9")


@pytest.mark.parametrize("axes", [0, 5, 255])
def test_an_idx_file_has_one_to_four_axes(tmp_path: Path, axes: int):
    folder = idx_folder(tmp_path / "idx", zipped=False)
    (folder / "t10k-images-idx3-ubyte").write_bytes(struct.pack(f">BBBB{axes}I", 0, 0, 8, axes, *[1] * axes) + b"x")
    refused("fashion", folder, "t10k-images-idx3-ubyte: not a complete idx file")


def test_a_zipped_idx_file_is_not_unpacked_beyond_the_limit(tmp_path: Path):
    folder = idx_folder(tmp_path / "idx")
    head = struct.pack(">IIII", 0x803, 2**21, 28, 28)
    stream, crc = deflated(head, GIB + 2**26)
    path = folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(b"")[:10] + stream + struct.pack("<II", crc, GIB + 2**26 + len(head)))
    assert path.stat().st_size < 10_000_000
    began = time.monotonic()
    refused("fashion", folder, r"unpacked it would take 1\.6 GB; must be at most 1\.1 GB")
    # A header that says little and data that go on: no more is read than the header says.
    head = struct.pack(">IIII", 0x803, 40, 28, 28)
    stream, crc = deflated(head, GIB + 2**26)
    path.write_bytes(gzip.compress(b"")[:10] + stream + struct.pack("<II", crc, GIB + 2**26 + len(head)))
    refused("fashion", folder, "not a complete idx file")
    assert time.monotonic() - began < 10


def leaf(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "bad.json").write_text(text)
    return folder


LEAF = {
    "nested deeply": ('{"user_data": {"ann": ' + "[" * 200_000 + "]" * 200_000 + "}}", "nested too deeply"),
    "a number of 5,000 digits": ('{"user_data": {"ann": ' + "9" * 5000 + "}}", "a number of thousands of digits"),
    "a label of 10^400": (
        json.dumps({"user_data": {"ann": {"x": [[1.0] * 784], "y": [10**400]}}}), "writer ann: must have x",
    ),
    "a scalar y": (json.dumps({"user_data": {"ann": {"x": [[1.0] * 784], "y": 3}}}), r"writer ann: x has shape"),
    "no writers": ('{"user_data": {}}', "hold no examples"),
    "writers without examples": ('{"user_data": {"ann": {"x": [], "y": []}}}', "hold no examples"),
    "a name of two lines": (json.dumps({"user_data": {"a\n\x1b[31mb": {"x": [[2.0] * 784], "y": [0]}}}), "multiple of"),
    "a key that is no text": ('{"user_data": {7: {}}}', "a key must be text, not 7"),
}  # fmt: skip


@pytest.mark.parametrize("kind", LEAF)
def test_leaf_files_that_break_parsers_are_refused(tmp_path: Path, kind: str):
    text, reason = LEAF[kind]
    with pytest.raises(InputError, match=reason) as caught:
        datasets.load("femnist", str(leaf(tmp_path / "leaf", text)))
    assert str(caught.value).isprintable()
    assert "bad.json" in str(caught.value)
    assert not list((tmp_path / "cache").iterdir())


def test_a_leaf_value_larger_than_any_writers_is_not_kept_in_memory(tmp_path: Path):
    folder = leaf(tmp_path / "leaf", "")
    with open(folder / "bad.json", "w") as file:
        file.write('{"user_data": {"ann": [')
        for _ in range(20):
            file.write("1," * 2**19)
    with pytest.raises(InputError, match="a value of more than 16777216 characters"):
        datasets.load("femnist", str(folder))


def archive(change: Callable[[zipfile.ZipFile], None] = lambda file: None, **members: bytes) -> bytes:
    """An .npz whose members are given as bytes; the others are those of a good one."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, array in GOOD.items():
            member = io.BytesIO()
            np.save(member, array)
            file.writestr(f"{name}.npy", members.get(name, member.getvalue()))
        change(file)
    return made.getvalue()


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def directory_field(blob: bytes, offset: int, value: int) -> bytes:
    """The archive with a 16-bit field changed in every entry of its directory, and in every member's own header."""
    changed, at = bytearray(blob), 0
    while (at := changed.find(b"PK\x01\x02", at)) >= 0:
        struct.pack_into("<H", changed, at + offset, value)
        at += 4
    at = 0
    while (at := changed.find(b"PK\x03\x04", at)) >= 0:
        struct.pack_into("<H", changed, at + offset - 2, value)
        at += 4
    return bytes(changed)


HEADERS = {
    "no features": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (9, 0), }"),
    "broken tokens": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (9, 4"),
    "an unknown token": npy("{'descr': $, 'fortran_order': False, 'shape': (9, 4)}"),
    "a bool as shape": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (True, 4), }", bytes(32)),
    "a shape of bytes": npy("{'descr': '<f8', 'fortran_order': False, 'shape': b'abc', }"),
    "a message of many lines": npy("{'descr': '<f8\\n\\n\\n\\x1b[31m', 'fortran_order': False, 'shape': (9, 4), }"),
    "a shape of 10^400": npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': (1{'0' * 400}, 4), }}"),
    "nested deeply": npy("(" * 5000),
    "33 axes": npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({'1, ' * 33}), }}", bytes(8)),
    "objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (9, 4), }"),
    "a dtype of a gigabyte": npy("{'descr': '<U999999', 'fortran_order': False, 'shape': (9, 4), }"),
    "less data than its shape": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (9, 4), }", bytes(8)),
    "no header": b"\x93NUMPY\x01",
}  # fmt: skip


@pytest.mark.parametrize("kind", HEADERS)
def test_npz_headers_that_break_parsers_are_refused(tmp_path: Path, kind: str):
    (tmp_path / "own.npz").write_bytes(archive(x_train=HEADERS[kind]))
    refused("file", tmp_path / "own.npz", "x_train")


@pytest.mark.parametrize(
    ("kind", "offset", "value"),
    [("version", 6, 99), ("encrypted", 8, 1), ("patched", 8, 0x20), ("method", 10, 98), ("lzma", 10, 14)],
)
def test_archives_that_zipfile_cannot_unpack_are_refused(tmp_path: Path, kind: str, offset: int, value: int):
    (tmp_path / "own.npz").write_bytes(directory_field(archive(), offset, value))
    refused("file", tmp_path / "own.npz", "own.npz")


def test_a_small_npz_is_not_unpacked_beyond_the_limit(tmp_path: Path):
    rows = GIB // 8 + 2**23
    head = npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 1), }}")
    stream, crc = deflated(head, 8 * rows)
    name, size = b"x_train.npy", len(head) + 8 * rows
    local = struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", 20, 0, 8, 0, 33, crc, len(stream), size, len(name), 0) + name
    entry = struct.pack(
        "<4sHHHHHHIIIHHHHHII", b"PK\x01\x02", 20, 20, 0, 8, 0, 33, crc, len(stream), size, len(name), 0, 0, 0, 0, 0, 0
    )
    rest = archive()
    at = rest.find(b"PK\x01\x02")
    members, directory = rest[:at], rest[at : rest.rfind(b"PK\x05\x06")]
    first = len(local) + len(stream)
    own, offset = bytearray(directory), 0
    while (offset := own.find(b"PK\x01\x02", offset)) >= 0:
        struct.pack_into("<I", own, offset + 42, struct.unpack_from("<I", own, offset + 42)[0] + first)
        offset += 4
    listing = bytes(own) + entry + name
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 5, 5, len(listing), first + len(members), 0)
    path = tmp_path / "own.npz"
    path.write_bytes(local + stream + members + listing + end)
    assert path.stat().st_size < 10_000_000
    began = time.monotonic()
    refused("file", path, r"unpacked it would take 1\.1 GB; must be at most 1\.1 GB")
    assert time.monotonic() - began < 2


def test_a_large_archive_may_unpack_to_what_real_data_compress_by(tmp_path: Path):
    """Twenty times its own size: nobody's own data are refused for being large."""
    path = tmp_path / "own.npz"
    np.savez(path, **GOOD)
    found = npz.read(path)
    assert found["x_train"].shape == (9, 4)
    from pfels.data.formats.limits import MAXIMUM_RATIO, require_size

    require_size(MAXIMUM_RATIO * 2 * GIB, "own.npz", stored=2 * GIB)
    with pytest.raises(InputError, match="unpacked it would take"):
        require_size(MAXIMUM_RATIO * 2 * GIB + 1, "own.npz", stored=2 * GIB)


@pytest.mark.parametrize(
    ("name", "file"),
    [("fashion", "train-images-idx3-ubyte"), ("cifar10", "data_batch_1.bin"), ("file", None), ("femnist", "a.json")],
)
def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(tmp_path: Path, name: str, file: str | None):
    path = tmp_path / "data"
    if file is not None:
        path.mkdir()
    os.mkfifo(path / file if file else path)
    began = time.monotonic()
    with pytest.raises(InputError, match="no such file"):
        datasets.load(name, str(path))
    assert time.monotonic() - began < 5


def test_a_packed_folder_that_was_altered_is_refused(tmp_path: Path):
    from pfels.data.formats import packed

    for runs in (
        "{}",
        "[[1, 2]]",
        '[["ann", true]]',
        '[["ann", -1]]',
        '[["ann", 1e9]]',
        "[" * 100_000,
        "[]",
        '[["a"]]',
    ):
        folder = tmp_path / str(abs(hash(runs)))
        with packed.Packer(folder, source="LEAF") as packer:
            packer.add("ann", np.zeros((2, 784), np.uint8), np.zeros(2, np.uint8))
        (folder / packed.WRITERS).write_text(runs)
        with pytest.raises(InputError, match=r"writers\.json: missing or altered"):
            packed.read(folder)
