"""A run directory survives kills, interrupts, full disks and meddling."""

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
import torch

from pfels.config.load import load_config
from pfels.errors import InputError, RunError
from pfels.experiment import checkpoint, directory, loop, reader
from pfels.experiment import log as run_log
from pfels.experiment.directory import RunDirectory
from pfels.report.page import write_report
from pfels.runtime.files import write_atomically
from tests.conftest import SMALL, small

FILES = ("config.toml", "rounds.jsonl", "checkpoint.safetensors")


def contents(path: Path) -> list[bytes]:
    return [(path / name).read_bytes() for name in FILES]


def stop_after(rounds: int):
    def progress(record: dict) -> None:
        if record["round"] + 1 == rounds:
            raise KeyboardInterrupt

    return progress


def interrupted(path: Path, rounds: int = 3, **changes) -> None:
    with pytest.raises(KeyboardInterrupt):
        loop.run(small(**changes), path, progress=stop_after(rounds))


def test_a_stored_run_equals_one_in_memory(tmp_path: Path, scheme: str):
    stored, free = loop.run(small(scheme=scheme), tmp_path / "a"), loop.run(small(scheme=scheme))
    assert torch.equal(stored.parameters, free.parameters)
    assert stored.records == free.records
    assert {**stored.summary, "seconds": 0} == {**free.summary, "seconds": 0}
    assert json.loads((tmp_path / "a" / "summary.json").read_text()) == stored.summary


def test_an_interrupted_run_resumes_to_the_same_bytes(tmp_path: Path, scheme: str):
    loop.run(small(scheme=scheme), tmp_path / "whole")
    interrupted(tmp_path / "cut", scheme=scheme)
    assert not (tmp_path / "cut" / "summary.json").exists()
    loop.run(small(scheme=scheme), tmp_path / "cut", resume=True)
    assert contents(tmp_path / "whole") == contents(tmp_path / "cut")


def test_a_run_killed_at_ten_moments_ends_identical_to_an_uninterrupted_one(tmp_path: Path):
    """Real processes and real SIGKILLs, at moments spread over start-up, rounds and checkpoints."""
    changes = SMALL | {"rounds": 400, "run.checkpoint_every": 7, "run.eval_every": 50}
    options = [word for key, value in changes.items() for word in ("-s", f"{key}={value}")]

    def start(out: Path, *more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pfels", "run", "demo", *options, "--out", str(out), *more]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert start(whole).wait(timeout=120) == 0
    size = (whole / "rounds.jsonl").stat().st_size
    for moment in range(10):
        process = start(cut, "--resume") if (cut / "config.toml").exists() else start(cut)
        wanted, log = size * moment // 11, cut / "rounds.jsonl"
        while process.poll() is None and not (log.exists() and log.stat().st_size > wanted):
            time.sleep(0.001)
        assert process.poll() is None, f"exited by itself at moment {moment}"
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert start(cut, "--resume").wait(timeout=120) == 0
    assert contents(whole) == contents(cut)


def test_a_finished_run_is_read_and_not_run_again(tmp_path: Path):
    first = loop.run(small(), tmp_path / "a")
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "a").iterdir()}
    again = loop.run(small(), tmp_path / "a")
    assert again.summary == first.summary
    assert again.records == first.records
    assert torch.equal(again.parameters, first.parameters)
    assert before == {p.name: p.stat().st_mtime_ns for p in (tmp_path / "a").iterdir()}


def test_another_config_is_refused_by_the_keys_that_differ(tmp_path: Path):
    loop.run(small(), tmp_path / "a")
    with pytest.raises(InputError, match=r"differs in seed, compression\.ratio"):
        loop.run(small(seed=1, compression__ratio=0.5), tmp_path / "a")


def test_the_number_of_workers_may_change_on_resume(tmp_path: Path):
    interrupted(tmp_path / "a")
    loop.run(small(run__workers=2), tmp_path / "a", resume=True)


def test_an_unfinished_run_is_not_overwritten(tmp_path: Path):
    interrupted(tmp_path / "a")
    before = contents(tmp_path / "a")
    with pytest.raises(InputError, match="unfinished run; add --resume"):
        loop.run(small(), tmp_path / "a")
    assert contents(tmp_path / "a") == before


def test_there_must_be_something_to_resume(tmp_path: Path):
    with pytest.raises(InputError, match="nothing to resume"):
        loop.run(small(), tmp_path / "a", resume=True)
    assert not (tmp_path / "a").exists()


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match="holds other files"):
        loop.run(small(), tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]


