"""The paper's claims about its tables and figures, checked against the results."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pfels.documents.paper import BesidePrinted, Claim, LinkPoint, TrainedCurvePoint, TrainedPoint
from pfels.documents.studies import Spread
from pfels.paper.benchmarks import SCHEMES, Benchmark
from pfels.paper.curves import LABELS, used
from pfels.paper.printed import Measured

CLOSE_ENERGY = 0.06  # an energy this close to the printed one counts as reproduced
SAME_ACCURACY = 0.01  # two accuracies this close count as the same
FEWEST = {"round": "fewest rounds", "subcarriers": "fewest channel uses", "energy": "least energy"}


@dataclass(frozen=True)
class Bench:
    """Where claims are checked: on which data, over how many seeds."""

    where: str
    seeds: int

    def claim(self, text: str, by: float, unit: str, *, strictly: bool = False, error: float | None = None) -> Claim:
        """One claim with its margin, which is negative where the claim fails, and the margin's standard error."""
        holds = by > 0 if strictly else by >= 0
        return {"where": self.where, "claim": text, "holds": holds, "by": by, "standard_error": error, "unit": unit}

    def ahead(self, text: str, one: Spread, other: Spread, *, strictly: bool = False) -> Claim:
        """The claim that one mean accuracy is above the other."""
        by = one["mean"] - other["mean"]
        return self.claim(text, by, "accuracy", strictly=strictly, error=self.error(one, other))

    def error(self, one: Spread, other: Spread) -> float | None:
        """The standard error of the difference of two means; unknown for a single seed."""
        if one["std"] is None or other["std"] is None:
            return None
        return math.hypot(one["std"], other["std"]) / math.sqrt(self.seeds)


def _best(spreads: Iterable[Spread]) -> Spread:
    return max(spreads, key=lambda spread: spread["mean"])


def of_table(
    bench: Bench, found: Mapping[str, Measured], beside: Mapping[str, BesidePrinted], *, full_scale: bool
) -> Iterator[Claim]:
    """The order of the schemes in a table, and at the paper's own settings (`full_scale`) the printed values."""
    energy = {name: row.energy["mean"] for name, row in found.items()}
    if full_scale:
        off = _largest(row["difference"]["energy"] for row in beside.values())
        text = f"every energy is within {CLOSE_ENERGY:.0%} of the printed one"
        yield bench.claim(text, CLOSE_ENERGY - off, "share of the printed energy")
        off = _largest(row["difference"]["subcarriers"] for row in beside.values())
        yield bench.claim("channel uses are those printed, to half a d", 0.5 - off, "d")
    saved = 1 - energy["pfels"] / min(energy["wfl-p"], energy["wfl-pdp"])
    yield bench.claim("PFELS uses the least energy", saved, "share of the next lowest energy", strictly=True)
    saved = 1 - energy["wfl-pdp"] / energy["wfl-p"]
    yield bench.claim("WFL-PDP uses less energy than WFL-P", saved, "share of WFL-P's energy", strictly=True)
    accuracy = {name: row.accuracy for name, row in found.items() if row.accuracy is not None}
    if len(accuracy) == len(found):
        others = _best([accuracy["wfl-p"], accuracy["wfl-pdp"]])
        yield bench.ahead("PFELS is the most accurate", accuracy["pfels"], others, strictly=True)
        yield bench.ahead("WFL-P is at least as accurate as WFL-PDP", accuracy["wfl-p"], accuracy["wfl-pdp"])


def _largest(differences: Iterable[float | None]) -> float:
    return max(abs(each) for each in differences if each is not None)


def of_compression(bench: Bench, points: Sequence[TrainedPoint]) -> Iterator[Claim]:
    """Accuracy first rises and then falls with p."""
    accuracy = {point["ratio"]: point["accuracy"] for point in points}
    low, high = min(accuracy), max(accuracy)
    best = max(accuracy, key=lambda ratio: accuracy[ratio]["mean"])
    inner = _best(found for ratio, found in accuracy.items() if low < ratio < high)
    ends = _best([accuracy[low], accuracy[high]])
    text = f"the best p (here {best:g}) is neither the smallest nor the largest"
    yield bench.ahead(text, inner, ends, strictly=True)


