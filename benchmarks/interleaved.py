"""Interleaved timing: each process plays a round while the others wait, so that all see the same machine."""

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, TypedDict

from machine import busy_seconds, cores, cpu_seconds, family

HERE = Path(__file__).parent
BUSY = 0.1  # of the machine's cores: if others use more, a measurement is repeated
START_SECONDS = 900  # until the end of a side's first round


class Row(TypedDict):
    """The figures of one side, per round."""

    seconds: float  # minimum of the wall time
    median: float  # median of the wall time
    cpu_seconds: float  # mean CPU time of all its processes
    others: float  # cores that others used meanwhile, on average
    peak_mb: float  # peak memory of the process that times


@dataclass
class Times:
    """What was measured in each round but the first, which includes the set-up."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)  # seconds over which `busy` was counted
    peak_bytes: int = 0

    @property
    def others(self) -> float:
        """Cores that other processes used during the rounds, on average."""
        return max(0.0, (sum(self.busy) - sum(self.cpu)) / sum(self.watched))

    def row(self, scale: float = 1.0) -> Row:
        """The figures, with the times scaled."""
        return {
            "seconds": scale * min(self.seconds),
            "median": scale * statistics.median(self.seconds),
            "cpu_seconds": scale * statistics.fmean(self.cpu),
            "others": self.others,
            "peak_mb": self.peak_bytes / 1e6,
        }


def time_interleaved(commands: Mapping[str, Sequence[str]], *, rounds: int, freeze: bool = False) -> dict[str, Times]:
    """Start one process per command and time this many rounds of each, one process at a time.

    With `freeze`, those that wait are stopped meanwhile: some peers spin. If other processes used the machine, that is
    said and all is measured once more; the quieter one counts.
    """
    first = _measure(commands, rounds, freeze)
    if _load(first) <= BUSY * cores():
        return first
    say = f"busy: others used {_load(first):.1f} of {cores()} cores; measuring {', '.join(commands)} again"
    print(say, file=sys.stderr, flush=True)
    second = _measure(commands, rounds, freeze)
    best = min(first, second, key=_load)
    if _load(best) > BUSY * cores():
        say = f"still busy: others used {_load(best):.1f} cores; wall times are too long, CPU times count"
        print(say, file=sys.stderr, flush=True)
    return best


def _load(times: Mapping[str, Times]) -> float:
    return max(each.others for each in times.values())


class _Side:
    """One process and the line to its RoundTimer."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name, self.mark, self.log = name, f"BENCH_SIDE={os.getpid()}-{time.monotonic_ns()}", log
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(1.0)
        port, mark = str(self._listener.getsockname()[1]), self.mark.partition("=")[2]
        environment = {**os.environ, "BENCH_PORT": port, "BENCH_SIDE": mark}
        with log.open("w") as output:
            self.process = subprocess.Popen(command, cwd=HERE, env=environment, stdout=output, stderr=output)
        self._lines: TextIO | None = None

    def _connect(self) -> TextIO:
        for _ in range(START_SECONDS):
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                connection.settimeout(START_SECONDS)
                return connection.makefile("rw")
            if self.process.poll():
                break
        raise SystemExit(f"{self.name}: did not start\n{self.log.read_text()[-2000:]}")

    def play(self, times: Times | None) -> None:
        """One round, whose times are added; None: the first, which begins by itself."""
        if self._lines is None:
            self._lines = self._connect()
        cpu, began, busy = cpu_seconds(self.mark), time.perf_counter(), busy_seconds()  # the first is slow
        if times is not None:
            self._lines.write("\n")
            self._lines.flush()
        line = self._lines.readline()
        busy, watched = busy_seconds() - busy, time.perf_counter() - began
        if not line:
            raise SystemExit(f"{self.name}: ended early\n{self.log.read_text()[-2000:]}")
        if times is not None:
            measured = json.loads(line)
            times.seconds.append(measured["seconds"])
            times.cpu.append(cpu_seconds(self.mark) - cpu)
            times.busy.append(busy)
            times.watched.append(watched)
            times.peak_bytes = max(times.peak_bytes, measured["peak_bytes"])

    def signal(self, number: int) -> None:
        """Send a signal to all its processes."""
        for pid in family(self.mark):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def end(self) -> None:
        """Let it end, and end what it has left running."""
        self.signal(signal.SIGCONT)
        if self._lines is not None:
            self._lines.close()
        self._listener.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.signal(number)
            deadline = time.monotonic() + 5
            while family(self.mark) and time.monotonic() < deadline:
                self.process.poll()
                time.sleep(0.1)


def _measure(commands: Mapping[str, Sequence[str]], rounds: int, freeze: bool) -> dict[str, Times]:
    times = {name: Times() for name in commands}
    sides: list[_Side] = []
    with tempfile.TemporaryDirectory() as logs:
        try:
            for name, command in commands.items():  # one after the other: loading is not timed, but takes memory
                sides.append(_Side(name, command, Path(logs) / f"{len(sides)}.log"))
                sides[-1].play(None)
                if freeze:
                    sides[-1].signal(signal.SIGSTOP)
            for _ in range(rounds):
                for side in sides:
                    if freeze:
                        side.signal(signal.SIGCONT)
                    side.play(times[side.name])
                    if freeze:
                        side.signal(signal.SIGSTOP)
        finally:
            for side in sides:
                side.end()
    return times
