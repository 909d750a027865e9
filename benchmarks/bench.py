"""Seconds per round, share of the machine's peak, and memory: pfels against a plain PyTorch loop. Table and JSON.

python benchmarks/bench.py [--out runs/bench.json] [demo mlp cnn vgg11 stages devices]
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np
import torch

from interleaved import HERE, Times, time_interleaved
from work import WORKS, cores, peak_flops, write_data

ROUNDS = {"demo": 60, "mlp": 40, "cnn": 4, "vgg11": 1}
PLAIN_COHORT = {"vgg11": 2}  # the plain loop is timed on this many devices and scaled up to the cohort
SIDE = [sys.executable, str(HERE / "side.py")]


class Figures(TypedDict):
    """The figures of one side."""

    seconds: float  # minimum seconds per round
    median: float  # median seconds per round
    peak_mb: float  # peak memory
    share_of_peak: NotRequired[float]  # of the machine's peak, in the fastest round


class WorkDone(TypedDict):
    """What was timed."""

    flops: float  # operations per round
    cohort: int  # devices per round
    rounds: int  # rounds timed
    plain_cohort: int  # devices per round of the plain loop


class ModelFigures(TypedDict):
    """All sides on one model."""

    work: WorkDone
    peak_flops: float  # the machine's peak, operations per second
    sides: dict[str, Figures]


class StageFigures(TypedDict):
    """The sparsification alone."""

    seconds: float  # per round
    share_of_round: NotRequired[float]  # of a VGG-11 round


class DeviceFigures(TypedDict):
    """A thousand and a million devices."""

    sides: dict[str, Figures]
    times_as_long: float  # median of a million, in multiples of that of a thousand
    more_mb: float  # additional peak memory


def bench_model(name: str, where: Path) -> ModelFigures:
    """PFELS, FedAvg and the plain loop on one model."""
    work, data = WORKS[name], where / f"{name}.npz"
    write_data(work, data)
    some = PLAIN_COHORT.get(name, work.cohort)
    commands = {
        "pfels": [*SIDE, "pfels:pfels", name, str(data)],
        "fedavg": [*SIDE, "pfels:fedavg", name, str(data)],
        "plain": [*SIDE, "plain", name, str(data), str(some)],
    }
    if name == "vgg11":  # a round takes long, and is nearly the same with both schemes
        del commands["fedavg"]
    peak = peak_flops()
    times = time_interleaved(commands, rounds=ROUNDS[name])
    data.unlink()
    peak = max(peak, peak_flops())
    sides = {side: _figures(t, work.cohort / some if side == "plain" else 1.0) for side, t in times.items()}
    for figures in sides.values():
        figures["share_of_peak"] = work.flops / figures["seconds"] / peak
    done: WorkDone = {"flops": work.flops, "cohort": work.cohort, "rounds": ROUNDS[name], "plain_cohort": some}
    return {"work": done, "peak_flops": peak, "sides": sides}


def _figures(times: Times, scale: float) -> Figures:
    return {"seconds": times.best * scale, "median": times.median * scale, "peak_mb": times.peak_bytes / 1e6}


def bench_stages(vgg: ModelFigures | None) -> StageFigures:
    """Seconds per round of rand-k at VGG-11's size: index set, 32 projections and superpositions, lift."""
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
    found: StageFigures = {"seconds": best}
    if vgg is not None:
        found["share_of_round"] = best / vgg["sides"]["pfels"]["seconds"]
    return found


def bench_devices() -> DeviceFigures:
    """A PFELS round among a thousand and among a million devices, whose data are generated when they are drawn."""
    counts = (1_000, 1_000_000)
    times = time_interleaved({str(n): [*SIDE, f"synthetic:{n}", "mlp", "-"] for n in counts}, rounds=60)
    few, many = (times[str(n)] for n in counts)
    return {
        "sides": {n: _figures(t, 1.0) for n, t in times.items()},
        "times_as_long": many.median / few.median,
        "more_mb": (many.peak_bytes - few.peak_bytes) / 1e6,
    }


def show(name: str, found: ModelFigures) -> None:
    """Print the figures of a model as rows of a table."""
    for side, f in found["sides"].items():
        against = f"{found['sides']['plain']['median'] / f['median']:8.1f}×" if side != "plain" else " " * 9
        print(
            f"{name:6} {side:7} {f['seconds']:10.4f} {f['median']:10.4f} {f['share_of_peak']:8.0%} "
            f"{f['peak_mb']:8.0f} {against}"
        )


def bench_models(names: list[str]) -> dict[str, ModelFigures]:
    """Measure and print the models."""
    peak = f"{peak_flops() / 1e9:.0f} Gflop/s at products of large matrices"
    print(f"{cores()} cores, {peak}, PyTorch {torch.__version__}")
    print("model  side     s (best)   s (median)  of peak  peak MB  plain/this")
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        for name in names:
            found[name] = bench_model(name, Path(directory))
            show(name, found[name])
    return found


def main() -> None:
    """Measure, print a table, and write JSON."""
    everything = [*WORKS, "stages", "devices"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"any of {', '.join(everything)}; all by default")
    parser.add_argument("--out", type=Path, default=Path("runs/bench.json"))
    options = parser.parse_args()
    what = options.what or everything
    if unknown := set(what) - set(everything):
        parser.error(f"{', '.join(unknown)}: not one of {', '.join(everything)}")
    models = bench_models([name for name in WORKS if name in what])
    results: dict[str, object] = {"cores": cores(), "torch": torch.__version__, **models}
    if "stages" in what:
        stages = results["stages"] = bench_stages(models.get("vgg11"))
        share = f", {stages['share_of_round']:.1%} of a VGG-11 round" if "share_of_round" in stages else ""
        print(f"rand-k at 9,750,922 parameters: {stages['seconds']:.2f} s for 32 devices{share}")
    if "devices" in what:
        devices = results["devices"] = bench_devices()
        print(f"a million devices: {devices['times_as_long']:.2f} × a thousand, {devices['more_mb']:+.0f} MB")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    print(f"figures: {options.out}")


if __name__ == "__main__":
    main()
