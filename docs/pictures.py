"""Curves of all runs in a folder: the README's picture (`make picture`, after `make demo`) and that of full scale.

python docs/pictures.py runs/demo docs/images/demo.png
python docs/pictures.py runs/full-scale docs/images/full-scale.png --loss --csv docs/results/full-scale.csv
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from pfels.report.looks import SCHEMES
from pfels.runtime.csv_files import to_csv
from pfels.runtime.files import write_atomically

LINES = {
    "fedavg": (":", "o"),
    "dp-fedavg": ("-.", "v"),
    "pfels-echo": ("-", "*"),
    "pfels-plus": ("-", "P"),
    "pfels": ((0, (6, 1)), "s"),
    "wfl-pdp": ("--", "^"),
    "wfl-p": ((0, (3, 1, 1, 1)), "D"),
    "liu-simeone": ((0, (1, 1)), "<"),
    "truncated-inversion": ((0, (5, 2)), ">"),
    "artificial-noise": ("-", "x"),
}


def curves(folder: Path) -> dict[str, list[list[dict]]]:
    """The evaluated rounds of every run below a folder, by scheme, with running totals."""
    runs = defaultdict(list)
    for path in sorted(folder.glob("*/summary.json")):
        summary = json.loads(path.read_text())
        energy, symbols, points = 0.0, 0, []
        for line in (path.parent / "rounds.jsonl").read_text().splitlines():
            record = json.loads(line)
            energy += record["energy"] or 0.0
            symbols += record["subcarriers"]
            if record["test_accuracy"] is not None:
                points.append(
                    {
                        "scheme": summary["scheme"],
                        "seed": summary["seed"],
                        "round": record["round"] + 1,
                        "energy": energy,
                        "symbols": symbols,
                        "loss": record["train_loss"],
                        "accuracy": record["test_accuracy"],
                    }
                )
        runs[summary["scheme"]].append(points)
    return runs


def draw(runs: dict[str, list[list[dict]]], target: Path, *, loss: bool = False) -> None:
    """Accuracy, and training loss where asked for, against rounds, channel uses and energy: mean over seeds, with the
    range as a band."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    rows = [("loss", "training loss"), ("accuracy", "test accuracy")][0 if loss else 1 :]
    axes = [
        ("round", "rounds", False),
        ("symbols", "channel uses", True),
        ("energy", "transmit energy Σ‖x‖²", True),
    ]
    figure, panels = plt.subplots(
        len(rows),
        3,
        figsize=(10, 0.9 + 2.8 * len(rows)),
        sharex="col",
        sharey="row",
        layout="constrained",
        squeeze=False,
    )
    for of_row, (value, name_of_value) in zip(panels, rows, strict=True):
        for panel, (key, _, logarithmic) in zip(of_row, axes, strict=True):
            for name in LINES:
                if name in runs and (key != "energy" or runs[name][0][-1]["energy"]):
                    _line(panel, runs[name], name, key, value)
            panel.grid(alpha=0.25)
            if logarithmic:
                panel.set_xscale("log")
        of_row[0].set_ylabel(name_of_value)
        if value == "loss":
            of_row[0].set_yscale("log")
    for panel, (_, label, _) in zip(panels[-1], axes, strict=True):
        panel.set_xlabel(label)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=5)
    without = [name for name in ("fedavg", "dp-fedavg") if name in runs]
    panels[0, 2].set_title(f"{' and '.join(without)}: no energy is modelled", fontsize=8, color="#555555")
    figure.savefig(target, dpi=160)


def _line(panel: plt.Axes, runs: list[list[dict]], name: str, key: str, value: str) -> None:
    colour, (line, marker) = SCHEMES[name].light, LINES[name]
    x = np.mean([[p[key] for p in run] for run in runs], axis=0)
    y = np.array([[p[value] for p in run] for run in runs], dtype=float)
    panel.plot(x, y.mean(0), color=colour, linestyle=line, marker=marker, markevery=0.2, markersize=4, label=name)
    panel.fill_between(x, y.min(0), y.max(0), color=colour, alpha=0.12, linewidth=0)


def main() -> None:
    """Read the runs, draw them, and write their points as CSV where asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--loss", action="store_true")
    parser.add_argument("--csv", type=Path)
    asked = parser.parse_args()
    runs = curves(asked.folder)
    draw(runs, asked.target, loss=asked.loss)
    if asked.csv is not None:
        write_atomically(asked.csv, to_csv([point for some in runs.values() for run in some for point in run]))


if __name__ == "__main__":
    main()
