"""Every format is read as specified, refused if broken, and never held in memory twice."""

import gzip
import io
import json
import os
import tracemalloc
import zipfile
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pfels.data import datasets
from pfels.data.formats import cifar10, idx, json_stream, leaf, npz, packed
from pfels.data.formats.json_stream import JsonStream
from pfels.data.partition import split
from pfels.errors import InputError
from pfels.seeding import Purpose, generator
from tests.data.fixtures import (
    LEAF_SAMPLE,
    cifar_folder,
    cifar_parts,
    idx_blobs,
    idx_folder,
    images,
    leaf_file,
    needs_leaf,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PFELS_DATA", str(tmp_path / "cache"))


@pytest.mark.parametrize("zipped", [True, False])
def test_fashion_is_read_from_idx_files_plain_or_zipped(tmp_path: Path, zipped: bool):
    data = datasets.load("fashion", str(idx_folder(tmp_path / "idx", zipped=zipped)))
    assert (len(data.train), len(data.test), data.shape, data.classes) == (40, 10, (1, 28, 28), 10)
    assert torch.equal(data.train.x[:, 0], torch.from_numpy(images(40, 28, 28)))
    assert data.train.y.tolist() == [i % 10 for i in range(40)]


def test_a_written_idx_file_reads_back_unchanged(tmp_path: Path):
    array = images(3, 4, 5)
    idx.write(tmp_path / "a", array)
    assert np.array_equal(idx.read(tmp_path, "a"), array)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b[:3], lambda b: b"", lambda b: b[1:]]
)
def test_a_broken_idx_file_is_refused(tmp_path: Path, damage):
    folder = idx_folder(tmp_path / "idx", zipped=False)
    name = "t10k-labels-idx1-ubyte"
    (folder / name).write_bytes(damage(idx_blobs()[name]))
    with pytest.raises(InputError, match="not a complete idx file"):
        datasets.load("fashion", str(folder))
    (folder / name).unlink()
    (folder / f"{name}.gz").write_bytes(gzip.compress(idx_blobs()[name])[:-9])
    with pytest.raises(InputError, match="not a complete gzip file"):
        datasets.load("fashion", str(folder))


def test_cifar10_is_read_from_the_official_layout_or_the_folder_above_it(tmp_path: Path):
    folder = cifar_folder(tmp_path / "cifar-10-batches-bin")
    parts = cifar_parts()
    for path in (folder, tmp_path):
        data = datasets.load("cifar10", str(path))
        assert (len(data.train), len(data.test), data.shape) == (20, 4, (3, 32, 32))
        for i, name in enumerate(cifar10.TRAIN):
            x, y = parts[name]
            assert np.array_equal(data.train.x[4 * i : 4 * i + 4].permute(0, 2, 3, 1).numpy(), x)
            assert data.train.y[4 * i : 4 * i + 4].tolist() == y.tolist()
    (folder / "data_batch_2.bin").write_bytes(b"x" * 100)
    with pytest.raises(InputError, match=r"data_batch_2\.bin: 100 bytes; must be records of 3073"):
        datasets.load("cifar10", str(folder))


def test_pixels_are_stored_as_bytes_and_scaled_by_constants_on_access(tmp_path: Path):
    data = datasets.load("cifar10", str(cifar_folder(tmp_path / "c")))
    assert data.train.x.dtype == torch.uint8
    expected = (data.train.x.double() / 255 - 0.5) / 0.25
    taken, y = data.train.take(torch.tensor([[3, 1], [0, 3]]))
    assert (taken.shape, y.shape, taken.dtype) == ((2, 2, 3, 32, 32), (2, 2), torch.float32)
    assert torch.allclose(taken[0, 1].double(), expected[1], atol=1e-6)
    assert torch.allclose(data.train.take(torch.arange(20))[0].double(), expected, atol=1e-6)


@given(JSON, st.integers(1, 9))
def test_a_stream_parses_the_same_values_as_the_whole_text_for_any_chunk_size(value, chunk: int):
    text = json.dumps({"first": value, "inner": {"a": value, "b": [value]}, "last": 12345}, indent=1)
    before = json_stream.CHUNK
    json_stream.CHUNK = chunk
    try:
        stream, found = JsonStream(StringIO(text), name="t"), {}
        for key in stream.members():
            found[key] = {k: stream.value() for k in stream.members()} if key == "inner" else stream.value()
    finally:
        json_stream.CHUNK = before
    assert found == json.loads(text)


def test_a_file_truncated_anywhere_is_refused(tmp_path: Path):
    whole = leaf_file(tmp_path / "whole.json", {"ann": 1}).read_text()
    cut = tmp_path / "cut.json"
    for length in [*range(0, 120), *range(120, len(whole) - 1, 97), len(whole) - 1]:
        cut.write_text(whole[:length])
        with pytest.raises(InputError, match="not complete JSON"):
            list(leaf.users(cut))


