"""pfels, a plain PyTorch loop, pfl and Flower on the same FedAvg work, interleaved. Prints a table, writes JSON.

python benchmarks/peers.py [--peers .venv-peers/bin/python] [--out runs/bench-peers.json] [mlp cnn]
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TypedDict

from interleaved import HERE, Times, time_interleaved
from work import WORKS, cores, write_data

ROUNDS = {"mlp": 20, "cnn": 3}
LOADING = "flower, loading at each call"


class Figures(TypedDict):
    """The figures of one side."""

    best: float  # minimum seconds per round
    seconds: float  # median seconds per round
    times_pfels: float  # the median, in multiples of pfels' in the same measurement


def bench(name: str, peers: Path, where: Path) -> dict[str, Figures]:
    """The figures of every side on one work."""
    data = where / f"{name}.npz"
    write_data(WORKS[name], data)
    ours = {"pfels": [sys.executable, str(HERE / "side.py"), "pfels:fedavg", name, str(data)]}
    flower = [str(peers), str(HERE / "peer_flower.py"), name, str(data)]
    others = {
        "plain": [sys.executable, str(HERE / "side.py"), "plain", name, str(data)],
        "pfl": [str(peers), str(HERE / "peer_pfl.py"), name, str(data)],
        "flower": flower,
    }
    found = _figures(time_interleaved(ours | others, rounds=ROUNDS[name]))
    # Measured separately: two simulations of Flower would slow down the others even while they wait.
    loading = _figures(time_interleaved(ours | {LOADING: [*flower, "--load-each-call"]}, rounds=ROUNDS[name]))
    data.unlink()
    return found | {LOADING: loading[LOADING]}


def _figures(times: dict[str, Times]) -> dict[str, Figures]:
    median = times["pfels"].median
    return {side: {"best": t.best, "seconds": t.median, "times_pfels": t.median / median} for side, t in times.items()}


def main() -> None:
    """Measure, print a table, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"any of {', '.join(ROUNDS)}; all by default")
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers/bin/python"))
    parser.add_argument("--out", type=Path, default=Path("runs/bench-peers.json"))
    options = parser.parse_args()
    results: dict[str, int | dict[str, Figures]] = {"cores": cores()}
    print(f"{cores()} cores; seconds per round: median, best, and the median in multiples of pfels'")
    with tempfile.TemporaryDirectory() as directory:
        for name in options.what or ROUNDS:
            found = results[name] = bench(name, options.peers.absolute(), Path(directory))
            for side, f in found.items():
                print(f"{name:6} {side:28} {f['seconds']:10.4f} {f['best']:10.4f} {f['times_pfels']:8.1f}×")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    print(f"figures: {options.out}")


if __name__ == "__main__":
    main()
