"""Accuracy against joules, all in: schemes over the air beside digital uploads, on the demo.

python docs/studies/joules.py --jobs 2

Every scheme at the settings tuned for it, on one budget (ε = 16 against the server) where a budget sets its noise. The
joules are what devices draw: amplifier, circuit while the radio is on, local training. Digital uploads are priced at
the power limits that devices have over the air, and at up to 23 dBm. Finished runs are read, so the same command
continues where it stopped.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from pfels.experiment.loop import run
from pfels.privacy.calibration import Budget
from pfels.runtime.csv_files import to_csv
from pfels.runtime.files import write_atomically
from pfels.studies.aggregate import mean_and_std
from pfels.studies.radio import RadioCosts, costs_of_run
from pfels.studies.radio_plan import DEVICE_DBM
from pfels.studies.sweep import run_points
from pfels.studies.tune import Study

AIR = ("pfels", "wfl-pdp", "pfels-plus", "pfels-echo")
DIGITAL = ("fedavg", "dp-fedavg")
COLOURS = {
    "pfels": "#c0392b", "wfl-pdp": "#1f6fb4", "pfels-plus": "#7d3c98", "pfels-echo": "#b8860b", "fedavg": "#555555",
    "dp-fedavg": "#2e8b57",
}  # fmt: skip
PARTS = ("amplifier", "circuit", "compute")
OVER_AIR, LIMITED, FREE = "over the air", "digital, same power limits", "digital, up to 23 dBm"


def curves(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """One row per scheme, price and evaluated round: joules per device so far, and accuracy, over the seeds."""
    seeds = [int(seed) for seed in asked.seeds.split(",")]
    changed = {"run.eval_every": 5, "run.checkpoint_every": 10**6}
    study = Study("demo", asked.out / "runs", changed, Budget(16.0, "server"))
    points = {name: [study.point({"scheme": name}, seed) for seed in seeds] for name in (*AIR, *DIGITAL)}
    run_points([point for some in points.values() for point in some], jobs=asked.jobs)
    rows = []
    for name, some in points.items():
        records = [run(point.config, point.path).records for point in some]
        evaluated = [r["round"] for r in records[0] if r["test_accuracy"] is not None]
        accuracy = np.array([[each[t]["test_accuracy"] for t in evaluated] for each in records], float)
        for price, limit in ((OVER_AIR, None),) if name in AIR else ((LIMITED, None), (FREE, DEVICE_DBM)):
            costs = [costs_of_run(point.config, limit_dbm=limit) for point in some]
            spent = {part: _so_far(costs, f"{part}_j", some[0].config.data.devices) for part in (*PARTS, "total")}
            for i, t in enumerate(evaluated):
                joules = {part: float(spent[part][t]) for part in spent}
                rows.append(
                    {
                        "scheme": name, "link": price, "round": t + 1, "joules_per_device": joules,
                        "accuracy": mean_and_std(accuracy[:, i].tolist()),
                    }
                )  # fmt: skip
    return rows


def _so_far(costs: list[RadioCosts], part: str, devices: int) -> Any:
    """Cumulative joules per device, mean over the seeds."""
    return np.mean([np.cumsum(getattr(each, part)) for each in costs], axis=0) / devices


def _lines(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    lines: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        lines.setdefault((row["scheme"], row["link"]), []).append(row)
    return lines


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Accuracy against joules on the left, what they are spent on at the end on the right."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", width_ratios=(3, 2))
    lines, styles = _lines(rows), {OVER_AIR: "-", LIMITED: ":", FREE: "--"}
    for (name, price), mine in lines.items():
        x = [row["joules_per_device"]["total"] for row in mine]
        y = np.array([row["accuracy"]["mean"] for row in mine])
        e = np.array([row["accuracy"]["standard_error"] or 0.0 for row in mine])
        left.plot(x, y, styles[price], color=COLOURS[name], label=f"{name}, {price}")
        left.fill_between(x, y - e, y + e, color=COLOURS[name], alpha=0.12, linewidth=0)
    left.set_xscale("log")
    left.set(xlabel="joules per device so far: amplifier, circuit, training", ylabel="test accuracy, demo")
    left.grid(alpha=0.25)
    ends = {key: mine[-1]["joules_per_device"] for key, mine in lines.items()}
    places, width = np.arange(len(ends)), 0.26
    for i, (part, colour) in enumerate(zip(PARTS, ("#d35400", "#2c82c9", "#7f8c8d"), strict=True)):
        right.barh(places + (i - 1) * width, [end[part] for end in ends.values()], width, color=colour, label=part)
    names = [f"{name}\n{price.removeprefix('digital, ')}" for name, price in ends]
    right.set_yticks(places, names, fontsize=7)
    right.invert_yaxis()
    right.set_xscale("log")
    right.set(xlabel="joules per device at the end")
    right.grid(alpha=0.25, axis="x")
    right.legend(frameon=False, fontsize=8, loc="upper right")
    figure.legend(*left.get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=160)


def main() -> None:
    """Run every point, write the table, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/joules"))
    asked = parser.parse_args()
    rows = curves(asked)
    write_atomically(asked.out / "joules.csv", to_csv(rows))
    draw(rows, asked.out / "joules.png")
    for (name, price), mine in _lines(rows).items():
        end, spent = mine[-1]["accuracy"], mine[-1]["joules_per_device"]
        first = next((row["joules_per_device"]["total"] for row in mine if row["accuracy"]["mean"] >= 0.8), None)
        print(
            f"{name:10} {price:27} accuracy {end['mean']:.3f} ± {end['standard_error'] or 0:.3f}  "
            + "  ".join(f"{part} {spent[part]:.3g} J" for part in (*PARTS, "total"))
            + ("" if first is None else f"  0.8 after {first:.3g} J")
        )


if __name__ == "__main__":
    main()
