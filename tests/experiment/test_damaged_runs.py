"""Damaged and hostile run directories: one run never stops the others, and nothing that is false is believed."""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pfels.errors import InputError
from pfels.experiment import loop, reader
from pfels.experiment.directory import RunDirectory
from pfels.report.page import write_report
from pfels.runtime.files import write_atomically
from tests.conftest import small
from tests.experiment.test_directory import contents, interrupted


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "good"
    loop.run(small(), path)
    return path


def text_of(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def resealed(path: Path, change: Callable[[dict[str, Any], dict[str, torch.Tensor]], None]) -> None:
    """Change a checkpoint's description and tensors, and make its hash right again: as an attacker would."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    from pfels.experiment.checkpoint import UNTYPED, digest

    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["pfels"].partition(" ")[2])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(about, tensors)
    text = json.dumps(about, sort_keys=True)
    hashed = digest(tensors, text, typed=about.get("format") != UNTYPED)
    save_file(tensors, path, {"pfels": f"{hashed} {text}"})


DAMAGE: dict[str, tuple[str, Callable[[str], str], str]] = {
    "a lone surrogate": (
        "environment.json", lambda text: text.replace('"python": "', '"python": "\\ud800'), "not readable as JSON",
    ),
    "a surrogate in an unknown field": (
        "environment.json", lambda text: text.replace("{", '{"\\udc80": 1,', 1), "not readable as JSON",
    ),
    "a count of 10^400": (
        "rounds.jsonl", lambda text: re.sub(r'"subcarriers": \d+', f'"subcarriers": {10**400}', text),
        "subcarriers: Input should be less than",
    ),
    "an accuracy of 7.5": (
        "summary.json", lambda text: re.sub(r'"accuracy": [0-9.]+', '"accuracy": 7.5', text),
        "accuracy: Input should be less than or equal to 1",
    ),
    "a negative energy": (
        "summary.json", lambda text: re.sub(r'"energy": [0-9.]+', '"energy": -1.0', text), "energy: Input should be",
    ),
    "a negative epsilon": (
        "summary.json", lambda text: re.sub(r'"epsilon": [0-9.]+', '"epsilon": -1.0', text), "epsilon",
    ),
    "deep nesting": ("summary.json", lambda text: "[" * 100_000, "not readable as JSON"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_run_is_listed_by_name_and_the_others_are_reported(finished: Path, tmp_path: Path, kind: str):
    file, change, reason = DAMAGE[kind]
    for name in ("a", "b"):
        shutil.copytree(finished, tmp_path / name)
    text_of(tmp_path / "b" / file, change)
    if file == "rounds.jsonl":  # or the hash in the checkpoint would tell
        (tmp_path / "b" / "checkpoint.safetensors").unlink()
    found = write_report(tmp_path)
    assert found["runs"] == 1
    assert [each["run"] for each in found["damaged"]] == [str(tmp_path / "b")]
    assert file in found["damaged"][0]["reason"]
    assert reason in found["damaged"][0]["reason"]
    assert found["damaged"][0]["reason"].isprintable()
    assert str(tmp_path / "b") in Path(found["report"]).read_text()


def test_a_tensor_relabelled_as_integers_is_noticed(tmp_path: Path):
    """The same bytes under another type are another state: neither the report nor a resumed run may take it."""
    interrupted(tmp_path / "a")
    path = tmp_path / "a" / "checkpoint.safetensors"
    blob = path.read_bytes()
    size = int.from_bytes(blob[:8], "little")
    header = blob[8 : 8 + size].replace(b'"dtype":"F32"', b'"dtype":"I32"')
    path.write_bytes(blob[:8] + header + blob[8 + size :])
    before = contents(tmp_path / "a")
    with pytest.raises(InputError, match="truncated or altered"):
        reader.read(tmp_path / "a")
    with pytest.raises(InputError, match="truncated or altered"):
        loop.run(small(), tmp_path / "a", resume=True)
    assert contents(tmp_path / "a") == before


def test_a_tensor_of_another_shape_is_noticed(tmp_path: Path):
    interrupted(tmp_path / "a")
    path = tmp_path / "a" / "checkpoint.safetensors"
    blob = path.read_bytes()
    size = int.from_bytes(blob[:8], "little")
    shape = re.search(rb'"theta":\{"dtype":"F32","shape":\[(\d+)\]', blob)
    assert shape is not None
    count = int(shape[1])
    header = blob[8 : 8 + size].replace(b'"shape":[%d]' % count, b'"shape":[1,%d]' % count).rstrip(b" ")
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header + blob[8 + size :])
    with pytest.raises(InputError, match="truncated or altered"):
        loop.run(small(), tmp_path / "a", resume=True)


def _retype(about: Any, tensors: Any) -> None:
    tensors["theta"] = tensors["theta"].int()


def _shorten(about: Any, tensors: Any) -> None:
    tensors["theta"] = tensors["theta"][:-1].clone()


def _unknown(about: Any, tensors: Any) -> None:
    tensors["more"] = torch.zeros(3)


def _missing(about: Any, tensors: Any) -> None:
    del tensors["server.mu_squared"]


def _uneven(about: Any, tensors: Any) -> None:
    tensors["noise_multipliers"] = torch.zeros(9, dtype=torch.float64)


def _stranger(about: Any, tensors: Any) -> None:
    tensors["server.ids"] = tensors["server.ids"] + 10**6


def _no_totals(about: Any, tensors: Any) -> None:
    about["totals"] = {"energy": 1.0}


def _text_round(about: Any, tensors: Any) -> None:
    about["round"] = "3"


def _late_round(about: Any, tensors: Any) -> None:
    about["round"] = 7


def _format_list(about: Any, tensors: Any) -> None:
    about["format"] = [3]


@pytest.mark.parametrize(
    "change",
    [
        _retype, _shorten, _unknown, _missing, _uneven, _stranger, _no_totals, _text_round, _late_round, _format_list,
    ],
)  # fmt: skip
def test_a_checkpoint_that_describes_another_state_is_refused_even_with_the_right_hash(tmp_path: Path, change: Any):
    interrupted(tmp_path / "a")
    resealed(tmp_path / "a" / "checkpoint.safetensors", change)
    with pytest.raises(InputError, match=r"checkpoint\.safetensors") as caught:
        loop.run(small(), tmp_path / "a", resume=True)
    assert str(caught.value).isprintable()


def test_a_checkpoint_of_the_format_before_is_read(tmp_path: Path, scheme: str):
    """Its hash leaves out types and shapes, which are held to what a checkpoint may hold."""
    loop.run(small(scheme=scheme), tmp_path / "whole")
    interrupted(tmp_path / "a", scheme=scheme)

    def earlier(about: Any, tensors: Any) -> None:
        about["format"] = 2

    resealed(tmp_path / "a" / "checkpoint.safetensors", earlier)
    loop.run(small(scheme=scheme), tmp_path / "a", resume=True)
    assert contents(tmp_path / "a") == contents(tmp_path / "whole")


def test_the_file_is_the_one_that_the_safetensors_library_writes():
    from safetensors.torch import save

    from pfels.experiment.checkpoint import safetensors

    tensors = {
        "theta": torch.rand(7), "server.ids": torch.arange(5), "memory": torch.rand(2, 3), "a": torch.arange(0),
        "noise_multipliers": torch.rand(3, dtype=torch.float64), "server.mu_squared": torch.rand(1).double(),
    }  # fmt: skip
    note = 'ab {"ε": "\\"\\n", "x": 1}'
    assert b"".join(safetensors(tensors, {"pfels": note})) == save(tensors, {"pfels": note})


@pytest.mark.parametrize("content", ["[]", "9" * 5000, '{"seconds": -1}', "{", '{"seconds": "1"}'])
def test_a_damaged_timing_is_refused_before_the_directory_is_touched(tmp_path: Path, content: str):
    interrupted(tmp_path / "a")
    (tmp_path / "a" / "timing.json").write_text(content)
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "a").iterdir()}
    with pytest.raises(InputError, match=r"timing\.json: .*; delete it, and the time counts from here"):
        loop.run(small(), tmp_path / "a", resume=True)
    assert before == {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "a").iterdir()}
    (tmp_path / "a" / "timing.json").unlink()
    loop.run(small(), tmp_path / "a", resume=True)


@pytest.mark.parametrize("file", ["rounds.jsonl", "checkpoint.safetensors", "environment.json", "summary.json"])
def test_a_pipe_in_a_run_directory_does_not_stop_the_report(finished: Path, tmp_path: Path, file: str):
    for name in ("a", "b"):
        shutil.copytree(finished, tmp_path / name)
    (tmp_path / "b" / file).unlink()
    os.mkfifo(tmp_path / "b" / file)
    began = time.monotonic()
    assert [each["run"] for each in write_report(tmp_path)["damaged"]] == [str(tmp_path / "b")]
    assert time.monotonic() - began < 20


def test_a_run_that_another_process_began_meanwhile_is_not_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What the directory holds is looked at again under its lock."""
    lock, directory = fcntl.flock, RunDirectory(tmp_path / "a", small())

    def other_first(file: Any, how: int) -> None:
        monkeypatch.undo()
        interrupted(tmp_path / "a")
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", other_first)
    with (
        pytest.raises(InputError, match="holds an unfinished run; add --resume"),
        directory.opened(resume=False, environment={}),
    ):
        pytest.fail("it was claimed")
    assert len((tmp_path / "a" / "rounds.jsonl").read_text().splitlines()) == 3


def test_a_run_that_another_process_finished_meanwhile_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    interrupted(tmp_path / "a")
    lock, directory = fcntl.flock, RunDirectory(tmp_path / "a", small())

    def other_first(file: Any, how: int) -> None:
        monkeypatch.undo()
        loop.run(small(), tmp_path / "a", resume=True)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", other_first)
    with (
        pytest.raises(InputError, match="another process has finished it"),
        directory.opened(resume=True, environment={}),
    ):
        pytest.fail("it was claimed")
    assert loop.run(small(), tmp_path / "a").summary["rounds"] == 6


def test_what_a_killed_writer_left_is_deleted_by_the_next_one_and_a_living_ones_file_is_not(tmp_path: Path):
    target = tmp_path / "report.html"
    left, living = tmp_path / ".report.html.123.partial", tmp_path / ".report.html.456.partial"
    other = tmp_path / ".other.html.123.partial"
    for path in (left, living, other):
        path.write_bytes(b"half")
    with open(living, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_atomically(target, b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([living.name, other.name, target.name])


def test_a_killed_report_leaves_nothing_that_the_next_one_does_not_delete(finished: Path, tmp_path: Path):
    """A real process, killed with its page half written."""
    code = (
        "import os, sys, signal\n"
        "from pathlib import Path\n"
        "from pfels.report.page import write_report\n"
        "os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_report(sys.argv[1], sys.argv[2])\n"
    )
    page = tmp_path / "page.html"
    killed = subprocess.run([sys.executable, "-c", code, str(finished), str(page)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert [path.suffix for path in tmp_path.iterdir()] == [".partial"]
    write_report(finished, page)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_an_error_of_the_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(tmp_path / "table.csv", b"x")
    assert caught.value.filename == str(tmp_path / "table.csv")


def test_what_limits_a_round_cannot_be_markup(finished: Path, tmp_path: Path):
    shutil.copytree(finished, tmp_path / "a")
    for name in ("checkpoint.safetensors", "summary.json"):
        (tmp_path / "a" / name).unlink()
    evil = '<img src=x onerror=\\"alert(1)\\">'
    text_of(tmp_path / "a" / "rounds.jsonl", lambda text: re.sub(r'"limit": "\w+"', f'"limit": "{evil}"', text))
    from pfels.report import plots
    from pfels.report.groups import comparisons

    (comparison,), _ = comparisons([reader.read(tmp_path / "a")])
    figure = json.dumps([plots.levels(group) for group in comparison.groups])
    assert "&lt;img" in figure
    assert "<img" not in figure


@pytest.mark.parametrize(("megabytes", "code"), [(250, 0), (50, 7)])
def test_a_checkpoint_needs_one_copy_of_a_tensor_and_short_memory_is_an_error_like_any_other(
    tmp_path: Path, megabytes: int, code: int
):
    """The library's own writer needs two more copies and ends in a panic, which no handler catches."""
    interrupted(tmp_path / "a")
    before = contents(tmp_path / "a")
    program = (
        "import resource, sys, torch\n"
        "from pathlib import Path\n"
        "from pfels.config.load import load_config\n"
        "from pfels.experiment.directory import RunDirectory\n"
        "from pfels.experiment.log import LogMark\n"
        "from pfels.experiment.state import Checkpoint\n"
        "path = Path(sys.argv[1])\n"
        "import safetensors.torch\n"
        "state = Checkpoint(3, {'theta': torch.zeros(40_000_000)}, {}, LogMark())\n"
        "size = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[2]) * 1_000_000,) * 2)\n"
        "try:\n"
        "    RunDirectory(path, load_config(path / 'config.toml')).save(state, seconds=1.0)\n"
        "except MemoryError:\n"
        "    sys.exit(7)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a"), str(megabytes)],
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert ended.returncode == code, ended.stderr.decode()
    assert (contents(tmp_path / "a") == before) == (code == 7)
    assert not list((tmp_path / "a").glob(".*.partial"))


def test_two_hashes_differ_where_types_or_shapes_do():
    from pfels.experiment.checkpoint import digest

    x = torch.arange(6, dtype=torch.float32)
    found = {digest({"x": each}, "{}") for each in (x, x.view(torch.int32), x.view(2, 3), x.view(3, 2), x.double())}
    assert len(found) == 5
    assert digest({"x": x}, "{}", typed=False) == hashlib.sha256(b"{}" + b"x" + x.numpy().tobytes()).hexdigest()
