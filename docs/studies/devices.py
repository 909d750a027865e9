"""How many devices does privacy need? Accuracy at ε = 8 and ε = 2 against their number, beside the noise ratio.

python docs/studies/devices.py --jobs 2

Fashion-MNIST, its 60,000 training images shared out evenly over the devices, 32 of them per round, the settings of the
preset, a budget against the server at δ = 1/N. The ratio is that of the noise in the sum of all updates to the largest
possible signal in it (`pfels plan`). Finished runs are read, so the same command continues where it stopped.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from pfels.paper.reproduce import write_files
from pfels.privacy.calibration import Budget
from pfels.report.terminal import spread
from pfels.studies.compare import compare
from pfels.studies.plan import plan

IMAGES = 60_000
DEVICES = (250, 500, 1000, 2000, 4000, 6000)
EPSILONS = (8.0, 2.0)
LOOKS = {"pfels": ("#c0392b", "s"), "pfels-plus": ("#7d3c98", "P"), "pfels-echo": ("#b8860b", "*")}


def rows_at(devices: int, epsilon: float, *, seeds: list[int], jobs: int, out: Path) -> list[dict[str, Any]]:
    """One row per scheme."""
    changed = {"data.devices": devices, "data.per_device": IMAGES // devices, "run.checkpoint_every": 10**6}
    budget = Budget(epsilon, "server")
    table = compare(
        "fashion", schemes=list(LOOKS), seeds=seeds, overrides=changed, budget=budget, jobs=jobs,
        out=out / "runs" / f"{devices}-{epsilon:g}",
    )["schemes"]  # fmt: skip
    planned = plan("fashion", schemes=list(LOOKS), overrides=changed, budget=budget)["schemes"]
    rows = []
    for name, row in table.items():
        rows.append(
            {
                "scheme": name,
                "devices": devices,
                "epsilon": epsilon,
                "accuracy": row["accuracy"],
                "noise_ratio": planned[name]["noise_ratio_sum"],
                "server_epsilon": row["privacy"]["server"]["epsilon"],
                "delta": row["privacy"]["server"]["delta"],
            }
        )
        print(f"{name:12} N {devices:5} ε {epsilon:g}  {spread(row['accuracy'], '.4f')}", flush=True)
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Accuracy on the left, the noise ratio on the right."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.1), layout="constrained")
    for name, (colour, marker) in LOOKS.items():
        for epsilon, line in zip(EPSILONS, ("-", "--"), strict=True):
            mine = [row for row in rows if row["scheme"] == name and row["epsilon"] == epsilon]
            x, look = [row["devices"] for row in mine], {"color": colour, "linestyle": line, "marker": marker}
            means = [row["accuracy"]["mean"] for row in mine]
            errors = [row["accuracy"]["standard_error"] or 0.0 for row in mine]
            left.errorbar(x, means, errors, capsize=2, label=f"{name}, ε = {epsilon:g}", **look)
            right.plot(x, [row["noise_ratio"] for row in mine], **look)
    for panel, label in ((left, "test accuracy"), (right, "noise / largest possible signal")):
        panel.set_xscale("log")
        panel.set_xticks(DEVICES, [f"{devices:,}" for devices in DEVICES], rotation=30)
        panel.minorticks_off()
        panel.set(xlabel="devices N", ylabel=label)
        panel.grid(alpha=0.25)
    right.set_yscale("log")
    figure.legend(*left.get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=160)


def main() -> None:
    """Run every point, write the table, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/devices"))
    asked = parser.parse_args()
    seeds = [int(seed) for seed in asked.seeds.split(",")]
    rows = [
        row
        for devices in DEVICES
        for epsilon in EPSILONS
        for row in rows_at(devices, epsilon, seeds=seeds, jobs=asked.jobs, out=asked.out)
    ]
    print("\n".join(write_files({"points": rows, "seeds": seeds}, "table", asked.out / "devices")))
    draw(rows, asked.out / "devices.png")


if __name__ == "__main__":
    main()
