"""Cost per round in wall and CPU seconds, share of the machine's peak, and memory: pfels against a plain PyTorch loop.

python benchmarks/bench.py [--out runs/bench.json] [demo mlp cnn vgg11 stages devices]
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch

from interleaved import HERE, Row, time_interleaved
from machine import cores, cpu_model, has_bfloat16, peaks
from work import WORKS, write_data

ROUNDS = {"demo": 400, "mlp": 40, "cnn": 8, "vgg11": 3}
PLAIN_COHORT = {"vgg11": 2}  # the plain loop is timed on this many devices and scaled up to the cohort
ROUNDED = ("cnn", "vgg11")  # the works whose products are large enough for bfloat16
SIDE = [sys.executable, str(HERE / "side.py")]
ONE = "plain, 1 thread"  # the plain loop with PyTorch's default of threads is faster, and spends more CPU on waiting


class Figures(Row):
    """The figures of one side."""

    share_of_peak: NotRequired[float]  # of the peak of its own kind of work, by CPU time
    plain_takes: NotRequired[float]  # CPU time of the plain loop with one thread, in multiples of this one's
    plain_takes_wall: NotRequired[float]  # median wall time of the plain loop with all threads, in the same way


class WorkDone(TypedDict):
    """What was timed."""

    flops: float  # operations per round
    cohort: int  # devices per round
    rounds: int  # rounds timed
    plain_cohort: int  # devices per round of the plain loop


class ModelFigures(TypedDict):
    """All sides on one model."""

    work: WorkDone
    peaks: dict[str, float]  # operations per second of all cores, at matrix products (mm) and convolutions
    sides: dict[str, Figures]


class StageFigures(TypedDict):
    """The sparsification alone."""

    seconds: float  # CPU seconds per round
    share_of_round: NotRequired[float]  # of a VGG-11 round


class DeviceFigures(TypedDict):
    """Numbers of devices, and of senders per round."""

    sides: dict[str, Row]
    times_as_long: float  # CPU time of ten million devices, in multiples of that of a thousand
    more_mb: float  # additional peak memory
    sender_ms: dict[str, float]  # CPU milliseconds per sender, by the number of senders


def bench_model(name: str, where: Path) -> ModelFigures:
    """PFELS, FedAvg and the plain loop on one model."""
    work, data = WORKS[name], where / f"{name}.npz"
    write_data(work, data)
    some = PLAIN_COHORT.get(name, work.cohort)
    schemes = ["pfels"] if name == "vgg11" else ["pfels", "fedavg"]  # a round is nearly the same with both
    precisions = ["", "bfloat16"] if name in ROUNDED and has_bfloat16() else [""]
    commands = {
        f"{scheme} {precision}".strip(): [*SIDE, f"pfels:{scheme}::{precision}", name, str(data)]
        for precision in precisions
        for scheme in schemes
    } | {
        "plain": [*SIDE, "plain", name, str(data), str(some)],
        ONE: [*SIDE, "plain:1", name, str(data), str(some)],
    }
    before = peaks()
    times = time_interleaved(commands, rounds=ROUNDS[name])
    data.unlink()
    best = {kind: max(value, peak) for (kind, value), peak in zip(peaks().items(), before.values(), strict=True)}
    rows = {side: t.row(work.cohort / some if side.startswith("plain") else 1.0) for side, t in times.items()}
    kind = "mm" if work.model == "mlp" else "convolution"
    sides = {}
    for side, row in rows.items():
        peak = best[f"{kind}_bfloat16" if side.endswith("bfloat16") else kind]
        sides[side] = _figures(row, rows, flops=work.flops, per_core=peak / cores())
    done: WorkDone = {"flops": work.flops, "cohort": work.cohort, "rounds": ROUNDS[name], "plain_cohort": some}
    return {"work": done, "peaks": best, "sides": sides}


def _figures(row: Row, rows: dict[str, Row], *, flops: float, per_core: float) -> Figures:
    """The row with its share of the peak at its own kind of work and precision, and its ratio to the plain loop."""
    return {
        **row,
        "share_of_peak": flops / row["cpu_seconds"] / per_core,
        "plain_takes": rows[ONE]["cpu_seconds"] / row["cpu_seconds"],
        "plain_takes_wall": rows["plain"]["median"] / row["median"],
    }


def bench_stages(vgg: ModelFigures | None) -> StageFigures:
    """Seconds per round of rand-k at VGG-11's size: index set, 32 projections and superpositions, lift."""
    from pfels.seeding import Purpose, generator
    from pfels.uplink.channel import phase_correction, superpose
    from pfels.uplink.compression import kept_count, lift, project, rand_k

    torch.set_num_threads(1)
    dimension, best = 9_750_922, float("inf")
    update, gain = torch.randn(1, dimension), np.array([0.02 + 0.01j])
    for t in range(3):
        began = time.process_time()
        kept = rand_k(generator(0, Purpose.MASK, round=t), dimension=dimension, kept=kept_count(dimension, 0.3))
        y = torch.zeros(len(kept))
        for _ in range(32):
            y += superpose(project(update, kept), gain, correction=phase_correction(gain))
        lift(y, kept, dimension=dimension)
        best = min(best, time.process_time() - began)
    found: StageFigures = {"seconds": best}
    if vgg is not None:
        found["share_of_round"] = best / vgg["sides"]["pfels"]["cpu_seconds"]
    return found


