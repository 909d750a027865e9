"""What echo brings and what it rests on: accuracy against ε and against bands, an ablation, drop-out, and its picture.

python docs/studies/echo.py epsilon --jobs 2
python docs/studies/echo.py bands ablation dropout --jobs 2
python docs/studies/echo.py picture

All on Fashion-MNIST with a budget against the server, ε = 8 where nothing else is said. PFELS-echo is varied around a
learning rate of 0.1 and a server step of 1; against ε, every scheme is tuned anew at each ε, as `pfels compare --tune`
does. Finished runs are read, so the same command continues where it stopped.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # so that the processes of a sweep find echo_dropout.py too
import echo_dropout  # noqa: F401 (it registers a scheme)

from pfels.config.load import load_config
from pfels.config.scheme_settings import used_by
from pfels.experiment.link import link_of
from pfels.paper.reproduce import write_files
from pfels.privacy.calibration import Budget
from pfels.report.terminal import spread
from pfels.studies.aggregate import aggregate
from pfels.studies.compare import compare
from pfels.studies.sweep import run_points
from pfels.studies.tune import Settings, Study, Tuning

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
BANDS = (1, 2, 4, 8, 16, 31)
TUNED = ("fedavg", "pfels", "wfl-pdp", "pfels-plus", "pfels-echo")
GRID = {
    "training.learning_rate": [0.05, 0.1, 0.2],
    "server.learning_rate": [0.25, 1.0],
    "compression.ratio": [1 / 3, 1.0],
    "channel.silent_below": [0.002],
    "server.average": [0.95],
}
ECHO = {  # the settings that are varied one at a time
    "scheme": "pfels-echo",
    "training.learning_rate": 0.1,
    "server.learning_rate": 1.0,
    "server.average": 0.95,
    "compression.ratio": 1.0,
    "channel.silent_below": 0.002,
    "pfels-echo.weights": "optimised",
}
ABLATION: dict[str, Settings] = {
    "PFELS-echo": {},
    "without averaging": {"server.average": 0.0},
    "square-root weights": {"pfels-echo.weights": "square-root"},
    "one band (turns, no echo)": {"pfels-echo.bands": 1},
    "one band, without averaging": {"pfels-echo.bands": 1, "server.average": 0.0},
    "Poisson cohorts, no echo (PFELS+)": {"scheme": "pfels-plus"},
    "2 blocks (p = 1/2)": {"compression.ratio": 0.5},
    "3 blocks (p = 1/3)": {"compression.ratio": 1 / 3},
    "3 blocks, η 0.2": {"compression.ratio": 1 / 3, "training.learning_rate": 0.2},
    "r = 16": {"cohort.size": 16},
    "r = 64": {"cohort.size": 64},
    "r = 64, η 0.2, step 0.5": {"cohort.size": 64, "training.learning_rate": 0.2, "server.learning_rate": 0.5},
    "silent below 0.001": {"channel.silent_below": 0.001},
    "silent below 0.005": {"channel.silent_below": 0.005},
    "features (hog, hidden 16)": {"data.features": "hog", "model.hidden": 16},
    "features, one band": {"data.features": "hog", "model.hidden": 16, "pfels-echo.bands": 1},
}
SHARES = (0.0, 0.1, 0.2, 0.3)


@dataclass(frozen=True)
class Asked:
    """What the command line asks for."""

    out: Path
    jobs: int
    seeds: tuple[int, ...]
    epsilons: tuple[float, ...]

    def rows(self, variants: dict[str, Settings]) -> list[dict[str, Any]]:
        """PFELS-echo with each of these changes, over all seeds."""
        study = Study("fashion", self.out / "runs", {"run.checkpoint_every": 10**6}, Budget(8.0, "server"))
        every = [{**ECHO, **changes} for changes in variants.values()]
        points = [study.point(used_by(each["scheme"], each), seed) for each in every for seed in self.seeds]
        found, rows = iter(run_points(points, jobs=self.jobs)), []
        for label in variants:
            summaries = [next(found) for _ in self.seeds]
            row = aggregate(summaries)
            last = aggregate([{**s, "accuracy": s["accuracy_last"]} for s in summaries])["accuracy"]
            rows.append({"row": label, "accuracy": row["accuracy"], "accuracy_last": last, **_costs(row)})
            print(f"{label:36} {spread(row['accuracy'], '.4f')}  last model {spread(last, '.4f')}", flush=True)
        return rows


def _costs(row: Any) -> dict[str, Any]:
    return {
        "energy": row["energy"],
        "subcarriers": row["subcarriers"],
        "server_epsilon": row["privacy"]["server"]["epsilon"],
    }


def epsilon(asked: Asked) -> list[dict[str, Any]]:
    """Accuracy against ε: each scheme's learning rate and server step chosen for each ε."""
    rows = []
    for budget in asked.epsilons:
        found = compare(
            "fashion", schemes=TUNED, seeds=asked.seeds, budget=Budget(budget, "server"), tuning=Tuning(GRID, (1000,)),
            jobs=asked.jobs, out=asked.out / f"epsilon-{budget:g}",
        )  # fmt: skip
        for scheme, row in found["schemes"].items():
            rows.append(
                {"scheme": scheme, "epsilon": budget, "accuracy": row["accuracy"], **_costs(row), **row["tuned"]}
            )
            print(
                f"{scheme:12} ε {budget:4g}  {spread(row['accuracy'], '.4f')}  {row['tuned']['settings']}", flush=True
            )
    _draw_against(rows, "epsilon", "ε for the whole training against the server, δ = 1/N", asked.out / "echo-epsilon")
    return rows


