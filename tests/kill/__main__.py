"""Kill commands at random moments, and compare what they leave in the end: python -m tests.kill [KILLS] [--seed N]

Every command is started as often as it is killed, and once more to its end; then its files must be, byte by byte, those
of a command that nobody killed, and nothing may be left over. Commands run in forks of one process that has imported
everything, and so do their workers: a kill hits their work and not their imports. One job is started as a program of
its own, with workers, in a directory of foreign modules: none is imported, at whatever moment it is killed.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before PyTorch is imported: a fork must not inherit threads
os.environ["SOURCE_DATE_EPOCH"] = "0"  # a PDF holds the time at which it was made

import argparse
import json
import multiprocessing
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from pfels import cli
from pfels.experiment import loop  # noqa: F401  what the commands would import later
from pfels.paper import reproduce  # noqa: F401
from pfels.report import page  # noqa: F401
from pfels.runtime.signals import interrupt_once
from pfels.studies import compare  # noqa: F401
from tests.data.fixtures import leaf_file
from tests.foreign_modules import foreign_modules
from tests.kill.beside import read_beside

SMALL = (
    "-s", "data.devices=30", "-s", "cohort.size=8", "-s", "model.hidden=8", "-s", "run.eval_every=3",
    "-s", "run.checkpoint_every=2",
)  # fmt: skip
SIGNALS = (signal.SIGKILL,) * 8 + (signal.SIGTERM, signal.SIGINT)
BUSY_S = 60.0  # how long the workers of a killed command may take to notice


@dataclass(frozen=True)
class Job:
    """A command: its arguments in a folder, how many of a hundred kills it gets, and what is made ready for it."""

    name: str
    arguments: Callable[[Path], Sequence[str]]
    share: int
    prepare: Callable[[Path], None] = lambda folder: None
    program: bool = False  # started as a program, in its folder `here`
    read: str = ""  # the folder in which runs are read all the time


def _run(folder: Path) -> Sequence[str]:
    resume = ["--resume"] if (folder / "run" / "config.toml").exists() else []
    if (folder / "run" / "summary.json").exists():
        resume = []
    return ["run", "demo", *SMALL, "-s", "rounds=24", "--out", str(folder / "run"), *resume]


def _run_every(folder: Path) -> Sequence[str]:
    """With a checkpoint in every round, so that a reader meets one that is just being replaced."""
    return [*_run(folder), "-s", "run.checkpoint_every=1", "-s", "scheme=pfels-plus"]


def _compare(folder: Path) -> Sequence[str]:
    schemes = ("--schemes", "pfels,wfl-pdp", "--seeds", "0,1", "--jobs", "2")
    return ["compare", "demo", *SMALL, "-s", "rounds=8", *schemes, "--out", str(folder / "compare")]


def _here(folder: Path) -> None:
    foreign_modules(folder / "here")


def _sweep(folder: Path) -> Sequence[str]:
    axes = ("--grid", "compression.ratio=0.2,0.6", "--seeds", "0")
    return ["sweep", "demo", *SMALL, "-s", "rounds=8", *axes, "--out", str(folder / "sweep")]


def _reproduce(folder: Path) -> Sequence[str]:
    return ["reproduce", "fig-training", "--seeds", "0", "-s", "rounds=4", "--out", str(folder / "reproduce")]


def _report(folder: Path) -> Sequence[str]:
    return ["report", str(folder / "runs"), "--out", str(folder / "report.html")]


def _stored_runs(folder: Path) -> None:
    """The same runs in every cycle: a page shows how long they took."""
    stored = folder.parent / "stored"
    for scheme in ("pfels", "wfl-p"):
        if not (stored / scheme).exists():
            arguments = ["run", "demo", *SMALL, "-s", "rounds=3", "-s", f"scheme={scheme}"]
            assert _wait(_start([*arguments, "--out", str(stored / scheme)], folder)) == 0
    shutil.copytree(stored, folder / "runs")


def _data(folder: Path) -> Sequence[str]:
    return ["data", "get", "femnist", "--from", str(folder / "leaf")]


def _leaf(folder: Path) -> None:
    for number in range(4):
        leaf_file(folder / "leaf" / f"{number}.json", {f"w{number}-{i}": 30 for i in range(5)}, seed=number)


JOBS = (
    Job("run", _run, 20, read="run"),
    Job("run every", _run_every, 10, read="run"),
    Job("compare", _compare, 12, read="compare"),
    Job("sweep", _sweep, 10, read="sweep"),
    Job("workers", _compare, 4, _here, program=True),
    Job("reproduce", _reproduce, 14),
    Job("report", _report, 16, _stored_runs),
    Job("data get", _data, 18, _leaf),
)


FORKS = multiprocessing.get_context("fork")


def _start(arguments: Sequence[str], folder: Path, *, program: bool = False) -> int:
    """The command in a fork, or as a program, with a group of its own; its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        log = os.open(folder.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ["PFELS_DATA"] = str(folder / "cache")
        if program:
            os.chdir(folder / "here")
            os.execv(Path(sys.executable).with_name("pfels"), ["pfels", *arguments])
        multiprocessing.get_context = lambda method=None: FORKS  # type: ignore[assignment]
        sys.argv = ["pfels", *arguments]
        interrupt_once()
        cli.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except KeyboardInterrupt:  # so early that nothing has begun
        code = 130
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Log:
    """What the commands in a folder have printed since now; workers of an earlier one may print in between."""

    def __init__(self, folder: Path) -> None:
        self._path = folder.with_suffix(".log")
        self._began = self._path.stat().st_size if self._path.exists() else 0

    @property
    def text(self) -> str:
        return self._path.read_bytes()[self._began :].decode(errors="replace")

    @property
    def busy(self) -> bool:
        """Whether a command gave up because workers of the one before, which was killed, are still at work."""
        return "another process" in self.text


def _kill(job: Job, folder: Path, after: float, draw: random.Random) -> bool:
    """Start a command and kill it after these seconds, alone or with its workers; whether it was still at work."""
    log = Log(folder)
    pid, until = _start(job.arguments(folder), folder, program=job.program), time.monotonic() + after
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            assert code == 0 or (code == 2 and log.busy), f"{job.name} ended by itself with {code}\n{log.text[-3000:]}"
            return False
        if time.monotonic() >= until:
            break
        time.sleep(0.002)
    number = draw.choice(SIGNALS)
    with_workers = number == signal.SIGKILL and draw.random() < 0.8
    with suppress(ProcessLookupError):  # so early that it has no group of its own yet
        if with_workers:
            os.killpg(pid, number)
    os.kill(pid, number)  # it stays a zombie until it is waited for
    code = _wait(pid)
    # 0 and 2: it was ending by itself already
    expected = code in (-number, 130, 0) or (code == 2 and log.busy)
    assert expected, f"{job.name}: signal {number} ended in {code}\n{log.text[-3000:]}"
    return True


def _finish(job: Job, folder: Path) -> float:
    """Run the command to its end; the seconds that takes. Workers of a killed one may hold a directory for a moment."""
    until = time.monotonic() + BUSY_S
    while True:
        log, began = Log(folder), time.monotonic()
        code = _wait(_start(job.arguments(folder), folder, program=job.program))
        if code == 0:
            return time.monotonic() - began
        assert log.busy, f"{job.name}: {code}\n{log.text[-3000:]}"
        assert time.monotonic() < until, f"{job.name}: still busy after {BUSY_S:.0f} s\n{log.text[-3000:]}"
        time.sleep(0.2)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, without the times that a command took."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in ("timing.json", "environment.json"):
            blob = path.read_bytes()
            if path.name == "summary.json":
                blob = json.dumps({**json.loads(blob), "seconds": 0}).encode()
            found[str(path.relative_to(folder))] = blob
    return found


def cycle(job: Job, folder: Path, reference: dict[str, bytes], seconds: float, draw: random.Random) -> int:
    """Kill a command a few times and let it finish; how often it was killed. A difference is an AssertionError.

    A command that has ended before its moment sets the next ones earlier: a busy machine becomes idle, too.
    """
    _prepare(job, folder)
    killed = 0
    with read_beside(folder / job.read, folder.with_suffix(".reader")) if job.read else nullcontext():
        for _ in range(draw.randint(2, 8)):
            began = time.monotonic()
            if _kill(job, folder, draw.uniform(0, seconds), draw):
                killed += 1
            else:
                seconds = min(seconds, time.monotonic() - began)
        _finish(job, folder)
    assert not (folder / "here" / "IMPORTED").exists(), (folder / "here" / "IMPORTED").read_text()
    found = contents(folder)
    assert sorted(found) == sorted(reference), f"{job.name}: {sorted(set(found) ^ set(reference))}"
    different = [name for name in found if found[name] != reference[name]]
    assert not different, f"{job.name}: {different} differ from those of a command that nobody killed"
    return killed


def _prepare(job: Job, folder: Path) -> None:
    """An empty folder, always in the same place, since documents hold the command that made them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job.prepare(folder)


def main() -> int:
    """Kill as often as asked; 1 if anything differs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kills", nargs="?", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw, kills, differences = random.Random(options.seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for job in JOBS:
            folder = top / job.name.replace(" ", "-") / "work"
            _prepare(job, folder)
            seconds, reference = _finish(job, folder), contents(folder)
            while kills[job.name] < options.kills * job.share / 100:
                try:
                    kills[job.name] += cycle(job, folder, reference, seconds, draw)
                except AssertionError as error:
                    differences += 1
                    print(f"DIFFERENCE {error}", flush=True)
                    break
            print(f"{job.name:10} {kills[job.name]:4} kills of a command that takes {seconds:.1f} s", flush=True)
    print(f"{kills.total()} kills, {differences} differences, seed {options.seed}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
