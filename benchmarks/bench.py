"""Seconds a round, share of the machine's peak and memory: pfels against a plain PyTorch loop. Table and JSON.

python benchmarks/bench.py [--out runs/bench.json] [demo mlp cnn vgg11 stages devices]
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from contest import HERE, Times, contest
from work import WORKS, cores, peak_flops, write_data

ROUNDS = {"demo": 60, "mlp": 40, "cnn": 4, "vgg11": 1}
PLAIN_COHORT = {"vgg11": 2}  # the plain loop is timed on so many devices of the cohort, and the round worked out


def bench_model(name: str, where: Path) -> dict[str, Any]:
    """PFELS, FedAvg and the plain loop on one model."""
    work, data = WORKS[name], where / f"{name}.npz"
    write_data(work, data)
    some = PLAIN_COHORT.get(name, work.cohort)
    python = [sys.executable, str(HERE / "side.py")]
    commands = {
        "pfels": [*python, "pfels:pfels", name, str(data)],
        "fedavg": [*python, "pfels:fedavg", name, str(data)],
        "plain": [*python, "plain", name, str(data), str(some)],
    }
    if name == "vgg11":  # a round takes long, and what sets the two apart little
        del commands["fedavg"]
    peak = peak_flops()
    times = contest(commands, rounds=ROUNDS[name])
    data.unlink()
    peak = max(peak, peak_flops())
    sides = {side: _figures(t, work.cohort / some if side == "plain" else 1.0) for side, t in times.items()}
    for figures in sides.values():
        figures["share_of_peak"] = work.flops / figures["seconds"] / peak
    return {
        "work": {"flops": work.flops, "cohort": work.cohort, "rounds": ROUNDS[name], "plain_cohort": some},
        "peak_flops": peak,
        "sides": sides,
    }


def _figures(times: Times, scale: float) -> dict[str, float]:
    return {
        "seconds": times.best * scale,
        "median": times.median * scale,
        "peak_mb": times.peak_bytes / 1e6,
    }


def bench_stages(vgg: dict[str, Any] | None) -> dict[str, float]:
    """Seconds that rand-k takes in a round at VGG-11's size: index draw, 32 projections and superpositions, lift."""
    from pfels.seeding import Purpose, generator
    from pfels.uplink.channel import phase_correction, superpose
    from pfels.uplink.compression import kept_count, lift, project, rand_k

    torch.set_num_threads(1)
    dimension, best = 9_750_922, float("inf")
    update, gain = torch.randn(1, dimension), np.array([0.02 + 0.01j])
    for t in range(3):
        began = time.perf_counter()
        kept = rand_k(generator(0, Purpose.MASK, round=t), dimension=dimension, kept=kept_count(dimension, 0.3))
        y = torch.zeros(len(kept))
        for _ in range(32):
            y += superpose(project(update, kept), gain, correction=phase_correction(gain))
        lift(y, kept, dimension=dimension)
        best = min(best, time.perf_counter() - began)
    found = {"seconds": best}
    return found if vgg is None else found | {"share_of_round": best / vgg["sides"]["pfels"]["seconds"]}


def bench_devices() -> dict[str, Any]:
    """A PFELS round among a thousand and among a million devices that are made when they are drawn."""
    python = [sys.executable, str(HERE / "side.py")]
    counts = (1_000, 1_000_000)
    times = contest({str(n): [*python, f"synthetic:{n}", "mlp", "-"] for n in counts}, rounds=60)
    few, many = (times[str(n)] for n in counts)
    return {
        "sides": {n: _figures(t, 1.0) for n, t in times.items()},
        "times_as_long": many.median / few.median,
        "more_mb": (many.peak_bytes - few.peak_bytes) / 1e6,
    }


def show(name: str, found: dict[str, Any]) -> None:
    """The figures of a model as rows of a table."""
    for side, f in found["sides"].items():
        against = f"{found['sides']['plain']['median'] / f['median']:8.1f}×" if side != "plain" else " " * 9
        print(
            f"{name:6} {side:7} {f['seconds']:10.4f} {f['median']:10.4f} {f['share_of_peak']:8.0%} "
            f"{f['peak_mb']:8.0f} {against}"
        )


def main() -> None:
    """Measure what is asked for, print it, and write it as JSON."""
    everything = [*WORKS, "stages", "devices"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"any of {', '.join(everything)}; all by default")
    parser.add_argument("--out", type=Path, default=Path("runs/bench.json"))
    asked = parser.parse_args()
    what = asked.what or everything
    if unknown := set(what) - set(everything):
        parser.error(f"{', '.join(unknown)}: not one of {', '.join(everything)}")
    results: dict[str, Any] = {"cores": cores(), "torch": torch.__version__}
    print(
        f"{cores()} cores, {peak_flops() / 1e9:.0f} Gflop/s at products of large matrices, PyTorch {torch.__version__}"
    )
    print("model  side     s (best)   s (median)  of peak  peak MB  plain/this")
    with tempfile.TemporaryDirectory() as directory:
        for name in WORKS:
            if name in what:
                results[name] = bench_model(name, Path(directory))
                show(name, results[name])
    if "stages" in what:
        found = results["stages"] = bench_stages(results.get("vgg11"))
        share = f", {found['share_of_round']:.1%} of a VGG-11 round" if "share_of_round" in found else ""
        print(f"rand-k at 9,750,922 parameters: {found['seconds']:.2f} s for 32 devices{share}")
    if "devices" in what:
        found = results["devices"] = bench_devices()
        print(f"a million devices: {found['times_as_long']:.2f} × a thousand, {found['more_mb']:+.0f} MB")
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(results, indent=2) + "\n")
    print(f"figures: {asked.out}")


if __name__ == "__main__":
    main()
