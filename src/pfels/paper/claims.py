"""The paper's claims about its tables and figures, each judged by differences seed by seed."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pfels.documents.paper import Claim, LinkPoint, MatchedPoint, Printed, SeedSpread, TrainedPoint
from pfels.paper.benchmarks import NAMES, Benchmark
from pfels.paper.printed import Measured
from pfels.studies.verdicts import Margin, Verdict, exactly, margin, paired

CLOSE_ENERGY = 0.06  # an energy this close to the printed one counts as reproduced
SAME_ACCURACY = 0.01  # two accuracies this close count as the same
RIVALS = ("wfl-p", "wfl-pdp")


def judged(where: str, text: str, by: Margin | None, unit: str) -> Claim:
    """A claim with its verdict and margin; without a margin, because a run diverged, it is undecided."""
    verdict = Verdict.UNDECIDED if by is None else by.verdict
    return {
        "where": where,
        "claim": text,
        "verdict": verdict.value,
        "by": None if by is None else by.by,
        "standard_error": None if by is None else by.error,
        "unit": unit,
    }


def ahead(where: str, text: str, one: SeedSpread, other: SeedSpread) -> Claim:
    """The claim that one accuracy is above the other."""
    return judged(where, text, paired(one["values"], other["values"]), "accuracy")


def of_table(where: str, found: Mapping[str, Measured], printed: Mapping[str, Printed] | None) -> Iterator[Claim]:
    """The order of the schemes in a table, and at the paper's own settings the values `printed` there."""
    energy = {name: row.energy["values"] for name, row in found.items()}
    if printed is not None:
        yield _near_the_printed(where, energy, printed)
        off = max(abs(row.subcarriers - printed[name]["subcarriers"]) for name, row in found.items())
        yield judged(where, "channel uses are those printed, to half a d", exactly(0.5 - off), "d")
    rival = min(RIVALS, key=lambda name: found[name].energy["mean"])
    saved = _saved(energy["pfels"], energy[rival])
    yield judged(where, "PFELS uses the least energy", saved, f"share of {NAMES[rival]}'s energy")
    saved = _saved(energy["wfl-pdp"], energy["wfl-p"])
    yield judged(where, "WFL-PDP uses less energy than WFL-P", saved, "share of WFL-P's energy")
    accuracy = {name: row.accuracy for name, row in found.items() if row.accuracy is not None}
    if len(accuracy) == len(found):
        rival = max(RIVALS, key=lambda name: accuracy[name]["mean"])
        text = f"PFELS is the most accurate (best rival: {NAMES[rival]})"
        yield ahead(where, text, accuracy["pfels"], accuracy[rival])
        yield ahead(where, "WFL-P is at least as accurate as WFL-PDP", accuracy["wfl-p"], accuracy["wfl-pdp"])
        yield lowest(where, "PFELS has the lowest test loss", {name: row.loss for name, row in found.items()})


def _near_the_printed(where: str, energy: Mapping[str, Sequence[float]], printed: Mapping[str, Printed]) -> Claim:
    """Every energy is close to the printed one: judged for the scheme that is farthest off."""
    relative = {name: margin([e / printed[name]["energy"] for e in values]) for name, values in energy.items()}
    off = {name: abs(mean.by - 1) for name, mean in relative.items()}
    worst = max(off, key=lambda name: off[name])
    text = f"every energy is within {CLOSE_ENERGY:.0%} of the printed one (farthest off: {NAMES[worst]})"
    by = Margin(CLOSE_ENERGY - off[worst], relative[worst].error)
    return judged(where, text, by, "share of the printed energy")


def _saved(one: Sequence[float], other: Sequence[float]) -> Margin:
    """The share of the other's energy that one does not use, seed by seed."""
    return margin([1 - a / b for a, b in zip(one, other, strict=True)])


def lowest(where: str, text: str, losses: Mapping[str, SeedSpread | None]) -> Claim:
    """The claim that PFELS has the lowest loss; None stands for a run that diverged, and leaves it undecided."""
    known = {name: loss for name, loss in losses.items() if loss is not None}
    if len(known) < len(losses):
        return judged(where, text, None, "loss")
    rival = min(RIVALS, key=lambda name: known[name]["mean"])
    by = paired(known[rival]["values"], known["pfels"]["values"])
    return judged(where, f"{text} (best rival: {NAMES[rival]})", by, "loss")


