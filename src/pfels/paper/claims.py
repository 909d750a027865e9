"""What the paper says that its tables and figures show, held against the points that were found."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pfels.paper.benchmarks import Benchmark

Points = Sequence[Mapping[str, Any]]
Spread = Mapping[str, float]
CLOSE_ENERGY = 0.06  # how near an energy must come to the printed one
SAME_ACCURACY = 0.01  # how near two accuracies must be to count as the same


@dataclass(frozen=True)
class Bench:
    """Where claims are judged: on which data, over how many seeds."""

    where: str
    seeds: int

    def claim(
        self, text: str, by: float, unit: str, *, strictly: bool = False, error: float | None = None
    ) -> dict[str, Any]:
        """One claim: by how much it holds (less than 0 is how far it is missed), give or take the standard error."""
        holds = by > 0 if strictly else by >= 0
        return {"where": self.where, "claim": text, "holds": holds, "by": by, "standard_error": error, "unit": unit}

    def ahead(self, text: str, one: Spread, other: Spread, *, strictly: bool = False) -> dict[str, Any]:
        """That one mean accuracy is above the other."""
        by = one["mean"] - other["mean"]
        return self.claim(text, by, "accuracy", strictly=strictly, error=self.error(one, other))

    def error(self, one: Spread, other: Spread) -> float | None:
        """The standard error of the difference of two means; one seed tells nothing of it."""
        if self.seeds == 1:
            return None
        return math.hypot(one["std"], other["std"]) / math.sqrt(self.seeds)


def _best(spreads: Iterable[Spread]) -> Spread:
    return max(spreads, key=lambda spread: spread["mean"])


def of_table(bench: Bench, rows: Mapping[str, Mapping[str, Any]], *, full_scale: bool) -> Iterator[dict[str, Any]]:
    """The orders of a table, and at the paper's scale its very numbers."""
    energy = {name: row["energy"]["mean"] for name, row in rows.items()}
    if full_scale:
        off = max(abs(row["difference"]["energy"]) for row in rows.values())
        text = f"every energy is within {CLOSE_ENERGY:.0%} of the printed one"
        yield bench.claim(text, CLOSE_ENERGY - off, "share of the printed energy")
        off = max(abs(row["difference"]["subcarriers"]) for row in rows.values())
        yield bench.claim("subcarriers are those printed, to half a d", 0.5 - off, "d")
    saved = 1 - energy["pfels"] / min(energy["wfl-p"], energy["wfl-pdp"])
    yield bench.claim("PFELS takes the least energy", saved, "share of the next energy", strictly=True)
    saved = 1 - energy["wfl-pdp"] / energy["wfl-p"]
    yield bench.claim("WFL-PDP takes less energy than WFL-P", saved, "share of WFL-P's energy", strictly=True)
    accuracy = {name: row["accuracy"] for name, row in rows.items()}
    if None not in accuracy.values():
        others = _best([accuracy["wfl-p"], accuracy["wfl-pdp"]])
        yield bench.ahead("PFELS is the most accurate", accuracy["pfels"], others, strictly=True)
        yield bench.ahead("WFL-P is at least as accurate as WFL-PDP", accuracy["wfl-p"], accuracy["wfl-pdp"])


def of_compression(bench: Bench, points: Points) -> Iterator[dict[str, Any]]:
    """Accuracy first rises and then falls with p."""
    accuracy = {point["ratio"]: point["accuracy"] for point in points}
    low, high = min(accuracy), max(accuracy)
    best = max(accuracy, key=lambda ratio: accuracy[ratio]["mean"])
    inner = _best(found for ratio, found in accuracy.items() if low < ratio < high)
    ends = _best([accuracy[low], accuracy[high]])
    yield bench.ahead(f"the best p (here {best:g}) is an inner one", inner, ends, strictly=True)


def of_bounds(bench: Bench, points: Points, preferred: float, printed: float) -> Iterator[dict[str, Any]]:
    """The convergence bound has its least value at an inner p."""
    by = min(preferred - points[0]["ratio"], points[-1]["ratio"] - preferred)
    text = (
        f"the convergence bound, for the losses that `plan` assumes, prefers a p (here {preferred:.2g}) inside the "
        f"figure, as the experiments did ({printed:g})"
    )
    yield bench.claim(text, by, "p", strictly=True)


