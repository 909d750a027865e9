"""Sides that take turns: each plays a round while the others wait, so that all meet the same machine."""

import json
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Times:
    """What a side took: the first round, which sets things up, is not among them."""

    seconds: list[float]
    peak_bytes: int

    @property
    def best(self) -> float:
        """The shortest round: what is left when nothing else disturbs it."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The round in the middle."""
        return statistics.median(self.seconds)


def contest(commands: Mapping[str, Sequence[str]], *, rounds: int) -> dict[str, Times]:
    """The times of each side over so many rounds, played in turns."""
    sides = {
        name: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE)
        for name, command in commands.items()
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    peaks = dict.fromkeys(sides, 0)
    try:
        for played in range(rounds + 1):
            for name, side in sides.items():
                assert side.stdin is not None
                assert side.stdout is not None
                if played:
                    side.stdin.write("\n")
                    side.stdin.flush()
                said = json.loads(_answer(side, name))
                peaks[name] = max(peaks[name], said["peak_bytes"])
                if played:
                    times[name].append(said["seconds"])
    finally:
        for side in sides.values():
            side.communicate()
    return {name: Times(times[name], peaks[name]) for name in sides}


def _answer(side: "subprocess.Popen[str]", name: str) -> str:
    """The side's next line of JSON; other lines are talk."""
    assert side.stdout is not None
    for line in side.stdout:
        if line.startswith('{"seconds"'):
            return line
    raise SystemExit(f"{name}: ended early, with exit code {side.wait()}")
