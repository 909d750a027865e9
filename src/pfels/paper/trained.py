"""The paper's tables and figures with training, each point at its own best learning rate."""

from collections.abc import Iterator, Sequence

from pfels.documents.paper import SchemeFigures, SeedSpread, TrainedCurvePoint, TrainedPoint
from pfels.paper.benchmarks import RATIOS, SCHEMES
from pfels.paper.seeds import known_over_seeds, over_seeds
from pfels.paper.stand_ins import StandIn
from pfels.paper.trials import PointSettings, TunedPoint, curve
from pfels.schemes.registry import scheme_entry
from pfels.studies.aggregate import aggregate


def settings(kind: str, stand_in: StandIn) -> list[PointSettings]:
    """What the points of a target set, each once: WFL-P makes no claim of ε, so one point serves every ε."""
    benchmark = stand_in.benchmark
    if kind == "compression":
        epsilon = stand_in.epsilon(benchmark.compression_epsilon)
        return [PointSettings("pfels", ratio, epsilon) for ratio in RATIOS]
    points = []
    for name in SCHEMES:
        every = kind == "privacy" and scheme_entry(name).claims
        for epsilon in benchmark.epsilons if every else (benchmark.epsilon,):
            points.append(PointSettings(name, stand_in.ratio, stand_in.epsilon(epsilon)))
    return points


def table(found: Sequence[TunedPoint]) -> dict[str, SchemeFigures]:
    """One row per scheme, over the seeds."""
    return {point.settings.scheme: _row(point) for point in found}


def _row(point: TunedPoint) -> SchemeFigures:
    row = aggregate(point.summaries)
    return {
        "ratio": point.settings.ratio,
        "epsilon": point.settings.epsilon,
        "learning_rate": point.learning_rate,
        "learning_rate_at_edge": point.at_edge,
        "accuracy": _accuracy(point),
        "loss": _loss(point),
        "energy": _energy(point),
        "subcarriers": round(row["subcarriers"] / row["dimension"], 3),
        "privacy": row["privacy"],
        "subcarriers_total": row["subcarriers"],
        "airtime_s": row["airtime_s"],
    }


def curves(stand_in: StandIn, found: Sequence[TunedPoint]) -> list[TrainedCurvePoint]:
    """The points of fig-training and fig-energy."""
    return [point for each in found for point in curve(each, stand_in)]


def compression(stand_in: StandIn, found: Sequence[TunedPoint]) -> list[TrainedPoint]:
    """The points of fig-compression."""
    return [_point(stand_in, each) for each in found]


def privacy(stand_in: StandIn, found: Sequence[TunedPoint]) -> Iterator[TrainedPoint]:
    """The points of fig-privacy, each with the paper's ε that it is the equivalent of; WFL-P's is used at every ε."""
    points = [_point(stand_in, each) for each in found]
    for printed in stand_in.benchmark.epsilons:
        epsilon = stand_in.epsilon(printed)
        for point in points:
            if point["epsilon"] == epsilon or not scheme_entry(point["scheme"]).claims:
                yield {**point, "epsilon": epsilon, "printed_epsilon": printed}


def _point(stand_in: StandIn, point: TunedPoint) -> TrainedPoint:
    row = aggregate(point.summaries)
    return {
        "benchmark": stand_in.benchmark.title,
        "preset": stand_in.preset,
        "scheme": point.settings.scheme,
        "ratio": point.settings.ratio,
        "epsilon": point.settings.epsilon,
        "learning_rate": point.learning_rate,
        "learning_rate_at_edge": point.at_edge,
        "accuracy": _accuracy(point),
        "loss": _loss(point),
        "energy": _energy(point),
        "subcarriers": round(row["subcarriers"] / row["dimension"], 3),
        "privacy": row["privacy"],
    }


def _accuracy(point: TunedPoint) -> SeedSpread:
    return over_seeds([run["accuracy"] for run in point.summaries])


def _loss(point: TunedPoint) -> SeedSpread | None:
    return known_over_seeds([run["loss"] for run in point.summaries])


def _energy(point: TunedPoint) -> SeedSpread:
    energy = known_over_seeds([run["energy"] for run in point.summaries])
    assert energy is not None, "the paper's schemes all transmit over the air"
    return energy
