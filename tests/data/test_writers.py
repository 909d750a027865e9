"""`mnist-writers` from public sources and from the user's own files, with tiny files of the same formats."""

import gzip
import hashlib
import json
import struct
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfels.config.load import load_config
from pfels.data import catalog, datasets, download, hub, install, writers
from pfels.data.cache import BLOCK
from pfels.data.formats import idx
from pfels.errors import InputError, RunError
from pfels.experiment.loop import run
from tests.data.fixtures import idx_blobs, idx_folder, images, labels
from tests.data.test_install import fake_hub

TRAIN, TEST = 40, 10


def qmnist(y: np.ndarray, *, shift: int = 0) -> bytes:
    """QMNIST's labels of the training set: digit, series, writer, and five columns that nobody reads here."""
    rows = [[int(digit), 4, 100 + (i + shift) // 4, i, 48 + int(digit), i, 0, 0] for i, digit in enumerate(y)]
    return struct.pack(">III", 0xC02, len(rows), 8) + np.array(rows, ">i4").tobytes()


def folder_of(path: Path, blob: bytes | None = None, *, zipped: bool = True) -> Path:
    """MNIST's idx files, and beside them QMNIST's labels."""
    idx_folder(path, zipped=zipped)
    content = qmnist(labels(TRAIN)) if blob is None else blob
    name = f"{writers.LABELS}.gz" if zipped else writers.LABELS
    (path / name).write_bytes(gzip.compress(content) if zipped else content)
    return path


def tiny() -> dict[str, np.ndarray]:
    return {
        "x_train": images(TRAIN, 28, 28), "y_train": labels(TRAIN), "x_test": images(TEST, 28, 28, seed=1),
        "y_test": labels(TEST), "writer_train": 100 + np.arange(TRAIN) // 4,
    }  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache without a hub; the tiny arrays are the originals, with checksums computed here."""
    monkeypatch.setenv("PFELS_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(hub, "_reachable", lambda: False)
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.setattr(hub.importlib.util, "find_spec", lambda name: None)
    sums = {
        name: "sha256:" + hashlib.sha256((a if name[0] == "x" else a.astype("<i8")).tobytes()).hexdigest()
        for name, a in tiny().items()
    }
    entry = replace(catalog.CATALOG["mnist-writers"], arrays=sums)
    monkeypatch.setattr(catalog, "CATALOG", {**catalog.CATALOG, "mnist-writers": entry})
    return tmp_path / "cache"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder over HTTP in place of QMNIST's own, with the tiny labels and their checksum."""
    folder = tmp_path / "served"
    folder.mkdir()
    blob = gzip.compress(qmnist(labels(TRAIN)))
    (folder / f"{writers.LABELS}.gz").write_bytes(blob)
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = HTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(writers, "LABELS_URL", f"http://127.0.0.1:{server.server_port}/{writers.LABELS}.gz")
    monkeypatch.setattr(writers, "LABELS_MD5", f"md5:{hashlib.md5(blob).hexdigest()}")
    yield folder
    server.shutdown()
    server.server_close()


def rows(*, shift: int = 0) -> dict[tuple[str, str], list[dict]]:
    def part(n: int, seed: int) -> list[dict]:
        x, y = images(n, 28, 28, seed=seed), labels(n)
        return [{"image": Image.fromarray(x[i]), "label": int(y[(i + shift) % n])} for i in range(n)]

    return {("ylecun/mnist", "train"): part(TRAIN, 0), ("ylecun/mnist", "test"): part(TEST, 1)}


def get(given: Path | None = None) -> tuple[install.Installed, list[str]]:
    said: list[str] = []
    return install.get("mnist-writers", given=given, say=said.append), said


def assert_loaded() -> None:
    data = datasets.load("mnist-writers")
    assert np.array_equal(data.train.x[:, 0].numpy(), tiny()["x_train"])
    assert np.array_equal(data.train.y.numpy(), tiny()["y_train"])
    assert data.test is not None
    assert np.array_equal(data.test.x[:, 0].numpy(), tiny()["x_test"])
    assert np.array_equal(data.writers, tiny()["writer_train"])


def test_the_hubs_mnist_and_qmnists_labels_make_mnist_by_its_writers(home: Path, served: Path, monkeypatch):
    fake_hub(monkeypatch, rows())
    installed, said = get()
    assert (installed.source, said, installed.path) == ("hub", [], home / "mnist_by_writer.npz")
    assert_loaded()
    assert install.check("mnist-writers").good
    about = writers.recorded(installed.path)
    assert about is not None
    assert (about["original"], about["source"]) == (True, "hub")
    assert sorted(path.name for path in home.iterdir()) == ["mnist_by_writer.json", "mnist_by_writer.npz"]
    assert get()[0].source == "cache"


@pytest.mark.parametrize("zipped", [True, False])
def test_the_idx_files_of_both_make_the_same(home: Path, tmp_path: Path, zipped: bool):
    folder = folder_of(tmp_path / "idx", zipped=zipped)
    installed, _ = get(folder)
    assert_loaded()
    assert installed.path is not None
    about = writers.recorded(installed.path)
    assert about is not None
    assert (about["original"], about["source"]) == (True, str(folder))


def test_labels_of_another_checksum_are_never_used(home: Path, served: Path, monkeypatch):
    fake_hub(monkeypatch, rows())
    (served / f"{writers.LABELS}.gz").write_bytes(gzip.compress(qmnist(labels(TRAIN), shift=1)))
    with pytest.raises(RunError, match=r"hub: the qmnist-train-labels-idx2-int\.gz that was downloaded is another"):
        get()
    (served / f"{writers.LABELS}.gz").unlink()
    with pytest.raises(RunError, match=r"could not download qmnist-train-labels-idx2-int\.gz .*404"):
        get()
    assert not list(home.iterdir())


class Endless:
    """An answer that says nothing of its length, and does not end before the reader should have stopped."""

    def __init__(self, most: int) -> None:
        self.headers, self.left = dict[str, str](), most

    def __enter__(self) -> "Endless":
        return self

    def __exit__(self, *_: object) -> None: ...

    def read(self, size: int) -> bytes:
        self.left -= size
        assert self.left > 0, "more was read than a download may have"
        return bytes(size)


def test_a_download_that_does_not_end_is_given_up_at_its_limit(home: Path, monkeypatch: pytest.MonkeyPatch):
    fake_hub(monkeypatch, rows())
    most, seen = 3 * BLOCK, []
    monkeypatch.setattr(download, "MAXIMUM_BYTES", most)
    monkeypatch.setattr(download.urllib.request, "urlopen", lambda *_, **__: Endless(most + 3 * BLOCK))
    reason = rf"could not download qmnist-train-labels-idx2-int\.gz \(more than {most} bytes\)"
    with pytest.raises(RunError, match=reason):
        install.get("mnist-writers", say=lambda text: None, progress=lambda _, done, total: seen.append(done))
    assert max(seen) == most, "what a file may have is read, and nothing beyond it is written"
    assert not list(home.iterdir())


def test_a_hub_with_other_images_is_not_taken_for_the_original(home: Path, served: Path, monkeypatch):
    changed = rows()
    changed["ylecun/mnist", "test"][0]["image"] = Image.fromarray(images(1, 28, 28, seed=9)[0])
    fake_hub(monkeypatch, changed)
    with pytest.raises(RunError, match="its data differ from the original: the checksum of an array"):
        get()
    fake_hub(monkeypatch, rows(shift=1))
    with pytest.raises(RunError, match="row 1 says 0, and MNIST's label there is 1"):
        get()
    assert not list(home.iterdir())


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (qmnist(labels(TRAIN))[:-1], "not a complete idx file of 32-bit integers"),
        (qmnist(labels(TRAIN - 1)), r"has shape \(39, 8\); must be 40 rows of 8"),
        (qmnist(labels(TRAIN)[::-1]), "row 1 says 9, and MNIST's label there is 0"),
        (idx_blobs()["train-labels-idx1-ubyte"], "not a complete idx file of 32-bit integers"),
    ],
)
def test_labels_that_do_not_fit_are_refused_and_nothing_is_installed(home: Path, tmp_path: Path, blob, message):
    with pytest.raises(InputError, match=message):
        get(folder_of(tmp_path / "idx", blob))
    assert not list(home.iterdir())


