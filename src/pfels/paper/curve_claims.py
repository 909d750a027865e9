"""The claims about training curves: what each scheme needs to get as far as WFL-PDP gets, seed by seed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from pfels.documents.paper import Claim, TrainedCurvePoint
from pfels.paper.benchmarks import NAMES, SCHEMES
from pfels.paper.claims import RIVALS, judged, lowest
from pfels.paper.curves import LABELS, used_by
from pfels.paper.seeds import known_over_seeds
from pfels.studies.verdicts import paired

FEWEST = {"round": "fewest rounds", "subcarriers": "fewest channel uses", "energy": "least energy"}

Curves = Mapping[str, Sequence[TrainedCurvePoint]]
Merit = Callable[[TrainedCurvePoint, int], float | None]  # of one seed at one point; higher is better


def _accuracy(point: TrainedCurvePoint, seed: int) -> float | None:
    return point["accuracy"]["values"][seed]


def _minus_loss(point: TrainedCurvePoint, seed: int) -> float | None:
    loss = point["train_losses"][seed]
    return None if loss is None else -loss


MERITS: dict[str, Merit] = {"accuracy": _accuracy, "training loss": _minus_loss}


class Needs(NamedTuple):
    """What every seed of each scheme needs, and in how many seeds PFELS never got there."""

    by_scheme: dict[str, list[float]]
    missed: int


def of_curves(where: str, points: Sequence[TrainedCurvePoint], axes: Sequence[str]) -> Iterator[Claim]:
    """Who ends with the lowest training loss, and what each scheme needs to reach WFL-PDP's accuracy and loss."""
    curves = {name: [point for point in points if point["scheme"] == name] for name in SCHEMES}
    ends = {name: known_over_seeds(curve[-1]["train_losses"]) for name, curve in curves.items()}
    yield lowest(where, "PFELS ends with the lowest training loss", ends)
    for axis in axes:
        for measure, merit in MERITS.items():
            yield from _of_needs(where, _needs(curves, merit, axis), axis, measure)


def _of_needs(where: str, needs: Needs | None, axis: str, measure: str) -> Iterator[Claim]:
    """PFELS needs the minimum, and WFL-P is no later than WFL-PDP."""
    text, unit = f"PFELS needs the {FEWEST[axis]} to reach WFL-PDP's final {measure}", LABELS[axis]
    if needs is None:
        yield judged(where, text, None, unit)
        return
    need, seeds = needs.by_scheme, len(needs.by_scheme["pfels"])
    rival = min(RIVALS, key=lambda name: fmean(need[name]))
    missed = f"; PFELS never reached it in {needs.missed} of {seeds} seeds" if needs.missed else ""
    yield judged(where, f"{text} (best rival: {NAMES[rival]}{missed})", paired(need[rival], need["pfels"]), unit)
    if axis == "round" and measure == "accuracy":
        text = "WFL-P reaches WFL-PDP's final accuracy no later than WFL-PDP"
        yield judged(where, text, paired(need["wfl-pdp"], need["wfl-p"]), unit)


def _needs(curves: Curves, merit: Merit, axis: str) -> Needs | None:
    """What is needed to get as far as the same seed of WFL-PDP in the end; None if that diverged.

    Who never gets there is counted with twice the maximum that any scheme used with this seed, which is
    more than anyone who does.
    """
    end, missed = curves["wfl-pdp"][-1], 0
    needs: dict[str, list[float]] = {name: [] for name in curves}
    for seed in range(len(end["train_losses"])):
        goal = merit(end, seed)
        if goal is None:
            return None
        never = 2.0 * max(used_by(curve[-1], axis, seed) for curve in curves.values())
        for name, curve in curves.items():
            reached = _reached(curve, seed, goal, merit)
            needs[name].append(never if reached is None else used_by(reached, axis, seed))
            missed += name == "pfels" and reached is None
    return Needs(needs, missed)


def _reached(curve: Sequence[TrainedCurvePoint], seed: int, goal: float, merit: Merit) -> TrainedCurvePoint | None:
    """The first point at which a seed got as far as `goal`."""
    for point in curve:
        value = merit(point, seed)
        if value is not None and value >= goal:
            return point
    return None
