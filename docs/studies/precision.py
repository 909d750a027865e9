"""Does bfloat16 cost accuracy? The same runs with `run.precision` float32 and bfloat16, compared seed by seed.

python docs/studies/precision.py [--rounds 100] [--seeds 0,1,2,3,4]

FedAvg, whose training no channel noise hides, and PFELS+, on Fashion-MNIST with the cnn and on cifar10-small. Finished
runs are read, so the same command continues where it stopped.
"""

import argparse
import csv
import math
import statistics
from pathlib import Path
from typing import Any

import pfels

CASES = {"fashion": {"model.name": "cnn"}, "cifar10-small": {}}
SCHEMES = ("fedavg", "pfels-plus")
PRECISIONS = ("float32", "bfloat16")


def summary_of(preset: str, scheme: str, precision: str, *, seed: int, rounds: int, out: Path) -> dict[str, Any]:
    """The summary of one run, which is made if it is not there."""
    changed = {"scheme": scheme, "seed": seed, "rounds": rounds, "run.precision": precision, "run.eval_every": rounds}
    config = pfels.load_config(preset, {**CASES[preset], **changed, "run.checkpoint_every": 10**6})
    folder = out / f"{preset}-{scheme}-{precision}-{rounds}-{seed}"
    return dict(pfels.run(config, folder, resume=folder.exists()).summary)


def row_of(preset: str, scheme: str, *, seeds: list[int], rounds: int, out: Path) -> dict[str, Any]:
    """Both accuracies over the seeds, and the mean of their differences with its standard error."""
    runs = [[summary_of(preset, scheme, p, seed=s, rounds=rounds, out=out) for p in PRECISIONS] for s in seeds]
    single, brain = ([pair[i]["accuracy"] for pair in runs] for i in (0, 1))
    if any(a["privacy"] != b["privacy"] for a, b in runs):
        raise SystemExit(f"{preset} {scheme}: a privacy figure depends on run.precision")
    gaps = [b - a for a, b in zip(single, brain, strict=True)]
    row = {"preset": preset, "scheme": scheme, "rounds": rounds, "seeds": len(seeds)}
    for name, values in (("float32", single), ("bfloat16", brain), ("difference", gaps)):
        row |= {f"{name}.mean": statistics.fmean(values), f"{name}.std": statistics.stdev(values)}
    return row | {"difference.standard_error": statistics.stdev(gaps) / math.sqrt(len(gaps))}


def main() -> None:
    """Run every case, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--out", type=Path, default=Path("runs/precision"))
    asked = parser.parse_args()
    seeds, rows = [int(seed) for seed in asked.seeds.split(",")], []
    for scheme in SCHEMES:
        for preset in CASES:
            rows.append(row := row_of(preset, scheme, seeds=seeds, rounds=asked.rounds, out=asked.out))
            gap, error = row["difference.mean"], row["difference.standard_error"]
            print(f"{preset:14} {scheme:11} {row['float32.mean']:.4f} → {row['bfloat16.mean']:.4f}, "
                  f"{gap:+.4f} ± {error:.4f}", flush=True)  # fmt: skip
            with (asked.out / "precision.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()