def test_invalid_json_is_found_before_the_whole_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = leaf_file(tmp_path / "a.json", {f"u{i}": 4 for i in range(40)})
    path.write_text(path.read_text().replace('"u1": {', '"u1": }', 1))
    monkeypatch.setattr(json_stream, "CHUNK", 2**14)

    def read(stream: JsonStream) -> None:
        for key in stream.members():
            _ = [stream.value() for _ in stream.members()] if key == "user_data" else stream.value()

    with open(path) as file:
        stream = JsonStream(file, name="a")
        with pytest.raises(InputError, match="not complete JSON"):
            read(stream)
    assert len(stream._text) < path.stat().st_size / 4


def test_leaf_files_are_read_one_writer_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_stream, "CHUNK", 2**16)
    path = leaf_file(tmp_path / "a.json", {f"u{i}": 4 for i in range(100)})
    tracemalloc.start()
    count = sum(len(data["y"]) for _, data in leaf.users(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 400
    assert peak < path.stat().st_size / 5


@pytest.mark.parametrize("place", [(".",), ("all_data",), ("train", "test")])
def test_every_layout_of_a_leaf_directory_is_read(tmp_path: Path, place: tuple[str, ...]):
    for number, folder in enumerate(place):
        leaf_file(tmp_path / "leaf" / folder / f"{number}.json", {"ann": 2, "bob": 3}, seed=number)
    data = datasets.load("femnist", str(tmp_path / "leaf"))
    assert len(data.train) == 5 * len(place)
    assert np.bincount(data.writers).tolist() == [2 * len(place), 3 * len(place)]  # one writer, however many files
    with pytest.raises(InputError, match="no such directory"):
        datasets.load("femnist", str(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="contains no"):
        datasets.load("femnist", str(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": [[0.5] * 784], "y": [0]}, "not a multiple of 1/255"),
        ({"x": [[2.0] * 784], "y": [0]}, "not a multiple of 1/255 in"),
        ({"x": [[1.0] * 783], "y": [0]}, "x has shape"),
        ({"x": [[1.0] * 784], "y": [62]}, "label is not an integer from 0 to 61"),
        ({"x": [[1.0] * 784], "y": [1.5]}, "label is not an integer"),
        ({"x": [[1.0] * 784]}, "must have x"),
        ({"x": [["a"] * 784], "y": [0]}, "must have x"),
    ],
)
def test_values_that_leaf_never_writes_are_refused_and_named(tmp_path: Path, data, message: str):
    path = tmp_path / "leaf" / "bad.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"users": ["ann"], "num_samples": [1], "user_data": {"ann": data}}))
    with pytest.raises(InputError, match=rf"bad\.json: writer ann: .*{message}"):
        datasets.load("femnist", str(path.parent))
    assert not list((tmp_path / "cache").iterdir())


def test_a_conversion_is_repeated_only_when_the_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = leaf_file(tmp_path / "leaf" / "a.json", {"ann": 2})
    assert len(datasets.load("femnist", str(path.parent)).train) == 2
    with monkeypatch.context() as m:
        m.setattr(leaf, "pack", lambda *_: pytest.fail("converted twice"))
        datasets.load("femnist", str(path.parent))
    leaf_file(path, {"ann": 3})
    assert len(datasets.load("femnist", str(path.parent)).train) == 3
    assert not (tmp_path / "cache" / ".work").exists()


def test_a_truncated_conversion_is_refused(tmp_path: Path):
    path = leaf_file(tmp_path / "leaf" / "a.json", {"ann": 2})
    place = leaf.converted(path.parent)
    os.truncate(place / packed.IMAGES, 100)
    with pytest.raises(InputError, match="missing or truncated"):
        datasets.load("femnist", str(path.parent))


@needs_leaf
def test_the_leaf_sample_is_read_as_by_the_json_module():
    data = datasets.load("femnist", str(LEAF_SAMPLE))
    assert (len(data.train), len(np.unique(data.writers)), data.shape, data.classes) == (1761, 28, (1, 28, 28), 62)
    first = 0
    for path in sorted(LEAF_SAMPLE.glob("*.json")):
        content = json.loads(path.read_text())
        for user, count in zip(content["users"], content["num_samples"], strict=True):
            x, y = data.train.take(torch.arange(first, first + count))
            expected = np.array(content["user_data"][user]["x"], np.float32).reshape(-1, 1, 28, 28)
            assert np.allclose(x.numpy(), expected, atol=1e-7)
            assert y.tolist() == content["user_data"][user]["y"]
            assert len(set(data.writers[first : first + count])) == 1
            first += count
    assert first == 1761
    assert float(data.train.take(torch.arange(100))[0].mean()) > 0.8  # the background is white


@needs_leaf
def test_each_femnist_device_is_a_writer_who_holds_out_a_tenth_for_the_test():
    data = datasets.load("femnist", str(LEAF_SAMPLE))

    def devices(seed: int):
        draw = generator(seed, Purpose.PARTITION)
        return split(data, draw, kind="writer", devices=20, per_device=50, alpha=1.0)

    federation, again, other = devices(0), devices(0), devices(1)
    sizes = np.bincount(data.writers)
    own = [int(data.writers[part[0]]) for part in federation.parts]
    assert len(set(own)) == 20
    assert all(set(data.writers[part]) == {writer} for part, writer in zip(federation.parts, own, strict=True))
    assert [len(part) for part in federation.parts] == [sizes[w] - sizes[w] // 10 for w in own]
    assert len(federation.test) == sum(sizes[w] // 10 for w in own)
    everything = torch.cat([data.train.x[torch.from_numpy(np.concatenate(federation.parts))], federation.test.x])
    whole = data.train.x[torch.from_numpy(np.flatnonzero(np.isin(data.writers, own)))]
    assert sorted(map(bytes, everything.numpy())) == sorted(map(bytes, whole.numpy()))
    assert all(np.array_equal(a, b) for a, b in zip(federation.parts, again.parts, strict=True))
    assert own != [int(data.writers[part[0]]) for part in other.parts]


def test_held_out_examples_are_not_trained_on(tmp_path: Path):
    data = datasets.load("femnist", str(leaf_file(tmp_path / "leaf" / "a.json", {"ann": 30, "bob": 20}).parent))
    federation = split(data, generator(0, Purpose.PARTITION), kind="writer", devices=2, per_device=20, alpha=1.0)
    assert sorted(len(part) for part in federation.parts) == [18, 27]
    assert len(federation.test) == 5


def test_devices_too_small_to_hold_out_a_tenth_are_refused(tmp_path: Path):
    path = leaf_file(tmp_path / "leaf" / "a.json", {"ann": 9, "bob": 5})
    data = datasets.load("femnist", str(path.parent))
    with pytest.raises(InputError, match="no device has 10 examples"):
        split(data, generator(0, Purpose.PARTITION), kind="writer", devices=2, per_device=None, alpha=1.0)


@pytest.mark.parametrize(
    ("name", "command"),
    [("cifar10", "get cifar10"), ("fashion", "get fashion"), ("femnist", "get femnist"),
     ("mnist-writers", "get mnist-writers")],
)  # fmt: skip
def test_data_missing_from_the_cache_name_the_command_that_installs_them(name: str, command: str):
    with pytest.raises(InputError, match=f'data.name = "{name}": not in the cache; run: pfels data {command}$'):
        datasets.load(name)


def test_an_invalid_npz_is_refused_in_one_line(tmp_path: Path):
    """No content of a foreign file is executed; the error names the file and the cause."""
    good = {"x_train": np.ones((9, 4)), "y_train": np.arange(9), "x_test": np.ones((2, 4)), "y_test": np.arange(2)}
    path = tmp_path / "own.npz"
    np.savez_compressed(path, **good)
    broken = bytearray(path.read_bytes())
    broken[60:90] = bytes(b ^ 0x5A for b in broken[60:90])
    array, objects = io.BytesIO(), io.BytesIO()
    np.save(array, np.zeros(3))
    np.savez(objects, **{**good, "y_train": np.array([print] * 9, dtype=object)})
    huge = {"descr": "<f8", "fortran_order": False, "shape": (10**14, 8)}
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, huge)
    for content in (
        bytes(broken),
        array.getvalue(),
        objects.getvalue(),
        members(b"hello"),
        members(header.getvalue()),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"^data\.path = .*own\.npz'") as caught:
            npz.read(path)
        assert "\n" not in str(caught.value)


def members(content: bytes) -> bytes:
    """A zip whose arrays all hold these bytes."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name in npz.ARRAYS:
            file.writestr(f"{name}.npy", content)
    return archive.getvalue()


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ((8, 6), (1, 8, 6)),
        ((8, 6, 2), (2, 8, 6)),
        ((2, 8, 6), (2, 8, 6)),
        ((28, 28, 1), (1, 28, 28)),
        ((3, 32, 32), (3, 32, 32)),
        ((32, 32, 4), (4, 32, 32)),
    ],
)
def test_images_are_read_with_channels_first_or_last(tmp_path: Path, given: tuple, read: tuple):
    x = np.random.default_rng(0).random((5, *given)).astype(np.float32)
    path = saved(tmp_path, x)
    found = npz.read(path)["x_train"]
    assert found.shape == (5, *read)
    if len(given) == 3 and given != read:
        assert np.array_equal(found, np.moveaxis(x, -1, 1))
    else:
        assert np.array_equal(found.reshape(x.shape), x)


@pytest.mark.parametrize("shape", [(4, 4, 4), (28, 28, 64), (1, 9, 1)])
def test_images_without_a_recognisable_channel_axis_are_refused(tmp_path: Path, shape: tuple):
    with pytest.raises(InputError, match="fewer channels than rows and columns"):
        npz.read(saved(tmp_path, np.zeros((5, *shape), np.float32)))


def saved(folder: Path, x: np.ndarray) -> Path:
    labels = np.arange(len(x))
    np.savez(folder / "own.npz", x_train=x, y_train=labels, x_test=x, y_test=labels)
    return folder / "own.npz"
