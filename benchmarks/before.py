"""This version against an earlier one: rounds taking turns, and whole commands. Prints ratios, writes JSON.

git worktree add --detach OTHER COMMIT
python benchmarks/before.py OTHER [--out runs/bench-before.json] [rounds] [commands]

Both use the same interpreter and libraries; only the package differs. Commands need a quiet machine: their CPU seconds
are those of everybody.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TypedDict

from bench import SIDE, File
from interleaved import HERE, Row, time_interleaved
from machine import busy_seconds

ROUNDS = {
    "demo pfels": ("demo", "scheme=pfels"),
    "demo pfels-plus": ("demo", "scheme=pfels-plus"),
    "fashion pfels": ("fashion", "scheme=pfels"),
    "fashion pfels-plus": ("fashion", "scheme=pfels-plus"),
}
SIX = "pfels,wfl-p,wfl-pdp,dp-fedavg,fedavg,pfels-plus"  # which the first version had
MAKE_DEMO = ("compare", "demo", "--schemes", SIX, "--total-epsilon", "16", "--seeds", "0,1,2")
COMMANDS = {
    "pfels --help": ("--help",),
    "pfels plan cifar10": ("plan", "cifar10"),
    "the same, six schemes": ("plan", "cifar10", "--schemes", SIX),
    "pfels privacy demo": ("privacy", "demo"),
    "compare demo, one job": (*MAKE_DEMO, "--jobs", "1", "--out", "{}"),
    "compare demo, two jobs": (*MAKE_DEMO, "--jobs", "2", "--out", "{}"),
}
TOGETHER = 20  # rounds that are timed as one
TRIES = 3


class Both(TypedDict):
    """One round or command in both versions."""

    before: Row | dict[str, float]
    now: Row | dict[str, float]
    cpu_ratio: float  # CPU time before, in multiples of that of now
    wall_ratio: float


def compare_rounds(name: str, trees: dict[str, Path]) -> Both:
    """Rounds of a preset, taking turns."""
    command = [*SIDE, f"preset:{TOGETHER}", *ROUNDS[name]]
    times = time_interleaved(
        {side: ["env", f"PYTHONPATH={tree / 'src'}", *command] for side, tree in trees.items()}, rounds=15
    )
    before, now = (times[side].row(1 / TOGETHER) for side in ("before", "now"))
    return {
        "before": before,
        "now": now,
        "cpu_ratio": before["cpu_seconds"] / now["cpu_seconds"],
        "wall_ratio": before["median"] / now["median"],
    }


def compare_command(name: str, trees: dict[str, Path]) -> Both:
    """A command, taking turns; the best of a few tries counts."""
    best: dict[str, dict[str, float]] = {side: {} for side in trees}
    for _ in range(TRIES):
        for side, tree in trees.items():
            for key, value in _once(COMMANDS[name], tree).items():
                best[side][key] = min(value, best[side].get(key, value))
    before, now = best["before"], best["now"]
    return {
        "before": before,
        "now": now,
        "cpu_ratio": before["cpu_seconds"] / now["cpu_seconds"],
        "wall_ratio": before["seconds"] / now["seconds"],
    }


def _once(arguments: tuple[str, ...], tree: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pfels", *(each.replace("{}", f"{folder}/out") for each in arguments)]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        began, used = time.perf_counter(), busy_seconds()  # of the whole machine: processes that fork leave no trace
        subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True)
        return {"seconds": time.perf_counter() - began, "cpu_seconds": busy_seconds() - used}


def main() -> None:
    """Measure, print a table, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("what", nargs="*", metavar="rounds|commands", help="both by default")
    parser.add_argument("--out", type=Path, default=Path("runs/bench-before.json"))
    asked = parser.parse_args()
    trees = {"before": asked.before.absolute(), "now": HERE.parent.absolute()}
    what = asked.what or ["rounds", "commands"]
    if unknown := set(what) - {"rounds", "commands"}:
        parser.error(f"{', '.join(unknown)}: not one of rounds, commands")
    file, found = File(asked.out), {}
    print(f"{'':24} before: CPU s     wall s   now: CPU s     wall s   before ÷ now (CPU, wall)", flush=True)
    works = [(name, compare_rounds) for name in ROUNDS if "rounds" in what]
    works += [(name, compare_command) for name in COMMANDS if "commands" in what]
    for name, measure in works:
        both = found[name] = measure(name, trees)
        old, new = both["before"], both["now"]
        print(
            f"{name:24} {old['cpu_seconds']:13.4f} {old['seconds']:10.4f} {new['cpu_seconds']:12.4f} "
            f"{new['seconds']:10.4f} {both['cpu_ratio']:10.2f}× {both['wall_ratio']:8.2f}×",
            flush=True,
        )
        file.put("before", found)
    print(f"figures: {asked.out}")


if __name__ == "__main__":
    main()
