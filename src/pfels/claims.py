"""What the paper says that its tables and figures show, held against the points that were found."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pfels.paper import Benchmark

Points = Sequence[Mapping[str, Any]]

CLOSE_ENERGY = 0.06  # how near an energy must come to the printed one
SAME_ACCURACY = 0.01  # how near two accuracies must be to count as the same


def claim(where: str, text: str, *, holds: bool, by: float, unit: str) -> dict[str, Any]:
    """One claim: whether it holds, and by how much (less than 0 is how far it is missed)."""
    return {"where": where, "claim": text, "holds": holds, "by": by, "unit": unit}


def _margin(where: str, text: str, by: float, unit: str, *, strictly: bool = False) -> dict[str, Any]:
    return claim(where, text, holds=by > 0 if strictly else by >= 0, by=by, unit=unit)


def of_table(where: str, rows: Mapping[str, Mapping[str, Any]], *, full_scale: bool) -> Iterator[dict[str, Any]]:
    """The orders of a table, and at the paper's scale its very numbers."""
    energy = {name: row["energy"]["mean"] for name, row in rows.items()}
    if full_scale:
        off = max(abs(row["difference"]["energy"]) for row in rows.values())
        text = f"every energy is within {CLOSE_ENERGY:.0%} of the printed one"
        yield _margin(where, text, CLOSE_ENERGY - off, "share of the printed energy")
        off = max(abs(row["difference"]["subcarriers"]) for row in rows.values())
        yield claim(where, "subcarriers are those printed", holds=off < 0.5, by=-off, unit="d")
    saved = 1 - energy["pfels"] / min(energy["wfl-p"], energy["wfl-pdp"])
    yield _margin(where, "PFELS takes the least energy", saved, "share of the next energy", strictly=True)
    saved = 1 - energy["wfl-pdp"] / energy["wfl-p"]
    yield _margin(where, "WFL-PDP takes less energy than WFL-P", saved, "share of WFL-P's energy", strictly=True)
    if all(row["accuracy"] is not None for row in rows.values()):
        accuracy = {name: row["accuracy"]["mean"] for name, row in rows.items()}
        ahead = accuracy["pfels"] - max(accuracy["wfl-p"], accuracy["wfl-pdp"])
        yield _margin(where, "PFELS is the most accurate", ahead, "accuracy", strictly=True)
        yield _margin(
            where, "WFL-P is at least as accurate as WFL-PDP", accuracy["wfl-p"] - accuracy["wfl-pdp"], "accuracy"
        )


def of_compression(where: str, points: Points) -> Iterator[dict[str, Any]]:
    """Accuracy first rises and then falls with p."""
    accuracy = {point["ratio"]: point["accuracy"]["mean"] for point in points}
    best = max(accuracy, key=lambda ratio: accuracy[ratio])
    inner = max(value for ratio, value in accuracy.items() if min(accuracy) < ratio < max(accuracy))
    ends = max(accuracy[min(accuracy)], accuracy[max(accuracy)])
    yield _margin(where, f"the best p (here {best:g}) is an inner one", inner - ends, "accuracy", strictly=True)


def of_bounds(where: str, points: Points, preferred: float, printed: float) -> Iterator[dict[str, Any]]:
    """The convergence bound has its least value at an inner p."""
    by = min(preferred - points[0]["ratio"], points[-1]["ratio"] - preferred)
    text = f"the convergence bound prefers an inner p (here {preferred:.2f}; the experiments found {printed:g})"
    yield _margin(where, text, by, "p", strictly=True)


def of_privacy(where: str, points: Points, benchmark: Benchmark) -> Iterator[dict[str, Any]]:
    """PFELS above WFL-PDP everywhere, WFL-PDP up to WFL-P, PFELS above WFL-P once the limit is loose."""
    at = {(p["scheme"], p["printed_epsilon"]): p["accuracy"]["mean"] for p in points}
    grid = sorted({printed for _, printed in at})
    worst = min(at["pfels", e] - at["wfl-pdp", e] for e in grid)
    yield _margin(where, "PFELS is at least as accurate as WFL-PDP at every ε", worst, "accuracy")
    for scheme in ("pfels", "wfl-pdp"):
        gain = at[scheme, grid[-1]] - at[scheme, grid[0]]
        yield _margin(where, f"{scheme} gains accuracy as ε grows", gain, "accuracy", strictly=True)
    apart = max(abs(at["wfl-p", e] - at["wfl-pdp", e]) for e in grid if e >= benchmark.same_from)
    text = f"WFL-PDP is as accurate as WFL-P (to {SAME_ACCURACY:g}) from the place of ε = {benchmark.same_from:g} on"
    yield _margin(where, text, SAME_ACCURACY - apart, "accuracy")
    ahead = min(at["pfels", e] - at["wfl-p", e] for e in grid if e >= benchmark.ahead_from)
    text = f"PFELS is more accurate than WFL-P from the place of ε = {benchmark.ahead_from:g} on"
    yield _margin(where, text, ahead, "accuracy", strictly=True)


def of_levels(where: str, points: Points, benchmark: Benchmark) -> Iterator[dict[str, Any]]:
    """Where the privacy limit no longer binds, WFL-PDP is WFL-P."""
    bound = max(
        p["privacy_limited_share"] for p in points if p["scheme"] == "wfl-pdp" and p["epsilon"] >= benchmark.same_from
    )
    text = f"WFL-PDP's level is WFL-P's in 9 of 10 rounds from ε = {benchmark.same_from:g} on"
    yield _margin(where, text, 0.1 - bound, "share of rounds")


def of_curves(where: str, points: Points, axis: str) -> Iterator[dict[str, Any]]:
    """How much of `axis` it takes to get to WFL-PDP's final accuracy."""
    final = max((p["round"], p["accuracy"]["mean"]) for p in points if p["scheme"] == "wfl-pdp")[1]
    unit = "subcarriers, in d" if axis == "subcarriers" else axis
    taken = {name: _taken(points, name, final, axis) for name in ("pfels", "wfl-p", "wfl-pdp")}
    others = min(taken["wfl-p"], taken["wfl-pdp"])
    yield _margin(where, f"PFELS is the first, by {axis}, at WFL-PDP's final accuracy", others - taken["pfels"], unit)
    if axis == "round":
        yield _margin(where, "WFL-P is there no later than WFL-PDP", taken["wfl-pdp"] - taken["wfl-p"], unit)


def _taken(points: Points, scheme: str, accuracy: float, axis: str) -> float:
    """What a scheme had used up when it first had this accuracy; all it used, and as much again, where it never had."""
    mine = [p for p in points if p["scheme"] == scheme]
    used = [p[axis]["mean"] if axis == "energy" else p[axis] for p in mine]
    for point, amount in zip(mine, used, strict=True):
        if point["accuracy"]["mean"] >= accuracy:
            return float(amount)
    return 2.0 * float(used[-1])
