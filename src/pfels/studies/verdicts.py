"""Whether a difference over seeds is more than chance: paired differences, and two standard errors."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from pfels.documents.studies import Pair

DECISIVE = 2.0  # standard errors that a mean difference must be away from zero


class Verdict(StrEnum):
    """What a difference, or a claim about one, comes to."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"


class Margin(NamedTuple):
    """By how much something is so, below 0 where it is not, and its standard error: None where one seed tells none."""

    by: float
    error: float | None

    @property
    def verdict(self) -> Verdict:
        """Undecided within two standard errors, and always with a single seed."""
        if self.error is None or not abs(self.by) > DECISIVE * self.error:
            return Verdict.UNDECIDED
        return Verdict.HOLDS if self.by > 0 else Verdict.FAILS


def paired(one: Sequence[float], other: Sequence[float]) -> Margin:
    """The mean of one − other seed by seed, and its standard error.

    Runs of one seed share data, cohorts and channels, so what these do to both cancels.

    >>> paired([3.0, 5.0], [2.0, 2.0])
    Margin(by=2.0, error=1.0)
    """
    return margin([a - b for a, b in zip(one, other, strict=True)])


def margin(values: Sequence[float]) -> Margin:
    """The mean of values that are above 0 where something is so, one per seed, and its standard error."""
    several = len(values) > 1
    error = statistics.stdev(values) / math.sqrt(len(values)) if several else None
    return Margin(statistics.fmean(values), error)


def exactly(by: float) -> Margin:
    """A margin that no seed has a part in."""
    return Margin(by, 0.0)


def pairs(accuracies: Mapping[str, Sequence[float]]) -> list[Pair]:
    """Every two schemes, the more accurate first, with their paired difference and whether it is more than chance."""
    order = sorted(accuracies, key=lambda name: -sum(accuracies[name]))
    found: list[Pair] = []
    for better, other in itertools.combinations(order, 2):
        margin = paired(accuracies[better], accuracies[other])
        found.append(
            {
                "better": better,
                "other": other,
                "by": margin.by,
                "standard_error": margin.error,
                "verdict": margin.verdict.value,
            }
        )
    return found
