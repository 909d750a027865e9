"""The picture of the demo in the README: `make picture`, after `make demo`."""

import json
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

STYLES = {
    "fedavg": ("#555555", ":", "o"),
    "dp-fedavg": ("#8c6d31", "-.", "v"),
    "pfels-echo": ("#b8860b", "-", "*"),
    "pfels-plus": ("#7d3c98", "-", "P"),
    "pfels": ("#c0392b", (0, (6, 1)), "s"),
    "wfl-pdp": ("#1f6fb4", "--", "^"),
    "wfl-p": ("#2c8a4b", (0, (3, 1, 1, 1)), "D"),
    "liu-simeone": ("#17a2b8", (0, (1, 1)), "<"),
    "truncated-inversion": ("#e377c2", (0, (5, 2)), ">"),
    "artificial-noise": ("#9a9a9a", "-", "x"),
}


def curves(folder: Path) -> dict[str, list[list[dict]]]:
    """The evaluated rounds of every run below a folder, by scheme, with running totals."""
    runs = defaultdict(list)
    for path in sorted(folder.glob("*/summary.json")):
        energy, symbols, points = 0.0, 0, []
        for line in (path.parent / "rounds.jsonl").read_text().splitlines():
            record = json.loads(line)
            energy += record["energy"] or 0.0
            symbols += record["subcarriers"]
            if record["test_accuracy"] is not None:
                points.append(
                    {
                        "round": record["round"] + 1,
                        "energy": energy,
                        "symbols": symbols,
                        "accuracy": record["test_accuracy"],
                    }
                )
        runs[json.loads(path.read_text())["scheme"]].append(points)
    return runs


def draw(runs: dict[str, list[list[dict]]], target: Path) -> None:
    """Accuracy against rounds, channel uses and energy: mean over seeds, with the range as a band."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.7), sharey=True, layout="constrained")
    axes = [
        ("round", "rounds", False),
        ("symbols", "channel uses", True),
        ("energy", "transmit energy Σ‖x‖²", True),
    ]
    for panel, (key, label, logarithmic) in zip(panels, axes, strict=True):
        for name, (colour, line, marker) in STYLES.items():
            if name not in runs or (key == "energy" and not runs[name][0][-1]["energy"]):
                continue
            x = np.mean([[p[key] for p in run] for run in runs[name]], axis=0)
            y = np.array([[p["accuracy"] for p in run] for run in runs[name]])
            panel.plot(
                x, y.mean(0), color=colour, linestyle=line, marker=marker, markevery=0.2, markersize=4, label=name
            )
            panel.fill_between(x, y.min(0), y.max(0), color=colour, alpha=0.12, linewidth=0)
        panel.set_xlabel(label)
        panel.grid(alpha=0.25)
        if logarithmic:
            panel.set_xscale("log")
    panels[0].set_ylabel("test accuracy")
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=5)
    panels[2].set_title("fedavg and dp-fedavg: no energy is modelled", fontsize=8, color="#555555")
    figure.savefig(target, dpi=160)


if __name__ == "__main__":
    draw(curves(Path(sys.argv[1])), Path(sys.argv[2]))