def of_compression(where: str, points: Sequence[TrainedPoint]) -> Iterator[Claim]:
    """Accuracy first rises and then falls with p. The best p are chosen on the first half of the seeds and judged on
    the others, since the best of several looks better than it is on the seeds that chose it; one seed decides nothing.
    """
    accuracy = {point["ratio"]: point["accuracy"]["values"] for point in points}
    low, high = min(accuracy), max(accuracy)
    first = len(accuracy[low]) // 2

    def best(ratios: Iterable[float]) -> float:
        return max(ratios, key=lambda ratio: statistics.fmean(accuracy[ratio][: first or 1]))

    inner, end = best(p for p in accuracy if low < p < high), best((low, high))
    text = f"the best p is neither the smallest nor the largest (p = {inner:g} against p = {end:g}"
    text += ", chosen on the first half of the seeds, judged on the others)" if first else ")"
    yield judged(where, text, paired(accuracy[inner][first:], accuracy[end][first:]), "accuracy")


def of_bounds(where: str, ratios: Sequence[float], preferred: float, printed: float) -> Iterator[Claim]:
    """The convergence bound is minimal at a p inside the figure."""
    text = (
        f"the convergence bound, with the losses that `plan` assumes, is minimal at a p inside the figure (here "
        f"{preferred:.2g}), as in the experiments ({printed:g})"
    )
    yield judged(where, text, exactly(min(preferred - min(ratios), max(ratios) - preferred)), "p")


def of_privacy(where: str, points: Sequence[TrainedPoint], benchmark: Benchmark) -> Iterator[Claim]:
    """PFELS above WFL-PDP everywhere, WFL-PDP up to WFL-P, PFELS above WFL-P where ε is large."""
    at = {(point["scheme"], point["printed_epsilon"]): point["accuracy"] for point in points}
    grid = sorted({printed for _, printed in at})

    def lead(one: str, other: str, e: float) -> Margin:
        return paired(at[one, e]["values"], at[other, e]["values"])

    def worst(one: str, other: str, *, start: float) -> float:
        """The ε from `start` on where one scheme is ahead of the other by the minimum."""
        return min((e for e in grid if e >= start), key=lambda e: lead(one, other, e).by)

    e = worst("pfels", "wfl-pdp", start=0.0)
    text = f"PFELS is at least as accurate as WFL-PDP at every ε (worst at the equivalent of ε = {e:g})"
    yield ahead(where, text, at["pfels", e], at["wfl-pdp", e])
    for scheme in ("pfels", "wfl-pdp"):
        text = f"{NAMES[scheme]} gains accuracy as ε grows"
        yield ahead(where, text, at[scheme, grid[-1]], at[scheme, grid[0]])
    start = benchmark.same_from
    apart = max((lead("wfl-p", "wfl-pdp", e) for e in grid if e >= start), key=lambda each: abs(each.by))
    text = f"WFL-PDP is as accurate as WFL-P, to {SAME_ACCURACY:g}, from the equivalent of ε = {start:g} on"
    yield judged(where, text, Margin(SAME_ACCURACY - abs(apart.by), apart.error), "accuracy")
    e = worst("pfels", "wfl-p", start=benchmark.ahead_from)
    text = f"PFELS is more accurate than WFL-P from the equivalent of ε = {benchmark.ahead_from:g} on (worst at {e:g})"
    yield ahead(where, text, at["pfels", e], at["wfl-p", e])


def of_levels(where: str, points: Sequence[LinkPoint], benchmark: Benchmark) -> Iterator[Claim]:
    """Where the privacy limit is no longer active, WFL-PDP is WFL-P."""
    start = benchmark.same_from
    limited = [p["privacy_limited_shares"] for p in points if p["scheme"] == "wfl-pdp" and p["epsilon"] >= start]
    worst = max(limited, key=statistics.fmean)
    text = f"WFL-PDP has the same β as WFL-P in most rounds from ε = {start:g} on"
    yield judged(where, text, margin([0.5 - share for share in worst]), "share of rounds")


def of_matched(where: str, points: Sequence[MatchedPoint]) -> Iterator[Claim]:
    """Compression costs PFELS nothing: it has no more noise than WFL-PDP that makes the same progress."""
    worst = max(points, key=lambda point: point["noise_power_ratio"]["mean"])
    text = f"PFELS has no more noise than WFL-PDP at equal mean progress (worst at ε = {worst['epsilon']:g})"
    by = margin([1 - ratio for ratio in worst["noise_power_ratio"]["values"]])
    yield judged(where, text, by, "share of WFL-PDP's noise power")
