"""pfels, a plain PyTorch loop, pfl, fluke and Flower on the same FedAvg work, interleaved. Prints a table, writes JSON.

python benchmarks/peers.py [--peers .venv-peers/bin/python] [--out runs/bench-peers.json] [mlp cnn]
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TypedDict

from bench import ROUNDED, File
from interleaved import HERE, Row, time_interleaved
from machine import cores, cpu_model, has_bfloat16
from work import WORKS, write_data

ROUNDS = {"mlp": 20, "cnn": 5}
HEAD = "work   side                              wall s     best s      CPU s  others  times pfels (CPU, wall)"
OURS = "pfels"


class Figures(Row):
    """The figures of one side; pfels is measured anew with every contest."""

    times_pfels: float  # median wall time in multiples of pfels' in the same contest
    times_pfels_cpu: float  # CPU time in multiples of pfels' in the same contest


class Contest(TypedDict):
    """Sides that took turns."""

    work: str
    sides: dict[str, Figures]


def contests(name: str, peers: Path, data: Path) -> list[dict[str, list[str]]]:
    """The sides of each contest. Two simulations of Flower would slow down the others even while they wait."""
    work, python = [name, str(data)], [str(peers)]
    ours = {OURS: [sys.executable, str(HERE / "side.py"), "pfels:fedavg", *work]}
    fluke = [*python, str(HERE / "peer_fluke.py"), *work]
    flower = [*python, str(HERE / "peer_flower.py"), *work]
    per_core = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(cores())]
    rounded = {"pfels bfloat16": [sys.executable, str(HERE / "side.py"), "pfels:fedavg::bfloat16", *work]}
    return [
        ours
        | (rounded if name in ROUNDED and has_bfloat16() else {})
        | {"plain": [sys.executable, str(HERE / "side.py"), "plain", *work]}
        | {"plain, one thread": [sys.executable, str(HERE / "side.py"), "plain:1", *work]}
        | {"pfl": [*python, str(HERE / "peer_pfl.py"), *work]}
        | {"pfl, a process per core": [*python, *per_core, str(HERE / "peer_pfl.py"), *work]}
        | {"fluke": fluke, "fluke, one thread, unshuffled": [*fluke, "--lean"]},
        ours | {"flower, data kept in clients": flower},
        ours | {"flower, loading at each call": [*flower, "--load-each-call"]},
    ]


def measure(sides: dict[str, list[str]], name: str) -> Contest:
    """The figures of one contest, printed when it ends."""
    freeze = not any("flower" in side for side in sides)  # it would take a stopped process for a dead one
    rows = {side: times.row() for side, times in time_interleaved(sides, rounds=ROUNDS[name], freeze=freeze).items()}
    found: dict[str, Figures] = {
        side: {
            **row,
            "times_pfels": row["median"] / rows[OURS]["median"],
            "times_pfels_cpu": row["cpu_seconds"] / rows[OURS]["cpu_seconds"],
        }
        for side, row in rows.items()
    }
    for side, f in found.items():
        print(
            f"{name:6} {side:30} {f['median']:9.4f} {f['seconds']:10.4f} {f['cpu_seconds']:10.4f} {f['others']:7.2f} "
            f"{f['times_pfels_cpu']:8.2f}× {f['times_pfels']:8.2f}×",
            flush=True,
        )
    return {"work": name, "sides": found}


def main() -> None:
    """Measure, print a table, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"any of {', '.join(ROUNDS)}; all by default")
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers/bin/python"))
    parser.add_argument("--out", type=Path, default=Path("runs/bench-peers.json"))
    options = parser.parse_args()
    file, found = File(options.out), []
    print(f"{cpu_model()}; {cores()} cores\n{HEAD}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        for name in options.what or ROUNDS:
            data = Path(directory) / f"{name}.npz"
            write_data(WORKS[name], data)
            for sides in contests(name, options.peers.absolute(), data):
                found.append(measure(sides, name))
                file.put("contests", found)
            data.unlink()
    print(f"figures: {options.out}")


if __name__ == "__main__":
    main()
