"""PFELS+ against PFELS on one budget, each at its own best learning rate and p out of one common grid.

python docs/studies/plus.py fashion --total-epsilon 8 --adversary server --jobs 2

Settings are chosen on seeds of their own, by mean accuracy. PFELS+ may choose only among those that take no more
energy than the best of PFELS; to that end its weakest channels may stay silent. Then all seeds are run.
Finished runs are read, so the same command takes up where it stopped.
"""

import argparse
import itertools
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pfels.config.load import load_config, parse_override
from pfels.config.scheme_settings import used_by
from pfels.experiment.directory import point_name
from pfels.paper.documents import write
from pfels.paper.stand_ins import TUNING_SEEDS
from pfels.privacy.calibration import Budget
from pfels.privacy.events import Adversary
from pfels.report.terminal import spread
from pfels.studies.aggregate import aggregate
from pfels.studies.budget import with_budget
from pfels.studies.sweep import Point, run_points


def points(preset: str, settings: dict[str, Any], budget: Budget, seeds: Sequence[int], out: Path) -> list[Point]:
    """The runs of one setting on the budget, one per seed."""
    made = []
    for seed in seeds:
        every = {**settings, **budget.settings(), "seed": seed}
        config = with_budget(load_config(preset, {**used_by(settings["scheme"], settings), "seed": seed}), budget)
        made.append(Point(every, config, out / preset / point_name(every)))
    return made


def tried(preset: str, grid: Sequence[dict[str, Any]], budget: Budget, asked: argparse.Namespace) -> list[Any]:
    """Every setting of a grid with its mean accuracy and energy over the tuning seeds, the most accurate first."""
    seeds = [int(s) for s in asked.tuning_seeds.split(",")]
    runs = [points(preset, each, budget, seeds, asked.out / "runs") for each in grid]
    found = iter(run_points([point for some in runs for point in some], jobs=asked.jobs))
    rows = []
    for each in grid:
        summaries = [next(found) for _ in seeds]
        energies = [s["energy"] or 0.0 for s in summaries]
        rows.append((statistics.fmean(s["accuracy"] for s in summaries), statistics.fmean(energies), each))
    return sorted(rows, key=lambda row: -row[0])


def main() -> None:
    """Choose, run, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--schemes", default="pfels,wfl-pdp,pfels-plus")
    parser.add_argument("--total-epsilon", type=float, default=8.0)
    parser.add_argument("--adversary", default="server", type=Adversary)
    parser.add_argument("--learning-rates", default="0.005,0.01,0.02,0.05,0.1,0.2")
    parser.add_argument("--ratios", default="0.1,0.3,1.0")
    parser.add_argument("--silent-below", default="0,0.005,0.01", help="the gains below which PFELS+ may be silent")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--tuning-seeds", default=",".join(map(str, TUNING_SEEDS)))
    parser.add_argument("-s", "--set", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/plus"))
    asked = parser.parse_args()
    budget = Budget(asked.total_epsilon, asked.adversary)
    rates, ratios = ([float(v) for v in text.split(",")] for text in (asked.learning_rates, asked.ratios))
    others = dict(map(parse_override, asked.set))
    rows, most = {}, float("inf")
    for scheme in asked.schemes.split(","):
        whole = scheme not in ("pfels", "pfels-plus")  # these send every coordinate
        floors = [float(v) for v in asked.silent_below.split(",")] if scheme == "pfels-plus" else [0.0]
        grid = [
            {"scheme": scheme, "training.learning_rate": rate, "compression.ratio": ratio, **others}
            | ({"channel.silent_below": floor} if floor else {})
            for rate, ratio, floor in itertools.product(rates, [1.0] if whole else ratios, floors)
        ]
        trials = tried(asked.preset, grid, budget, asked)
        allowed = [row for row in trials if scheme != "pfels-plus" or row[1] <= most]
        if scheme == "pfels":
            most = trials[0][1]
        if not allowed:
            sys.exit(f"{scheme}: no setting takes as little energy as {most:.3g}; let more of them be silent")
        _, _, chosen = allowed[0]
        runs = points(asked.preset, chosen, budget, [int(s) for s in asked.seeds.split(",")], asked.out / "runs")
        row = aggregate(run_points(runs, jobs=asked.jobs))
        rows[scheme] = {
            "learning_rate": chosen["training.learning_rate"],
            "ratio": chosen["compression.ratio"],
            "silent_below": chosen.get("channel.silent_below", 0.0),
            "tried": len(trials),
            "within_energy": len(allowed),
            **{key: row[key] for key in ("accuracy", "energy", "subcarriers", "privacy")},
        }
        got = rows[scheme]
        spent = f"{got['energy']['mean']:.3g}" if got["energy"] else "–"
        print(
            f"{scheme:12} accuracy {spread(got['accuracy'], '.4f')}  energy {spent}  "
            f"η {got['learning_rate']:g}  p {got['ratio']:g}  silent below {got['silent_below']:g}  "
            f"ε server {got['privacy']['server']['epsilon']}  ε outsider {got['privacy']['outsider']['epsilon']}",
            flush=True,
        )
    name = f"plus-{asked.preset}-{asked.adversary.value}-{asked.total_epsilon:g}"
    about = {"preset": asked.preset, "budget": budget.settings(), "seeds": asked.seeds, "schemes": rows}
    asked.out.mkdir(parents=True, exist_ok=True)
    print("\n".join(write(about, "table", asked.out / name)))


if __name__ == "__main__":
    main()
