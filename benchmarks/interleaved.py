"""Interleaved timing: each process plays a round while the others wait, so that all see the same machine."""

import json
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Times:
    """Seconds of each round, without the first, which includes the set-up; and the peak memory."""

    seconds: list[float]
    peak_bytes: int

    @property
    def best(self) -> float:
        """The minimum: a round without disturbance."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.seconds)


def time_interleaved(commands: Mapping[str, Sequence[str]], *, rounds: int) -> dict[str, Times]:
    """Start one process per command and time this many rounds of each, one process at a time."""
    processes = {
        name: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE)
        for name, command in commands.items()
    }
    times: dict[str, list[float]] = {name: [] for name in processes}
    peaks = dict.fromkeys(processes, 0)
    try:
        for played in range(rounds + 1):
            for name, process in processes.items():
                assert process.stdin is not None
                if played:
                    process.stdin.write("\n")
                    process.stdin.flush()
                measured = json.loads(_next_line(process, name))
                peaks[name] = max(peaks[name], measured["peak_bytes"])
                if played:
                    times[name].append(measured["seconds"])
    finally:
        for process in processes.values():
            process.communicate()
    return {name: Times(times[name], peaks[name]) for name in processes}


def _next_line(process: "subprocess.Popen[str]", name: str) -> str:
    """The next line from the process's RoundTimer; its other output is skipped."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith('{"seconds"'):
            return line
    raise SystemExit(f"{name}: ended early, with exit code {process.wait()}")
