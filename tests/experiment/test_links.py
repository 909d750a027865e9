"""A run directory from elsewhere holds links, pipes and folders in place of files: nothing outside is touched."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pfels.errors import InputError
from pfels.experiment import log as run_log
from pfels.experiment import loop, reader, secret_seed
from pfels.experiment.log import LogMark
from pfels.experiment.tensorboard import scalars
from pfels.runtime import regular
from pfels.runtime.files import read_json, write_atomically
from tests.conftest import small
from tests.experiment.test_directory import contents, interrupted

FILES = ("config.toml", "environment.json", "rounds.jsonl", "timing.json", "checkpoint.safetensors", "summary.json")
UNFINISHED = FILES[:-1]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run and an unfinished one."""
    folder = tmp_path_factory.mktemp("runs")
    loop.run(small(), folder / "whole")
    interrupted(folder / "cut")
    return folder


def linked(path: Path, victim: Path) -> None:
    shutil.move(path, victim)
    path.symlink_to(victim)


def hard_linked(path: Path, victim: Path) -> None:
    shutil.move(path, victim)
    os.link(victim, path)


def dangling(path: Path, victim: Path) -> None:
    path.unlink()
    path.symlink_to(victim.with_name("nowhere"))


def pipe(path: Path, victim: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path, victim: Path) -> None:
    path.unlink()
    path.mkdir()


