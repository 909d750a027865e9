"""What a hostile run directory costs: its memory is bounded before anything is parsed, and it ends in one line."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pfels.config.load import load_config
from pfels.errors import InputError
from pfels.experiment import log as run_log
from pfels.experiment import loop, reader
from pfels.experiment.directory import RunDirectory
from pfels.privacy import device_ledger
from pfels.privacy.device_ledger import DeviceLedger
from pfels.runtime.files import DOCUMENT, JsonLimits, read_json
from tests.conftest import small
from tests.experiment.test_damaged_runs import resealed
from tests.experiment.test_directory import interrupted

MOST = 500_000_000  # bytes of a process that refuses all of them; it takes 250 MB itself, and 2 GB is promised
OBJECTS = b'{"x":[' + b"{}," * 4_000_000 + b"{}]}\n"  # 12 MB, which took 6.6 GB


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "cut"
    interrupted(path)
    return path


def sparse(path: Path, size: int) -> None:
    with open(path, "wb") as file:
        file.truncate(size)


def one_line_log(run: Path) -> None:
    (run / "checkpoint.safetensors").unlink()
    (run / "rounds.jsonl").write_bytes(OBJECTS)


def objects_in_a_line(run: Path) -> None:
    """No longer than a line may be."""
    (run / "checkpoint.safetensors").unlink()
    (run / "rounds.jsonl").write_bytes(b'{"x":[' + b"{}," * 20_000 + b"{}]}\n")


def sparse_log(run: Path) -> None:
    sparse(run / "rounds.jsonl", 3 * 10**9)
    (run / "checkpoint.safetensors").unlink()


def sealed_sparse_log(run: Path) -> None:
    """Which the checkpoint says is all of it."""
    sparse(run / "rounds.jsonl", 3 * 10**9)
    resealed(run / "checkpoint.safetensors", lambda about, tensors: about.update(log_size=3 * 10**9))


def holes_behind_the_log(run: Path) -> None:
    os.truncate(run / "rounds.jsonl", 3 * 10**9)


def sparse_checkpoint(run: Path) -> None:
    sparse(run / "checkpoint.safetensors", 10**11)


def huge_tensor(run: Path) -> None:
    """A header that announces what is not there, but for holes."""
    path = run / "checkpoint.safetensors"
    blob = path.read_bytes()
    size = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8 : 8 + size])
    count = 10**9
    header["theta"] = {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + 4 * count)


def long_header(run: Path) -> None:
    (run / "checkpoint.safetensors").write_bytes(len(OBJECTS).to_bytes(8, "little") + OBJECTS)


def objects(name: str) -> Callable[[Path], object]:
    def make(run: Path) -> None:
        (run / name).write_bytes(OBJECTS)

    make.__name__ = f"objects-in-{name}"
    return make


def many_devices(run: Path) -> None:
    """A config by which a line may be long."""
    toml = (run / "config.toml").read_text()
    for name, value in (("devices = 30", "devices = 1000000000"), ("\nsize = 8", "\nsize = 1000000000")):
        assert name in toml
        toml = toml.replace(name, value)
    (run / "config.toml").write_text(toml)
    one_line_log(run)


HOSTILE = (
    one_line_log, objects_in_a_line, sparse_log, sealed_sparse_log, holes_behind_the_log, sparse_checkpoint,
    huge_tensor, long_header, many_devices, objects("environment.json"), objects("summary.json"),
    objects("config.toml"),
)  # fmt: skip
PROGRAM = (
    "import sys\n"
    "from pathlib import Path\n"
    "from pfels.experiment import reader\n"
    # not what getrusage says: that has the peak of the process that this one was forked from in it
    "def peak():\n"
    "    lines = Path('/proc/self/status').read_text().splitlines()\n"
    "    return int(next(line for line in lines if line.startswith('VmHWM')).split()[1]) * 1024\n"
    "first, *others = map(Path, sys.argv[1:])\n"
    "reader.find([first])\n"  # what is imported stays
    "for path in others:\n"
    "    runs, damaged = reader.find([path])\n"
    "    print(path.name, peak(), len(runs), damaged[0].reason)\n"
)


def test_hostile_runs_take_little_memory_and_end_in_one_line_each(cut: Path, tmp_path: Path):
    for make in HOSTILE:
        shutil.copytree(cut, tmp_path / make.__name__)
        make(tmp_path / make.__name__)
    paths = [str(tmp_path / make.__name__) for make in HOSTILE]
    program = [sys.executable, "-c", PROGRAM, str(cut)]
    done = subprocess.run([*program, *paths], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == [make.__name__ for make in HOSTILE]
    for line in lines:
        _, peak, runs, reason = line.split(" ", 3)
        assert int(peak) < MOST, line
        assert runs == "0", line
        assert len(reason) < 300


def test_a_hostile_run_that_is_continued_is_refused_untouched(cut: Path, tmp_path: Path):
    for make in (sealed_sparse_log, huge_tensor, objects("environment.json"), objects("timing.json")):
        path = tmp_path / make.__name__
        shutil.copytree(cut, path)
        make(path)
        before = {each.name: (each.stat().st_size, each.stat().st_mtime_ns) for each in path.iterdir()}
        with pytest.raises(InputError):
            loop.run(small(), path, resume=True)
        assert before == {each.name: (each.stat().st_size, each.stat().st_mtime_ns) for each in path.iterdir()}


def test_the_longest_honest_line_is_within_the_limits(tmp_path: Path):
    """Every device of the largest cohort, with the longest numbers there are."""
    for devices, size in ((30, 8), (10**6, 10**5)):
        config = load_config("demo", {"data.devices": devices, "cohort.size": size})
        drawn = run_log.members(config)
        loop.run(small(), tmp_path / "a")
        record = json.loads((tmp_path / "a" / "rounds.jsonl").read_text().splitlines()[0])
        record |= {
            "cohort": [devices - 1] * drawn,
            "device_energy": [-2.2250738585072014e-308] * drawn,
            "replies": {
                "expected": drawn,
                "used": 0,
                "short": True,
                "dropped": {"x" * 50: 1},
                "bytes_per_device": None,
            },
        }
        run_log.limits(config).require(json.dumps(record).encode() + b"\n")


def test_a_cohort_whose_log_could_not_be_read_is_refused_before_the_run(tmp_path: Path):
    config = load_config("demo", {"data.devices": 10**9, "cohort.size": 10**6})
    with (
        pytest.raises(InputError, match=r"cohort\.size = 1000000: a run directory holds rounds of at most 1048576"),
        RunDirectory(tmp_path / "a", config).opened(resume=False, environment={}),
    ):
        pytest.fail("it was begun")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"x": "' + b"y" * 100 + b'"}', "more than 100 bytes"),
        (b"[" * 11, "more than 10 lists and objects"),
        (b'{"x": [' + b"1," * 11 + b"1]}", "more than 10 values"),
    ],
)
def test_what_a_json_text_holds_is_counted_before_it_is_parsed(tmp_path: Path, text: bytes, reason: str):
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(InputError, match=reason):
        read_json(tmp_path / "a.json", JsonLimits(size=100, groups=10, values=10))


def test_a_ledger_of_a_million_devices_is_within_its_limits_and_a_bomb_is_not(tmp_path: Path):
    entry = json.dumps({"999999": {"mu_squared": 12345.678901234567, "participations": 10**9}}, indent=2)
    limits, devices = device_ledger.LIMITS, device_ledger.DEVICES
    assert limits.size > devices * len(entry)
    assert limits.groups > devices
    assert limits.values > 2 * devices
    path = tmp_path / "ledger.json"
    DeviceLedger(path).create(devices=devices, partition=0, partitions=1)
    with pytest.raises(InputError, match="a node carries at most 1000000 devices; give more partitions"):
        DeviceLedger(tmp_path / "b.json").create(devices=devices + 1, partition=0, partitions=1)
    path.write_bytes(OBJECTS)
    with pytest.raises(InputError, match="lists and objects"):
        DeviceLedger(path).read()


def test_an_honest_document_is_far_below_its_limits(tmp_path: Path):
    loop.run(small(), tmp_path / "a")
    for name in ("summary.json", "environment.json", "timing.json"):
        text = (tmp_path / "a" / name).read_bytes()
        JsonLimits(DOCUMENT.size // 100, DOCUMENT.groups // 100, DOCUMENT.values // 100).require(text)


def test_more_devices_than_can_be_held_are_refused_by_name(tmp_path: Path, cut: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader, "DEVICES", 3)
    with pytest.raises(InputError, match="more than 3 devices have sent"):
        reader.read(cut)
    monkeypatch.undo()
    monkeypatch.setattr(reader, "LIMITS", 0)
    with pytest.raises(InputError, match="names more than 0 limits"):
        reader.read(cut)