def bands(asked: Asked) -> list[dict[str, Any]]:
    """Accuracy against the number of bands."""
    rows = asked.rows({str(b): {"pfels-echo.bands": b} for b in BANDS})
    for row in rows:
        row |= {"bands": int(row["row"]), "scheme": "pfels-echo"}
    _draw_against(rows, "bands", "bands b (a device sends in b rounds per turn)", asked.out / "echo-bands")
    return rows


def ablation(asked: Asked) -> list[dict[str, Any]]:
    """PFELS-echo with one change at a time."""
    return asked.rows(ABLATION)


def dropout(asked: Asked) -> list[dict[str, Any]]:
    """Devices that leave for good, each at a random round."""
    return asked.rows(
        {f"{share:.0%} leave": {"scheme": "echo-dropout", "echo-dropout.share": share} for share in SHARES}
    )


STYLES = {
    "pfels-echo": ("#b8860b", "-", "*"),
    "pfels-plus": ("#7d3c98", "-", "P"),
    "pfels": ("#c0392b", (0, (6, 1)), "s"),
    "wfl-pdp": ("#1f6fb4", "--", "^"),
    "fedavg": ("#555555", ":", "o"),
}


def _draw_against(rows: list[dict[str, Any]], key: str, label: str, stem: Path) -> None:
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, panel = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
    for scheme, (colour, line, marker) in STYLES.items():
        mine = sorted((row for row in rows if row["scheme"] == scheme), key=lambda row: row[key])
        if mine:
            x, accuracy = [row[key] for row in mine], [row["accuracy"] for row in mine]
            means, errors = [each["mean"] for each in accuracy], [each["standard_error"] or 0.0 for each in accuracy]
            panel.errorbar(x, means, errors, color=colour, linestyle=line, marker=marker, label=scheme, capsize=2)
    panel.set_xscale("log", base=2)
    ticks = sorted({row[key] for row in rows})
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.minorticks_off()
    panel.set_xlabel(label)
    panel.set_ylabel("test accuracy, Fashion-MNIST")
    panel.grid(alpha=0.25)
    panel.legend(frameon=False, loc="lower right")
    stem.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(stem.with_suffix(".png"), dpi=160)
    plt.close(figure)


def picture(asked: Asked) -> list[dict[str, Any]]:
    """What a device sends over the rounds, and the noise in the models with and without echo: no training."""
    link = link_of(load_config("fashion", ECHO | {"privacy.total_epsilon": 8.0}))
    level, s = link.scheme.level, link.setting
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.2), layout="constrained")
    for turn in range(3):
        rounds = turn * s.groups + np.arange(level.bands)
        left.bar(rounds, level.weights, width=0.8, color=["#b8860b", "#c9a24a", "#dcc38c"][turn])
        left.annotate(f"turn {turn + 1}", (rounds[0], level.weights[0]), xytext=(rounds[0] + 1.5, level.weights[0]))
    left.set_xlabel("round")
    left.set_ylabel("weight $c_j$ of what it learned at its turn")
    left.set_title("What one device sends", fontsize=9)
    draw, n = np.random.Generator(np.random.Philox(key=3)), s.rounds
    received = draw.standard_normal((n, 2000))
    decoded = np.zeros_like(received)
    for t in range(n):
        lags = range(1, min(level.bands, t + 1))
        echoes = sum((level.weights[j] * level.heard[j] * decoded[t - j] for j in lags), np.zeros(2000))
        decoded[t] = (received[t] - echoes) / level.weights[0]
    for rows, label, colour in ((received, "independent rounds", "#555555"), (decoded, "echo", "#b8860b")):
        sums = np.cumsum(rows, 0)
        right.plot(np.arange(1, n + 1), sums.std(1), color=colour, linewidth=2, label=f"{label}: standard deviation")
        right.plot(np.arange(1, n + 1), sums[:, :2], color=colour, linewidth=0.6, alpha=0.6)
    right.set_xlabel("round")
    right.set_ylabel("noise in the sum of the updates, in σ₀/β")
    right.set_title("What the model carries (thin: single coordinates)", fontsize=9)
    right.legend(frameon=False, loc="upper left")
    asked.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(asked.out / "echo.png", dpi=160)
    return []


PARTS = {"epsilon": epsilon, "bands": bands, "ablation": ablation, "dropout": dropout, "picture": picture}


def main() -> None:
    """Run the parts that are asked for, and write a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--epsilons", default=",".join(f"{each:g}" for each in EPSILONS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/echo"))
    given = parser.parse_args()
    epsilons = tuple(map(float, given.epsilons.split(",")))
    asked = Asked(given.out, given.jobs, tuple(map(int, given.seeds.split(","))), epsilons)
    for part in given.parts:
        rows = PARTS[part](asked)
        if part != "picture":
            print("\n".join(write_files({"points": rows, "seeds": asked.seeds}, "table", asked.out / f"echo-{part}")))


if __name__ == "__main__":
    main()
