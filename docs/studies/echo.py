"""What echo brings and what it rests on: accuracy against ε and against bands, an ablation, drop-out, and its picture.

python docs/studies/echo.py epsilon --jobs 2
python docs/studies/echo.py bands ablation dropout --jobs 2
python docs/studies/echo.py picture

All on Fashion-MNIST with a budget against the server, ε = 8 where nothing else is said. Learning rate and server step
are those that docs/studies/tuned.py chose for PFELS-echo, or are chosen anew for every scheme and ε on seeds of their
own. Finished runs are read, so the same command continues where it stopped.
"""

import argparse
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from pydantic import Field

sys.path.insert(0, str(Path(__file__).parent))  # so that the processes of a sweep find tuned.py too
from tuned import Settings, Study, tried

from pfels.arrays import DeviceIds, Gains
from pfels.config.load import load_config
from pfels.experiment.link import link_of
from pfels.paper.documents import write
from pfels.privacy.calibration import Budget
from pfels.report.terminal import spread
from pfels.schemes.draws import Draws
from pfels.schemes.echo_level import echo_level
from pfels.schemes.echo_settings import EchoSettings
from pfels.schemes.pfels_echo import PfelsEcho
from pfels.schemes.plan import RoundPlan
from pfels.schemes.registry import SchemeEntry, register, scheme_entry
from pfels.schemes.setting import Setting
from pfels.studies.aggregate import aggregate

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
BANDS = (1, 2, 4, 8, 16, 31)
TUNING = (1000,)
RATES, STEPS = (0.05, 0.1), (0.25, 1.0)
BEST = {"training.learning_rate": 0.1, "server.learning_rate": 1.0, "server.average": 0.95}  # as tuned.py chose
FLOOR = {"channel.silent_below": 0.002}
ECHO = {"scheme": "pfels-echo", "compression.ratio": 1.0, "pfels-echo.weights": "optimised", **BEST, **FLOOR}
OF_SCHEME: dict[str, Settings] = {  # p as tuned.py chose it for each at ε = 8
    "pfels": {"compression.ratio": 1 / 3},
    "wfl-pdp": {},
    "pfels-plus": {"compression.ratio": 1 / 3, **FLOOR},
    "pfels-echo": {"compression.ratio": 1.0, **FLOOR},
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


class DropOutSettings(EchoSettings):
    """The table `[echo-dropout]`: the share of the devices that leave for good, each at some round of the training."""

    weights: Literal["square-root", "optimised"] = "optimised"
    share: float = Field(default=0.0, ge=0, lt=1)


@dataclass(frozen=True)
class Leaving(Draws):
    """Draws in which nothing arrives from a device any more once it has left."""

    share: float = 0.0

    def gains(self, t: int, devices: DeviceIds) -> Gains:
        """As drawn, and almost nothing after a device's last round."""
        s, draw = self.setting, np.random.Generator(np.random.Philox(key=self.seed + 17))
        leaves = draw.permutation(s.devices) < round(self.share * s.devices)
        last = draw.integers(0, s.rounds, s.devices)
        gone = leaves[devices] & (t > last[devices])
        return np.where(gone, 1e-12, Draws.gains(self, t, devices))


@dataclass(frozen=True)
class EchoWithDropOut(PfelsEcho):
    """PFELS-echo with devices that leave for good; the server does not know, and decodes as if all were there."""

    leaving: dict[int, Leaving] = field(default_factory=dict)

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """As PFELS-echo, with the draws of those who are still there."""
        own = self.setting.own
        assert isinstance(own, DropOutSettings)
        if id(draws) not in self.leaving:
            same = {each.name: getattr(draws, each.name) for each in fields(Draws)}
            self.leaving[id(draws)] = Leaving(**same, share=own.share)
        return super().prepare(self.leaving[id(draws)], t)


def _with_drop_out(setting: Setting) -> EchoWithDropOut:
    return EchoWithDropOut(setting, echo_level(setting))


_entry = scheme_entry("pfels-echo")  # registered at import, so that the processes of a sweep know it too
register(
    "echo-dropout",
    SchemeEntry(_with_drop_out, _entry.uses, sampling=_entry.sampling, budget=_entry.budget, settings=DropOutSettings),
)


@dataclass(frozen=True)
class Asked:
    """What the command line asks for."""

    out: Path
    jobs: int
    seeds: tuple[int, ...]
    epsilons: tuple[float, ...]

    def study(self, epsilon: float = 8.0, preset: str = "fashion") -> Study:
        """Runs on a budget against the server."""
        return Study(preset, Budget(epsilon, "server"), self.out / "runs", self.jobs)

    def rows(self, variants: dict[str, Settings]) -> list[dict[str, Any]]:
        """PFELS-echo with each of these changes, over all seeds."""
        every = [{**ECHO, **{"run.checkpoint_every": 10**6}, **changes} for changes in variants.values()]
        rows = []
        for label, summaries in zip(variants, self.study().run(every, self.seeds), strict=True):
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
        for scheme, own in OF_SCHEME.items():
            study = asked.study(budget)
            common = {"scheme": scheme, **own, "server.average": 0.95, "run.checkpoint_every": 10**6}
            grid = [
                {**common, "training.learning_rate": rate, "server.learning_rate": step}
                for rate in RATES
                for step in STEPS
            ]
            chosen = tried(study, grid, TUNING, [0.95])[0].settings
            row = aggregate(study.run([chosen], asked.seeds)[0])
            rate, step = chosen["training.learning_rate"], chosen["server.learning_rate"]
            rows.append(
                {"scheme": scheme, "epsilon": budget, "learning_rate": rate, "server_step": step}
                | {"accuracy": row["accuracy"], **_costs(row)}
            )
            print(f"{scheme:12} ε {budget:4g}  {spread(row['accuracy'], '.4f')}  η {rate}  step {step}", flush=True)
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
}


def _draw_against(rows: list[dict[str, Any]], key: str, label: str, stem: Path) -> None:
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, panel = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
    for scheme, (colour, line, marker) in STYLES.items():
        mine = sorted((row for row in rows if row["scheme"] == scheme), key=lambda row: row[key])
        if mine:
            x, y, e = zip(*((r[key], r["accuracy"]["mean"], r["accuracy"]["std"] or 0.0) for r in mine), strict=True)
            panel.errorbar(x, y, e, color=colour, linestyle=line, marker=marker, label=scheme, capsize=2)
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
            print("\n".join(write({"points": rows, "seeds": asked.seeds}, "table", asked.out / f"echo-{part}")))


if __name__ == "__main__":
    main()
