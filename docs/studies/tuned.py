"""Schemes on one budget, each at its own best settings out of one common grid.

python docs/studies/tuned.py fashion --total-epsilon 8 --adversary server --jobs 2

The grid is learning rate × server learning rate × p × average. Settings are chosen on seeds of their own, by mean
accuracy; with --finalists, the best on the first of these seeds go on to the others. Schemes with a public level may
choose only among settings that take no more energy than the best of PFELS. Then all seeds are run. A run with
averaging also tells the accuracy of its last model, so that an average of 0 costs no run.
Finished runs are read, so the same command continues where it stopped.
"""

import argparse
import itertools
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfels.config.load import load_config, parse_override
from pfels.config.scheme_settings import used_by, uses
from pfels.documents.run import Summary
from pfels.experiment.directory import point_name
from pfels.paper.documents import write
from pfels.privacy.calibration import Budget
from pfels.privacy.events import Adversary
from pfels.report.terminal import spread
from pfels.schemes.registry import BudgetBy, scheme_entry
from pfels.seeding import TUNING_SEEDS
from pfels.studies.aggregate import aggregate
from pfels.studies.budget import with_budget
from pfels.studies.sweep import Point, run_points

Settings = dict[str, Any]
AVERAGE = "server.average"


@dataclass(frozen=True)
class Study:
    """Runs of one preset on one budget, below one directory."""

    preset: str
    budget: Budget
    out: Path
    jobs: int

    def run(self, chosen: Sequence[Settings], seeds: Sequence[int]) -> list[list[Summary]]:
        """The summaries of every setting, one per seed."""
        points = [self._point(settings, seed) for settings in chosen for seed in seeds]
        found = iter(run_points(points, jobs=self.jobs))
        return [[next(found) for _ in seeds] for _ in chosen]

    def _point(self, settings: Settings, seed: int) -> Point:
        every = {**settings, **self.budget.settings(), "seed": seed}
        config = load_config(self.preset, {**used_by(settings["scheme"], settings), "seed": seed})
        return Point(every, with_budget(config, self.budget), self.out / self.preset / point_name(every))


@dataclass(frozen=True)
class Trial:
    """A setting with its mean accuracy and energy over some seeds."""

    settings: Settings
    accuracy: float
    energy: float


def tried(study: Study, grid: Sequence[Settings], seeds: Sequence[int], averages: Sequence[float]) -> list[Trial]:
    """Every setting of a grid over these seeds, the most accurate first."""
    trials = []
    for settings, summaries in zip(grid, study.run(grid, seeds), strict=True):
        energy = statistics.fmean(s["energy"] or 0.0 for s in summaries)
        trials.append(Trial(settings, statistics.fmean(s["accuracy"] for s in summaries), energy))
        if settings.get(AVERAGE) and 0.0 in averages:
            last = statistics.fmean(s["accuracy_last"] for s in summaries)
            trials.append(Trial({**settings, AVERAGE: 0.0}, last, energy))
    return sorted(trials, key=lambda trial: -trial.accuracy)


def grid_of(scheme: str, axes: Mapping[str, Sequence[Any]], others: Settings) -> list[Settings]:
    """Every combination of the axes that the scheme uses; of averages, 0 only where there is no other."""
    mine = {key: values for key, values in axes.items() if uses(scheme, key)}
    mine[AVERAGE] = [value for value in axes[AVERAGE] if value] or [0.0]
    combinations = (dict(zip(mine, values, strict=True)) for values in itertools.product(*mine.values()))
    fixed = {key: value for key, value in others.items() if uses(scheme, key)}
    return [{"scheme": scheme, **each, **fixed} for each in combinations]


def numbers(text: str) -> list[float]:
    """The numbers in a comma-separated list; 1/3 is one."""
    parts = (part.partition("/") for part in text.split(","))
    return [float(a) / float(b) if b else float(a) for a, _, b in parts]