def device(path: Path, victim: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


STANDS_IN = (linked, dangling, pipe, folder, device)


def state(path: Path) -> dict[str, object]:
    """What is in a folder: names, kinds, times and contents."""
    found: dict[str, object] = {}
    for each in sorted(path.rglob("*")):
        about = os.lstat(each)
        content = each.read_bytes() if each.is_file() and not each.is_symlink() else b""
        found[str(each.relative_to(path))] = (about.st_mode, about.st_mtime_ns, about.st_nlink, content)
    return found


@pytest.mark.parametrize("stand_in", STANDS_IN)
@pytest.mark.parametrize("file", UNFINISHED)
def test_no_file_of_an_unfinished_run_may_be_anything_but_a_file(
    runs: Path, tmp_path: Path, file: str, stand_in: Callable[[Path, Path], None]
):
    shutil.copytree(runs / "cut", tmp_path / "run")
    stand_in(tmp_path / "run" / file, tmp_path / "victim")
    before, began = state(tmp_path), time.monotonic()
    with pytest.raises(InputError):
        loop.run(small(), tmp_path / "run", resume=True)
    if file != "timing.json":  # which the report does not read
        assert [each.path for each in reader.find([tmp_path / "run"])[1]] == [tmp_path / "run"]
    assert time.monotonic() - began < 60
    assert state(tmp_path) == before


@pytest.mark.parametrize("stand_in", STANDS_IN)
@pytest.mark.parametrize("file", [each for each in FILES if each != "timing.json"])
def test_no_file_of_a_finished_run_may_be_anything_but_a_file(
    runs: Path, tmp_path: Path, file: str, stand_in: Callable[[Path, Path], None]
):
    shutil.copytree(runs / "whole", tmp_path / "run")
    stand_in(tmp_path / "run" / file, tmp_path / "victim")
    before = state(tmp_path)
    with pytest.raises(InputError):
        loop.run(small(), tmp_path / "run")
    assert len(reader.find([tmp_path / "run"])[1]) == 1
    assert state(tmp_path) == before


def test_a_log_that_is_another_file_too_is_not_cut(runs: Path, tmp_path: Path):
    shutil.copytree(runs / "cut", tmp_path / "run")
    with (tmp_path / "run" / "rounds.jsonl").open("ab") as log:
        log.write(b"what a kill left")
    hard_linked(tmp_path / "run" / "rounds.jsonl", tmp_path / "victim")
    before = state(tmp_path)
    with pytest.raises(InputError, match=r"rounds\.jsonl: cannot be read \(has a second name, a hard link"):
        loop.run(small(), tmp_path / "run", resume=True)
    assert state(tmp_path) == before


def test_what_is_replaced_may_be_a_hard_link_since_the_other_file_stays(runs: Path, tmp_path: Path):
    """As a backup made of hard links leaves it."""
    shutil.copytree(runs / "cut", tmp_path / "run")
    for name in ("checkpoint.safetensors", "timing.json", "environment.json", "config.toml"):
        hard_linked(tmp_path / "run" / name, tmp_path / name)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    loop.run(small(), tmp_path / "run", resume=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    assert contents(tmp_path / "run") == contents(runs / "whole")


def test_links_in_place_of_half_written_files_are_not_written_through(runs: Path, tmp_path: Path):
    """The name of the file that is about to be written can be guessed: it has the number of the process in it."""
    shutil.copytree(runs / "cut", tmp_path / "run")
    (tmp_path / "victim").write_bytes(b"precious")
    for name in ("environment.json", "checkpoint.safetensors", "timing.json", "summary.json"):
        (tmp_path / "run" / f".{name}.{os.getpid()}.partial").symlink_to(tmp_path / "victim")
        (tmp_path / "run" / f".{name}.7.partial").symlink_to(tmp_path / "victim")
    os.mkfifo(tmp_path / "run" / ".summary.json.8.partial")
    loop.run(small(), tmp_path / "run", resume=True)
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert not list((tmp_path / "run").glob(".*"))
    assert contents(tmp_path / "run") == contents(runs / "whole")


def test_a_link_that_is_put_there_between_the_look_and_the_writing_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious\n")
    log = tmp_path / "run" / "rounds.jsonl"

    def exchange(record: dict) -> None:
        if record["round"] == 1:
            log.unlink()
            log.symlink_to(victim)

    with pytest.raises(Exception, match="a symbolic link; must be a regular file"):
        loop.run(small(), tmp_path / "run", progress=exchange)
    assert victim.read_bytes() == b"precious\n"
    with pytest.raises(OSError, match="a symbolic link"):
        run_log.append(log, {}, LogMark())  # type: ignore[typeddict-item]
    with pytest.raises(OSError, match="a symbolic link"):
        run_log.cut(log, 0)
    assert victim.read_bytes() == b"precious\n"


def test_what_is_open_is_looked_at_and_not_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file that becomes a pipe just before it is opened."""
    path, whole = tmp_path / "a", os.open
    path.write_bytes(b"x")

    def exchanged(*arguments: object, **more: object) -> int:
        path.unlink()
        os.mkfifo(path)
        return whole(*arguments, **more)  # type: ignore[arg-type, call-overload]

    monkeypatch.setattr(os, "open", exchanged)
    with pytest.raises(OSError, match="not a file"):
        regular.reading(path)


def test_the_directory_itself_may_be_a_link_as_its_user_chose(runs: Path, tmp_path: Path):
    shutil.copytree(runs / "cut", tmp_path / "elsewhere" / "run")
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "run").symlink_to(tmp_path / "out" / "run", target_is_directory=True)
    loop.run(small(), tmp_path / "run", resume=True)
    assert contents(tmp_path / "elsewhere" / "run") == contents(runs / "whole")
    assert reader.read(tmp_path / "run").summary is not None


def test_a_secret_seed_and_a_journal_are_not_read_through_links(tmp_path: Path):
    (tmp_path / "victim").write_text('{"seed": "%s"}' % ("0" * 64))
    (tmp_path / "secret.json").symlink_to(tmp_path / "victim")
    with pytest.raises(InputError, match=r"secret\.json: .*a symbolic link"):
        secret_seed.kept(tmp_path)
    with pytest.raises(InputError, match="a symbolic link"):
        read_json(tmp_path / "secret.json")
    write_atomically(tmp_path / "secret.json", b"{}")
    assert (tmp_path / "victim").read_text() != "{}"


def test_scalars_are_not_written_into_a_linked_folder(tmp_path: Path):
    pytest.importorskip("tensorboard")
    (tmp_path / "victim").mkdir()
    (tmp_path / "tensorboard").symlink_to(tmp_path / "victim", target_is_directory=True)
    with pytest.raises(InputError, match="a symbolic link; delete it"), scalars(tmp_path / "tensorboard"):
        pytest.fail("it was opened")
    assert not list((tmp_path / "victim").iterdir())
