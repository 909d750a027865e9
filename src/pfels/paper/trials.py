"""Tuned runs: every point of a figure at its own best learning rate, every seed a run that can be resumed."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from pfels.documents.paper import TrainedCurvePoint
from pfels.documents.run import RoundRecord, Summary
from pfels.errors import InputError
from pfels.experiment.directory import point_name
from pfels.experiment.loop import run
from pfels.paper.stand_ins import StandIn
from pfels.seeding import TUNING_SEEDS
from pfels.studies.aggregate import known_over_seeds, over_seeds
from pfels.studies.sweep import Point, Watch, run_points, unwatched


class PointSettings(NamedTuple):
    """What a point of a table or figure sets: the scheme, p and ε."""

    scheme: str
    ratio: float
    epsilon: float

    def named(self) -> dict[str, str | float]:
        """The same by the names of the settings; a scheme that ignores one has it in the names of its runs as well."""
        return {"scheme": self.scheme, "compression.ratio": self.ratio, "privacy.epsilon": self.epsilon}


@dataclass(frozen=True)
class TunedPoint:
    """One point: what it sets, the learning rate chosen for it, and the finished runs of its seeds."""

    settings: PointSettings
    learning_rate: float
    at_edge: bool
    runs: Sequence[Point]
    summaries: Sequence[Summary]

    def records(self) -> list[list[RoundRecord]]:
        """The record of every round, for each seed."""
        return [run(each.config, each.path).records for each in self.runs]


def run_tuned(
    stand_in: StandIn,
    settings: Sequence[PointSettings],
    *,
    seeds: Sequence[int],
    jobs: int,
    out: Path,
    fresh: bool,
    watch: Watch | None,
) -> list[TunedPoint]:
    """Every point at the learning rate with the best mean final accuracy over the tuning seeds, run for all seeds.

    Runs are kept under `out` by preset and settings, so figures and tables share the ones they have in common.
    """
    if set(seeds) & set(TUNING_SEEDS):
        raise InputError(
            f"--seeds: {TUNING_SEEDS[0]} and {TUNING_SEEDS[1]} are reserved for the choice of learning rates"
        )
    rates = stand_in.learning_rates
    chosen = [rates[0]] * len(settings)
    if len(rates) > 1:
        tries = [[_runs(stand_in, each, rate, TUNING_SEEDS, out) for rate in rates] for each in settings]
        finished = iter(_run([point for by_rate in tries for some in by_rate for point in some], jobs, fresh, watch))
        for i, by_rate in enumerate(tries):
            means = [statistics.fmean(next(finished)["accuracy"] for _ in some) for some in by_rate]
            chosen[i] = rates[means.index(max(means))]
    runs = [_runs(stand_in, each, rate, seeds, out) for each, rate in zip(settings, chosen, strict=True)]
    finished = iter(_run([point for some in runs for point in some], jobs, fresh, watch))
    return [
        TunedPoint(each, rate, _at_edge(rate, rates), some, [next(finished) for _ in some])
        for each, rate, some in zip(settings, chosen, runs, strict=True)
    ]


def _run(points: Sequence[Point], jobs: int, fresh: bool, watch: Watch | None) -> list[Summary]:
    with (watch or unwatched)(points) as report:
        return run_points(points, jobs=jobs, fresh=fresh, report=report)


def _runs(stand_in: StandIn, settings: PointSettings, rate: float, seeds: Sequence[int], out: Path) -> list[Point]:
    return [run_of(stand_in, settings, rate, seed, out) for seed in seeds]


def run_of(stand_in: StandIn, settings: PointSettings, rate: float, seed: int, out: Path) -> Point:
    """The run of one seed of a point at a learning rate, and where under `out` it is kept."""
    every = {**settings.named(), "training.learning_rate": rate, "seed": seed}
    folder = out / point_name({"preset": stand_in.preset, **stand_in.overrides})
    return Point(every, stand_in.config(settings.scheme, every), folder / point_name(every))


def _at_edge(rate: float, rates: Sequence[float]) -> bool:
    return len(rates) > 1 and rate in (min(rates), max(rates))


def curve(point: TunedPoint, stand_in: StandIn) -> list[TrainedCurvePoint]:
    """The training at every evaluated round: means over the seeds, and what it had used so far.

    The training loss is the mean over the rounds since the evaluation before.
    """
    seeds, dimension = point.records(), point.summaries[0]["dimension"]
    evaluated = [record["round"] for record in seeds[0] if record["test_accuracy"] is not None]
    spent = [[record["energy"] or 0.0 for record in records] for records in seeds]
    used = [list(accumulate(record["subcarriers"] for record in records)) for records in seeds]
    points: list[TrainedCurvePoint] = []
    before = -1
    for t in evaluated:
        losses = [_mean_loss(records[before + 1 : t + 1]) for records in seeds]
        known = known_over_seeds(losses)
        accuracies = [accuracy for records in seeds if (accuracy := records[t]["test_accuracy"]) is not None]
        points.append(
            {
                "benchmark": stand_in.benchmark.title,
                "preset": stand_in.preset,
                "scheme": point.settings.scheme,
                "learning_rate": point.learning_rate,
                "round": t + 1,
                "subcarriers": round(statistics.fmean(each[t] for each in used) / dimension, 3),
                "energy": over_seeds([math.fsum(each[: t + 1]) for each in spent]),
                "train_loss": None if known is None else known["mean"],
                "train_losses": losses,
                "accuracy": over_seeds(accuracies),
            }
        )
        before = t
    return points


def _mean_loss(records: Sequence[RoundRecord]) -> float | None:
    """The mean training loss of these rounds; None where none has one."""
    losses = [loss for record in records if (loss := record["train_loss"]) is not None]
    return statistics.fmean(losses) if losses else None