@pytest.mark.parametrize("meddle", ["truncate", "flip", "empty", "metadata"])
def test_a_truncated_or_tampered_checkpoint_is_refused_and_touched_by_nobody(tmp_path: Path, meddle: str):
    interrupted(tmp_path / "a")
    path = tmp_path / "a" / "checkpoint.safetensors"
    blob = bytearray(path.read_bytes())
    if meddle == "truncate":
        blob = blob[: len(blob) // 2]
    elif meddle == "flip":
        blob[-9] ^= 1
    elif meddle == "empty":
        blob = bytearray()
    else:
        blob = bytearray(bytes(blob).replace(b'\\"round\\": 3', b'\\"round\\": 2'))
    path.write_bytes(blob)
    before = contents(tmp_path / "a")
    with pytest.raises(InputError, match="truncated or altered"):
        loop.run(small(), tmp_path / "a", resume=True)
    assert contents(tmp_path / "a") == before


def test_a_run_killed_in_its_very_first_write_is_no_obstacle(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".config.toml.77.partial").write_bytes(b"half")
    loop.run(small(), tmp_path / "a")
    assert not list((tmp_path / "a").glob(".*"))


def test_a_file_system_without_locks_is_distinguished_from_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(file: int, how: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(RunError, match=r"cannot be locked .*; choose an --out on a file system with locks"):
        loop.run(small(), tmp_path / "a")


def test_a_round_that_fails_leaves_those_before_it(tmp_path: Path):
    """As when another rank of the run has died."""

    def play_round(experiment, plan, theta, memory):
        if plan.round == 4:
            raise RunError("another process of this run has ended")
        return loop.simulate(experiment, plan, theta, memory)

    with pytest.raises(RunError, match="another process"):
        loop.run(small(), tmp_path / "a", play_round=play_round)
    assert RunDirectory(tmp_path / "a", small()).checkpoint().round == 4


def test_a_signal_while_the_rounds_before_a_failure_are_saved_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As when torchrun tells the ranks that are left to end."""

    def play_round(experiment, plan, theta, memory):
        if plan.round == 4:
            raise RunError("another process of this run has ended")
        return loop.simulate(experiment, plan, theta, memory)

    saved = interrupt_the_first_save(monkeypatch)
    with pytest.raises(RunError, match="another process"):
        loop.run(small(), tmp_path / "a", play_round=play_round)
    assert saved == [4, 4]
    assert RunDirectory(tmp_path / "a", small()).checkpoint().round == 4


def test_an_interrupt_behind_the_last_round_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    saved = interrupt_the_first_save(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        loop.run(small(), tmp_path / "a")
    assert saved == [6, 6]
    assert RunDirectory(tmp_path / "a", small()).checkpoint().round == 6


def interrupt_the_first_save(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rounds after which a checkpoint was to be written, of which the first was interrupted."""
    whole, saved = RunDirectory.save, []

    def save(self: RunDirectory, checkpoint: directory.Checkpoint, *, seconds: float) -> None:
        saved.append(checkpoint.round)
        if len(saved) == 1:
            raise KeyboardInterrupt
        whole(self, checkpoint, seconds=seconds)

    monkeypatch.setattr(RunDirectory, "save", save)
    return saved


def test_a_long_log_is_never_held_in_memory(tmp_path: Path):
    """Neither when it is verified nor when it is read for a report; the run itself keeps no record either."""
    result = loop.run(small(rounds=200), tmp_path / "a")
    assert "records" not in vars(result)
    log = tmp_path / "a" / "rounds.jsonl"
    lines = [{**json.loads(line), "later": "x" * 60_000} for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name in ("checkpoint.safetensors", "summary.json"):
        (tmp_path / "a" / name).unlink()
    del lines

    def verify() -> None:
        with run_log.opened(log, small(rounds=200)) as file:
            file.marked(log.stat().st_size, rounds=200)

    for read in (verify, lambda: reader.read(tmp_path / "a")):
        read()  # what it imports stays
        tracemalloc.start()
        read()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.3 * log.stat().st_size


def test_a_tampered_log_is_refused(tmp_path: Path):
    interrupted(tmp_path / "a")
    log = tmp_path / "a" / "rounds.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"round": 1', b'"round": 7'))
    with pytest.raises(InputError, match=r"rounds\.jsonl: truncated or altered"):
        loop.run(small(), tmp_path / "a", resume=True)


def test_a_log_that_changes_before_its_records_are_asked_for_is_refused(tmp_path: Path):
    """They are read late; what stands there by then must be what the run was."""
    for result in (loop.run(small(), tmp_path / "a"), loop.run(small(), tmp_path / "a")):
        log = tmp_path / "a" / "rounds.jsonl"
        whole = log.read_bytes()
        log.write_bytes(whole.replace(b'"silent": 0', b'"silent": 1', 1))
        with pytest.raises(InputError, match=r"rounds\.jsonl: altered since the run was read"):
            _ = result.records
        log.write_bytes(whole)


def test_what_a_kill_left_behind_the_checkpoint_is_cut_off(tmp_path: Path):
    loop.run(small(), tmp_path / "whole")
    interrupted(tmp_path / "a")
    with open(tmp_path / "a" / "rounds.jsonl", "ab") as log:
        log.write(b'{"round": 3, "coh')
    (tmp_path / "a" / ".checkpoint.safetensors.1.partial").write_bytes(b"half")
    loop.run(small(), tmp_path / "a", resume=True)
    assert contents(tmp_path / "whole") == contents(tmp_path / "a")
    assert not list((tmp_path / "a").glob(".*"))


@pytest.mark.parametrize("change", ['scheme = "fedavg"', "seed = 1"])
def test_a_checkpoint_is_of_its_config_and_no_other(tmp_path: Path, change: str):
    """Under another name its privacy figures would be false."""
    interrupted(tmp_path)
    kept = tmp_path / "config.toml"
    key = change.partition(" ")[0]
    lines = [change if line.startswith(f"{key} =") else line for line in kept.read_text().splitlines()]
    kept.write_text("\n".join(lines))
    with pytest.raises(InputError, match="belongs to another config"):
        loop.run(load_config(kept), tmp_path, resume=True)


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as later:
        later.setattr(checkpoint, "FORMAT", checkpoint.FORMAT + 1)
        interrupted(tmp_path)
    with pytest.raises(
        InputError, match=f"format {checkpoint.FORMAT + 1}, this version reads format {checkpoint.FORMAT}"
    ):
        loop.run(small(), tmp_path, resume=True)


def test_the_log_is_on_disk_before_the_checkpoint_that_vouches_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Otherwise a power cut could leave a checkpoint that no log fits."""
    path, on_disk, replaced = tmp_path / "a", [], []
    sync, replace = os.fsync, os.replace

    def note(file: int) -> None:
        log = path / "rounds.jsonl"
        if log.exists() and os.path.samestat(os.fstat(file), log.stat()):
            on_disk.append(log.stat().st_size)
        sync(file)

    def put(partial: Path, target: Path) -> None:
        if target.name == "checkpoint.safetensors":
            replaced.append((on_disk[-1:], (path / "rounds.jsonl").stat().st_size))
        replace(partial, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "replace", put)
    loop.run(small(run__checkpoint_every=2), path)
    assert len(replaced) == 3
    assert all(synced == [size] for synced, size in replaced)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("summary.json", "{}"),
        ("summary.json", "[]"),
        ("summary.json", "[" * 100_000),
        ("timing.json", "5"),
        ("timing.json", '{"seconds": "x"}'),
        ("timing.json", '{"seconds": NaN}'),
        ("environment.json", "[1]"),
        ("environment.json", '{"engine": 3}'),
    ],
)
def test_a_damaged_file_beside_the_checkpoint_is_named(tmp_path: Path, name: str, content: str):
    interrupted(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=re.escape(str(tmp_path / name))):
        loop.run(small(), tmp_path, resume=True)


def test_what_stands_behind_the_last_round_is_not_read(tmp_path: Path):
    whole = loop.run(small(), tmp_path)
    with open(tmp_path / "rounds.jsonl", "a") as log:
        log.write("garbage\n")
    assert loop.run(small(), tmp_path).records == whole.records
    (tmp_path / "summary.json").unlink()
    assert loop.run(small(), tmp_path, resume=True).records == whole.records
    assert (tmp_path / "rounds.jsonl").read_text().count("\n") == len(whole.records)


def test_a_full_disk_leaves_the_last_good_checkpoint_usable(tmp_path: Path):
    """A limit on file size stands in for a full disk: writes beyond it fail in the same way."""
    loop.run(small(rounds=12), tmp_path / "whole")
    path = tmp_path / "a"
    with pytest.raises(KeyboardInterrupt):
        loop.run(small(rounds=12), path, progress=stop_after(4))
    limit = (path / "rounds.jsonl").stat().st_size + 2000
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        with pytest.raises(RunError, match="the last checkpoint is intact"):
            loop.run(small(rounds=12), path, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    loop.run(small(rounds=12), path, resume=True)
    assert contents(tmp_path / "whole") == contents(path)


def test_one_directory_is_held_by_one_process(tmp_path: Path):
    interrupted(tmp_path / "a")
    first = RunDirectory(tmp_path / "a", small())
    with first.opened(resume=True, environment={}), pytest.raises(InputError, match="another process"):
        loop.run(small(), tmp_path / "a", resume=True)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    target = tmp_path / "f"
    write_atomically(target, b"old")
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_model_that_diverges_in_the_last_round_is_written_down(tmp_path: Path):
    config = small(scheme="wfl-p", rounds=1, server__learning_rate=1e20)
    summary = loop.run(config, tmp_path / "run").summary
    assert summary["loss"] is None
    assert 0 <= summary["accuracy"] < 0.5
    record = json.loads((tmp_path / "run" / "rounds.jsonl").read_text())
    assert record["test_loss"] is None
    page = write_report([tmp_path / "run"])["report"]
    assert "diverged" in Path(page).read_text()


def test_a_round_in_which_every_training_diverges_ends_the_run_and_is_no_result(tmp_path: Path):
    config = small(scheme="wfl-p", rounds=12, server__learning_rate=1e20)
    for resume in (False, True):
        with pytest.raises(RunError, match=r"^round 3: the training of all 8 devices diverged .* choose a smaller"):
            loop.run(config, tmp_path / "run", resume=resume)
        assert len((tmp_path / "run" / "rounds.jsonl").read_text().splitlines()) == 2
        assert not (tmp_path / "run" / "summary.json").exists()
    assert reader.read(tmp_path / "run").rounds == 2