def main() -> None:
    """Choose, run, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--schemes", default="pfels,wfl-pdp,pfels-plus")
    parser.add_argument("--total-epsilon", type=float, default=8.0)
    parser.add_argument("--adversary", default="server", type=Adversary)
    parser.add_argument("--learning-rates", type=numbers, default=[0.005, 0.01, 0.02, 0.05, 0.1, 0.2])
    parser.add_argument("--server-steps", type=numbers, default=[1.0])
    parser.add_argument("--ratios", type=numbers, default=[0.1, 0.3, 1.0])
    parser.add_argument("--averages", type=numbers, default=[0.0])
    parser.add_argument("--silent-below", type=numbers, default=[0.0, 0.005, 0.01])
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--tuning-seeds", default=",".join(map(str, TUNING_SEEDS)))
    parser.add_argument(
        "--finalists", type=int, help="how many settings go on from the first tuning seed to the others"
    )
    parser.add_argument("-s", "--set", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/tuned"))
    parser.add_argument("--name", help="name of the table; left out, made of preset and budget")
    asked = parser.parse_args()
    study = Study(
        asked.preset, Budget(asked.total_epsilon, asked.adversary), asked.out / "runs", asked.jobs
    )  # fmt: skip
    axes = {
        "training.learning_rate": asked.learning_rates,
        "server.learning_rate": asked.server_steps,
        "compression.ratio": asked.ratios,
        "channel.silent_below": asked.silent_below,
        AVERAGE: asked.averages,
    }
    others = dict(map(parse_override, asked.set))
    tuning, seeds = ([int(s) for s in text.split(",")] for text in (asked.tuning_seeds, asked.seeds))
    rows, most = {}, float("inf")
    for scheme in asked.schemes.split(","):
        limited = scheme_entry(scheme).budget is BudgetBy.TOTAL  # its settings decide its energy
        grid = grid_of(scheme, axes, others)
        first = tuning if asked.finalists is None else tuning[:1]
        trials = tried(study, grid, first, asked.averages)
        allowed = [trial for trial in trials if not limited or trial.energy <= most]
        if not allowed:
            sys.exit(f"{scheme}: no setting takes as little energy as {most:.3g}; let more of them be silent")
        if asked.finalists is not None:
            best = [trial.settings for trial in allowed[: asked.finalists]]
            allowed = tried(study, best, tuning, [])
        chosen = allowed[0]
        if scheme == "pfels":
            most = chosen.energy
        row = aggregate(study.run([chosen.settings], seeds)[0])
        rows[scheme] = {
            "learning_rate": chosen.settings["training.learning_rate"],
            "server_step": chosen.settings["server.learning_rate"],
            "ratio": chosen.settings.get("compression.ratio", 1.0),
            "average": chosen.settings[AVERAGE],
            "silent_below": chosen.settings.get("channel.silent_below", 0.0),
            "at_edge": ", ".join(at_edges(chosen.settings, axes)),
            "tried": len(trials),
            **{key: row[key] for key in ("accuracy", "energy", "subcarriers", "privacy")},
        }
        print(line(scheme, rows[scheme]), flush=True)
    name = asked.name or f"tuned-{asked.preset}-{asked.adversary.value}-{asked.total_epsilon:g}"
    about = {"preset": asked.preset, "budget": study.budget.settings(), "seeds": seeds, "schemes": rows}
    asked.out.mkdir(parents=True, exist_ok=True)
    print("\n".join(write(about, "table", asked.out / name)))


def at_edges(chosen: Settings, axes: Mapping[str, Sequence[Any]]) -> list[str]:
    """The keys whose chosen value is the smallest or the largest of several: the best may lie outside of the grid."""
    return [
        key
        for key, values in axes.items()
        if key in ("training.learning_rate", "server.learning_rate")
        and len(values) > 1
        and chosen.get(key) in (min(values), max(values))
    ]


def line(scheme: str, row: Mapping[str, Any]) -> str:
    """A row for the terminal."""
    energy = f"{row['energy']['mean']:.3g}" if row["energy"] else "–"
    return (
        f"{scheme:12} accuracy {spread(row['accuracy'], '.4f')}  energy {energy}  η {row['learning_rate']:g}"
        f"  step {row['server_step']:g}  p {row['ratio']:.3g}  average {row['average']:g}"
        f"  silent below {row['silent_below']:g}  ε server {row['privacy']['server']['epsilon']}"
        f"  ε outsider {row['privacy']['outsider']['epsilon']}"
    )


if __name__ == "__main__":
    main()