def bench_devices() -> DeviceFigures:
    """PFELS rounds among more and more devices, and with more and more senders, on data made when a device is drawn."""
    counts, senders = (1_000, 1_000_000, 10_000_000), (100, 1_000, 10_000)
    many = {f"{n} devices": _synthetic(n, 32) for n in counts}
    times = time_interleaved(many, rounds=60) | time_interleaved(
        {f"{r} senders": _synthetic(counts[-1], r) for r in senders}, rounds=5
    )
    rows = {side: measured.row() for side, measured in times.items()}
    first, last = rows[f"{counts[0]} devices"], rows[f"{counts[-1]} devices"]
    return {
        "sides": rows,
        "times_as_long": last["cpu_seconds"] / first["cpu_seconds"],
        "more_mb": last["peak_mb"] - first["peak_mb"],
        "sender_ms": {str(r): 1000 * rows[f"{r} senders"]["cpu_seconds"] / r for r in senders},
    }


def _synthetic(devices: int, cohort: int) -> list[str]:
    settings = {"data.name": "synthetic", "data.devices": devices, "data.per_device": 50, "cohort.size": cohort}
    return [*SIDE, "preset", "demo", *(f"{key}={value}" for key, value in settings.items())]


HEAD = "work   side               wall s     best s      CPU s  others  of peak       MB  plain takes (CPU, wall)"


def show(name: str, found: ModelFigures) -> None:
    """Print the figures of a model as rows of a table."""
    gigaflops = ", ".join(f"{kind} {peak / 1e9:.0f}" for kind, peak in found["peaks"].items())
    print(f"{name}: peaks in Gflop/s: {gigaflops}")
    for side, f in found["sides"].items():
        against = "" if side.startswith("plain") else f"{f['plain_takes']:8.2f}× {f['plain_takes_wall']:8.2f}×"
        print(
            f"{name:6} {side:15} {f['median']:9.4f} {f['seconds']:10.4f} {f['cpu_seconds']:10.4f} {f['others']:7.2f} "
            f"{f['share_of_peak']:8.0%} {f['peak_mb']:8.0f} {against}",
            flush=True,
        )


def bench_models(names: list[str]) -> Iterator[tuple[str, ModelFigures]]:
    """Measure the models; each is printed when it is done."""
    print(f"{cpu_model()}; {cores()} cores, PyTorch {torch.__version__}")
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as directory:
        for name in names:
            found = bench_model(name, Path(directory))
            show(name, found)
            yield name, found


class File:
    """The JSON of the figures, replaced after each contest. What it holds of this machine already is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = {"cpu": cpu_model(), "cores": cores(), "torch": torch.__version__}
        before = json.loads(path.read_text()) if path.exists() else {}
        if all(before.get(key) == value for key, value in self.content.items()):
            self.content = before

    def put(self, name: str, figures: object) -> None:
        """Write these figures too."""
        self.content[name] = figures
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.content, indent=2) + "\n")


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
    file = File(options.out)
    for name, found in bench_models([name for name in WORKS if name in what]):
        file.put(name, found)
    if "stages" in what:
        stages = bench_stages(file.content.get("vgg11"))
        share = f", {stages['share_of_round']:.1%} of a VGG-11 round" if "share_of_round" in stages else ""
        print(f"rand-k at 9,750,922 parameters: {stages['seconds']:.2f} s for 32 devices{share}", flush=True)
        file.put("stages", stages)
    if "devices" in what:
        devices = bench_devices()
        for side, row in devices["sides"].items():
            print(f"{side:17} {1000 * row['cpu_seconds']:8.1f} CPU ms a round, {row['peak_mb']:.0f} MB")
        print(f"ten million devices: {devices['times_as_long']:.2f} × a thousand, {devices['more_mb']:+.0f} MB")
        each = ", ".join(f"{ms:.3f} with {r}" for r, ms in devices["sender_ms"].items())
        print(f"CPU ms per sender: {each}")
        file.put("devices", devices)
    print(f"figures: {options.out}")


if __name__ == "__main__":
    main()