def test_a_home_made_file_is_accepted_and_its_checksum_is_recorded(home: Path, tmp_path: Path):
    mine = tmp_path / "mine.npz"
    np.savez(mine, **{**tiny(), "writer_train": np.arange(TRAIN) % 7})
    installed, _ = get(mine)
    assert installed.path is not None
    expected = f"sha256:{hashlib.sha256(mine.read_bytes()).hexdigest()}"
    assert writers.recorded(installed.path) == {"sha256": expected, "source": str(mine), "original": False}
    assert install.check("mnist-writers").good
    blob = bytearray(installed.path.read_bytes())
    blob[len(blob) // 2] ^= 1
    installed.path.write_bytes(blob)
    assert install.check("mnist-writers").faults == {"mnist_by_writer.npz": f"checksum is not {expected}"}
    np.savez(mine, **tiny())
    get(mine)
    about = writers.recorded(installed.path)
    assert about is not None
    assert about["original"], "the same arrays in another archive"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"writer_train": None}, "lacks writer_train"),
        ({"x_train": np.zeros((TRAIN, 8, 8), np.uint8), "x_test": np.zeros((TEST, 8, 8), np.uint8)}, "must be"),
        ({"y_test": np.full(TEST, 12)}, "has the label 12; must be 0 to 9"),
        ({"y_train": np.zeros(3, np.int64)}, "y_train is int64"),
    ],
)
def test_a_home_made_file_that_cannot_stand_for_it_is_refused(home: Path, tmp_path: Path, changes, message):
    mine = tmp_path / "mine.npz"
    np.savez(mine, **{name: array for name, array in {**tiny(), **changes}.items() if array is not None})
    with pytest.raises(InputError, match=message) as caught:
        get(mine)
    assert str(caught.value).startswith(f"--from {mine}: ")
    assert not list(home.iterdir())


def test_a_run_records_the_checksum_of_a_home_made_file(home: Path, tmp_path: Path):
    mine = tmp_path / "mine.npz"
    np.savez(mine, **tiny())
    get(mine)
    small = {"rounds": 2, "data.devices": 4, "data.per_device": 2, "cohort.size": 2, "model.hidden": 4}
    config = load_config("mnist-writers", {**small, "privacy.delta": 0.01})
    run(config, tmp_path / "run")
    found = json.loads((tmp_path / "run" / "environment.json").read_text())["data"]
    assert found == {"mnist_by_writer.npz": f"sha256:{hashlib.sha256(mine.read_bytes()).hexdigest()}"}


def test_the_reader_of_integers_reads_what_the_format_says(tmp_path: Path):
    path = tmp_path / "ints"
    path.write_bytes(struct.pack(">III", 0xC02, 2, 3) + struct.pack(">6i", 1, -2, 3, 2**31 - 1, -(2**31), 0))
    assert idx.read_file(path, of=idx.INT32).tolist() == [[1, -2, 3], [2**31 - 1, -(2**31), 0]]
    with pytest.raises(InputError, match="of unsigned bytes"):
        idx.read_file(path)