def of_bounds(bench: Bench, ratios: Sequence[float], preferred: float, printed: float) -> Iterator[Claim]:
    """The convergence bound is minimal at a p inside the figure."""
    by = min(preferred - min(ratios), max(ratios) - preferred)
    text = (
        f"the convergence bound, with the losses that `plan` assumes, is minimal at a p inside the figure (here "
        f"{preferred:.2g}), as in the experiments ({printed:g})"
    )
    yield bench.claim(text, by, "p", strictly=True)


def of_privacy(bench: Bench, points: Sequence[TrainedPoint], benchmark: Benchmark) -> Iterator[Claim]:
    """PFELS above WFL-PDP everywhere, WFL-PDP up to WFL-P, PFELS above WFL-P where ε is large."""
    at = {(point["scheme"], point["printed_epsilon"]): point["accuracy"] for point in points}
    grid = sorted({printed for _, printed in at})

    def worst(one: str, other: str, *, start: float) -> float:
        """The ε from `start` on where one scheme is the least ahead of the other."""
        among = [e for e in grid if e >= start]
        return min(among, key=lambda e: at[one, e]["mean"] - at[other, e]["mean"])

    e = worst("pfels", "wfl-pdp", start=0.0)
    text = f"PFELS is at least as accurate as WFL-PDP at every ε (worst at the equivalent of ε = {e:g})"
    yield bench.ahead(text, at["pfels", e], at["wfl-pdp", e])
    for scheme, name in (("pfels", "PFELS"), ("wfl-pdp", "WFL-PDP")):
        text = f"{name} gains accuracy as ε grows"
        yield bench.ahead(text, at[scheme, grid[-1]], at[scheme, grid[0]], strictly=True)
    e = worst("wfl-pdp", "wfl-p", start=benchmark.same_from)
    apart = at["wfl-p", e]["mean"] - at["wfl-pdp", e]["mean"]
    yield bench.claim(
        f"WFL-PDP is as accurate as WFL-P, to {SAME_ACCURACY:g}, from the equivalent of "
        f"ε = {benchmark.same_from:g} on",
        SAME_ACCURACY - abs(apart), "accuracy", error=bench.error(at["wfl-p", e], at["wfl-pdp", e]),
    )  # fmt: skip
    e = worst("pfels", "wfl-p", start=benchmark.ahead_from)
    text = f"PFELS is more accurate than WFL-P from the equivalent of ε = {benchmark.ahead_from:g} on (worst at {e:g})"
    yield bench.ahead(text, at["pfels", e], at["wfl-p", e], strictly=True)


def of_levels(bench: Bench, points: Sequence[LinkPoint], benchmark: Benchmark) -> Iterator[Claim]:
    """Where the privacy limit is no longer active, WFL-PDP is WFL-P."""
    limited = max(
        p["privacy_limited_share"] for p in points if p["scheme"] == "wfl-pdp" and p["epsilon"] >= benchmark.same_from
    )
    text = f"WFL-PDP has the same β as WFL-P in most rounds from ε = {benchmark.same_from:g} on"
    yield bench.claim(text, 0.5 - limited, "share of rounds", strictly=True)


def of_curves(bench: Bench, points: Sequence[TrainedCurvePoint], axis: str) -> Iterator[Claim]:
    """How much of `axis` each scheme needs to reach WFL-PDP's final accuracy."""
    final = max((p["round"], p["accuracy"]["mean"]) for p in points if p["scheme"] == "wfl-pdp")[1]
    needed = {name: _needed([p for p in points if p["scheme"] == name], final, axis) for name in SCHEMES}
    others, unit = min(needed["wfl-p"], needed["wfl-pdp"]), LABELS[axis]
    text = f"PFELS needs the {FEWEST[axis]} to reach WFL-PDP's final accuracy"
    yield bench.claim(text, others - needed["pfels"], unit)
    if axis == "round":
        yield bench.claim("WFL-P reaches it no later than WFL-PDP", needed["wfl-pdp"] - needed["wfl-p"], unit)


def _needed(curve: Sequence[TrainedCurvePoint], accuracy: float, axis: str) -> float:
    """What a scheme had used when it first had this accuracy; twice all it used, where it never had."""
    for point in curve:
        if point["accuracy"]["mean"] >= accuracy:
            return used(point, axis)
    return 2.0 * used(curve[-1], axis)