def of_privacy(bench: Bench, points: Points, benchmark: Benchmark) -> Iterator[dict[str, Any]]:
    """PFELS above WFL-PDP everywhere, WFL-PDP up to WFL-P, PFELS above WFL-P once the limit is loose."""
    at = {(p["scheme"], p["printed_epsilon"]): p["accuracy"] for p in points}
    grid = sorted({printed for _, printed in at})

    def worst(one: str, other: str, *, least: float) -> float:
        among = [e for e in grid if e >= least]
        return float(min(among, key=lambda e: at[one, e]["mean"] - at[other, e]["mean"]))

    e = worst("pfels", "wfl-pdp", least=0.0)
    text = f"PFELS is at least as accurate as WFL-PDP at every ε (worst at the place of ε = {e:g})"
    yield bench.ahead(text, at["pfels", e], at["wfl-pdp", e])
    for scheme, name in (("pfels", "PFELS"), ("wfl-pdp", "WFL-PDP")):
        text = f"{name} gains accuracy as ε grows"
        yield bench.ahead(text, at[scheme, grid[-1]], at[scheme, grid[0]], strictly=True)
    e = worst("wfl-pdp", "wfl-p", least=benchmark.same_from)
    apart, text = at["wfl-p", e]["mean"] - at["wfl-pdp", e]["mean"], "WFL-PDP is as accurate as WFL-P"
    yield bench.claim(
        f"{text}, to {SAME_ACCURACY:g}, from the place of ε = {benchmark.same_from:g} on",
        SAME_ACCURACY - abs(apart), "accuracy", error=bench.error(at["wfl-p", e], at["wfl-pdp", e]),
    )  # fmt: skip
    e = worst("pfels", "wfl-p", least=benchmark.ahead_from)
    text = f"PFELS is more accurate than WFL-P from the place of ε = {benchmark.ahead_from:g} on (worst at {e:g})"
    yield bench.ahead(text, at["pfels", e], at["wfl-p", e], strictly=True)


def of_levels(bench: Bench, points: Points, benchmark: Benchmark) -> Iterator[dict[str, Any]]:
    """Where the privacy limit no longer binds, WFL-PDP is WFL-P."""
    bound = max(
        p["privacy_limited_share"] for p in points if p["scheme"] == "wfl-pdp" and p["epsilon"] >= benchmark.same_from
    )
    text = f"WFL-PDP's level is WFL-P's in most rounds from ε = {benchmark.same_from:g} on"
    yield bench.claim(text, 0.5 - bound, "share of rounds", strictly=True)


def of_curves(bench: Bench, points: Points, axis: str) -> Iterator[dict[str, Any]]:
    """How much of `axis` it takes to get to WFL-PDP's final accuracy."""
    final = max((p["round"], p["accuracy"]["mean"]) for p in points if p["scheme"] == "wfl-pdp")[1]
    unit = "subcarriers, in d" if axis == "subcarriers" else axis
    taken = {name: _taken(points, name, final, axis) for name in ("pfels", "wfl-p", "wfl-pdp")}
    others = min(taken["wfl-p"], taken["wfl-pdp"])
    yield bench.claim(f"PFELS is the first, by {axis}, at WFL-PDP's final accuracy", others - taken["pfels"], unit)
    if axis == "round":
        yield bench.claim("WFL-P is there no later than WFL-PDP", taken["wfl-pdp"] - taken["wfl-p"], unit)


def _taken(points: Points, scheme: str, accuracy: float, axis: str) -> float:
    """What a scheme had used up when it first had this accuracy; all it used, and as much again, where it never had."""
    mine = [p for p in points if p["scheme"] == scheme]
    used = [p[axis]["mean"] if axis == "energy" else p[axis] for p in mine]
    for point, amount in zip(mine, used, strict=True):
        if point["accuracy"]["mean"] >= accuracy:
            return float(amount)
    return 2.0 * float(used[-1])
