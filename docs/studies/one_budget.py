"""README's picture: what every scheme reaches on one certified budget, from the tuned tables in docs/results.

python docs/studies/one_budget.py
"""

import csv
import math
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from pfels.report.looks import SCHEMES

DOCS = Path(__file__).parents[1]
TABLES = {
    "MNIST by its writers": "tuned-mnist-writers-server-8.csv",
    "Fashion-MNIST": "tuned-fashion-server-8.csv",
    "CIFAR-10, public features": "tuned-cifar10-features-server-8.csv",
    "CIFAR-10, a small network": "tuned-cifar10-small-server-8.csv",
}
MARKERS = {"square": "s", "triangle-up": "^", "cross": "P", "star": "*", "circle": "o"}  # Matplotlib's names
ASSUMED = (
    "ε at δ = 1/N for the worst device; neighbours: one device's data emptied; proven, assuming receiver noise ≥ σ₀,\n"
    "exact gains and one antenna, no eavesdropper, untuned settings and a secret seed (docs/privacy.md#assumptions)"
)
SHOWN = ("pfels", "wfl-pdp", "pfels-plus", "pfels-echo", "fedavg")
LABELS = {
    "pfels": "PFELS, the paper's scheme",
    "wfl-pdp": "WFL-PDP, the same without sparsifying",
    "pfels-plus": "PFELS+, one public level, weak channels silent",
    "pfels-echo": "PFELS-echo, devices repeat and the server decodes",
    "fedavg": "FedAvg, no noise and no privacy",
}


def accuracies(path: Path) -> dict[str, tuple[float, float]]:
    """Mean accuracy and its standard error by scheme."""
    with path.open(newline="") as file:
        return {
            row["scheme"]: (float(row["accuracy.mean"]), float(row["accuracy.std"]) / math.sqrt(_count(row["seeds"])))
            for row in csv.DictReader(file)
        }


def _count(seeds: str) -> int:
    return seeds.count(",") + 1


def draw(target: Path) -> None:
    """One row per data set, one mark per scheme, bars of two standard errors."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, panel = plt.subplots(figsize=(9, 3.8), layout="constrained")
    for place, file in enumerate(reversed(TABLES.values())):
        found = accuracies(DOCS / "results" / file)
        panel.axhline(place, color="#dddddd", linewidth=1, zorder=0)
        for scheme in SHOWN:
            colour, marker = SCHEMES[scheme].light, MARKERS[SCHEMES[scheme].symbol]
            mean, error = found[scheme]
            # The two that are hardly to be told apart stand a little apart.
            at = place + {"pfels": 0.12, "wfl-pdp": -0.12}.get(scheme, 0.0)
            label = LABELS[scheme] if place == 0 else None
            panel.errorbar(
                mean,
                at,
                xerr=2 * error,
                color=colour,
                marker=marker,
                markersize=8,
                capsize=3,
                label=label,
                linestyle="",
            )
    panel.set(xlim=(0.2, 1.0), ylim=(-0.4, len(TABLES) - 0.6), xlabel="test accuracy")
    panel.set_yticks(range(len(TABLES)), list(reversed(TABLES)), fontsize=10)
    panel.tick_params("y", length=0)
    panel.spines["left"].set_visible(False)
    panel.set_title("Private learning on one budget: ε = 8 against the server, over the whole training", loc="left")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, title=ASSUMED, title_fontsize=8)
    figure.savefig(target, dpi=160)


if __name__ == "__main__":
    draw(DOCS / "images" / "one-budget.png")
