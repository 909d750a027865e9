"""pfels, a plain loop, pfl and Flower on the very same FedAvg work, in turns. Table and JSON.

python benchmarks/peers.py [--peers .venv-peers/bin/python] [--out runs/bench-peers.json] [mlp cnn]
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from contest import HERE, Times, contest
from work import WORKS, cores, write_data

ROUNDS = {"mlp": 20, "cnn": 3}
LOADING = "flower, loading at each call"


def bench(name: str, peers: Path, where: Path) -> dict[str, Any]:
    """Median seconds a round of every side, and how many times pfels's in the same contest that is."""
    data = where / f"{name}.npz"
    write_data(WORKS[name], data)
    ours = {"pfels": [sys.executable, str(HERE / "side.py"), "pfels:fedavg", name, str(data)]}
    flower = [str(peers), str(HERE / "peer_flower.py"), name, str(data)]
    others = {
        "plain": [sys.executable, str(HERE / "side.py"), "plain", name, str(data)],
        "pfl": [str(peers), str(HERE / "peer_pfl.py"), name, str(data)],
        "flower": flower,
    }
    found = _beside(contest(ours | others, rounds=ROUNDS[name]))
    # By itself, since two simulations of Flower's would disturb everybody even while they wait.
    loading = _beside(contest(ours | {LOADING: [*flower, "--load-each-call"]}, rounds=ROUNDS[name]))
    data.unlink()
    return found | {LOADING: loading[LOADING]}


def _beside(times: dict[str, Times]) -> dict[str, Any]:
    median = times["pfels"].median
    return {side: {"best": t.best, "seconds": t.median, "times_pfels": t.median / median} for side, t in times.items()}


def main() -> None:
    """Measure what is asked for, print it, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"any of {', '.join(ROUNDS)}; all by default")
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers/bin/python"))
    parser.add_argument("--out", type=Path, default=Path("runs/bench-peers.json"))
    asked = parser.parse_args()
    results: dict[str, Any] = {"cores": cores()}
    print(f"{cores()} cores; seconds a round: median, best, and how many times pfels's")
    with tempfile.TemporaryDirectory() as directory:
        for name in asked.what or ROUNDS:
            results[name] = bench(name, asked.peers.absolute(), Path(directory))
            for side, f in results[name].items():
                print(f"{name:6} {side:28} {f['seconds']:10.4f} {f['best']:10.4f} {f['times_pfels']:8.1f}×")
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(results, indent=2) + "\n")
    print(f"figures: {asked.out}")


if __name__ == "__main__":
    main()
