"""Trained points of the paper's figures: each at its own best learning rate, each seed a run that can be resumed."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from pfels.config.load import load_config
from pfels.errors import InputError
from pfels.experiment.directory import point_name
from pfels.experiment.loop import run
from pfels.paper.stand_ins import TUNING_SEEDS, Study
from pfels.runtime.processes import Report
from pfels.studies.aggregate import spread
from pfels.studies.sweep import Point, run_points

Watch = Callable[[Sequence[Point]], AbstractContextManager[Report]]


@dataclass(frozen=True)
class Trial:
    """One point: what it sets, the learning rate that it was found to need, and the finished runs of its seeds."""

    settings: Mapping[str, Any]
    learning_rate: float
    at_edge: bool
    points: Sequence[Point]
    summaries: Sequence[Mapping[str, Any]]

    def records(self) -> list[list[dict[str, Any]]]:
        """The record of every round, for each seed."""
        return [run(point.config, point.path).records for point in self.points]


def run_trials(
    study: Study, settings: Sequence[Mapping[str, Any]], *, seeds: Sequence[int], jobs: int, out: Path, watch: Watch
) -> list[Trial]:
    """Every setting at the learning rate with the best mean final accuracy over the tuning seeds, run for all seeds.

    Runs are kept under `out` by preset and settings, so figures and tables share the ones they have in common.
    """
    if set(seeds) & set(TUNING_SEEDS):
        raise InputError(f"--seeds: {TUNING_SEEDS[0]} and {TUNING_SEEDS[1]} are kept for choosing learning rates")
    rates = study.learning_rates
    chosen = [rates[0]] * len(settings)
    if len(rates) > 1:
        tries = [[_points(study, each, rate, TUNING_SEEDS, out) for rate in rates] for each in settings]
        finished = iter(_run([p for by_rate in tries for some in by_rate for p in some], jobs, watch))
        for i, by_rate in enumerate(tries):
            means = [statistics.fmean(next(finished)["accuracy"] for _ in some) for some in by_rate]
            chosen[i] = rates[means.index(max(means))]
    runs = [_points(study, each, rate, seeds, out) for each, rate in zip(settings, chosen, strict=True)]
    finished = iter(_run([point for some in runs for point in some], jobs, watch))
    return [
        Trial(each, rate, _at_edge(rate, rates), some, [next(finished) for _ in some])
        for each, rate, some in zip(settings, chosen, runs, strict=True)
    ]


def _run(points: Sequence[Point], jobs: int, watch: Watch) -> list[dict[str, Any]]:
    with watch(points) as report:
        return run_points(points, jobs=jobs, report=report)


def _points(study: Study, settings: Mapping[str, Any], rate: float, seeds: Sequence[int], out: Path) -> list[Point]:
    folder = out / point_name({"preset": study.preset, **study.overrides})
    points = []
    for seed in seeds:
        every = {**settings, "training.learning_rate": rate, "seed": seed}
        points.append(Point(every, load_config(study.preset, {**study.overrides, **every}), folder / point_name(every)))
    return points


def _at_edge(rate: float, rates: Sequence[float]) -> bool:
    return len(rates) > 1 and rate in (min(rates), max(rates))


def curve(trial: Trial, *, dimension: int) -> list[dict[str, Any]]:
    """The training at every evaluated round: means over the seeds, and what it had used up by then.

    The training loss is the mean over the rounds since the evaluation before.
    """
    seeds = trial.records()
    marks = [record["round"] for record in seeds[0] if record["test_accuracy"] is not None]
    spent = [[record["energy"] for record in run] for run in seeds]
    used = [list(accumulate(record["subcarriers"] for record in run)) for run in seeds]
    points, before = [], -1
    for mark in marks:
        passed = [record["train_loss"] for run in seeds for record in run[before + 1 : mark + 1]]
        losses = [loss for loss in passed if loss is not None]
        accuracies = [run[mark]["test_accuracy"] for run in seeds]
        energies = [math.fsum(run[: mark + 1]) for run in spent]
        subcarriers = statistics.fmean(run[mark] for run in used)
        points.append(
            {
                "round": mark + 1,
                "subcarriers": round(subcarriers / dimension, 3),
                "energy": spread(energies),
                "train_loss": statistics.fmean(losses) if losses else None,
                "accuracy": spread(accuracies),
            }
        )
        before = mark
    return points
