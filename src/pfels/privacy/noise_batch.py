"""The noise of one round in units of what is stated of it, and the least of many p-values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import DeviceIds, Reals
from pfels.seeding import Purpose, generator

Singles = NDArray[np.float32]
RECEIVER = -1  # the owner of what the receiver adds; all others are devices
_PLACES = 3  # the round of the address of what `chosen` draws


@dataclass(frozen=True)
class NoiseBatch:
    """The noise vectors of a round, one row each, divided by their stated standard deviations: white, if all is well.

    `owners` says whose each row is, and `coordinates` what each column stands for (None: itself). `again` is the noise
    of the same round under another seed. `signals` are the vectors to which the noise was added, one per row, and
    `other` is one that the noise of every row must know nothing of either. `rounding` is what float32 may add to or
    take from a number of each row.
    """

    round: int
    owners: DeviceIds
    rows: Singles
    again: Singles
    signals: Singles
    other: Singles | None
    rounding: Reals
    coordinates: NDArray[np.int64] | None = None

    def columns(self, places: NDArray[np.int64]) -> "NoiseBatch":
        """The same on some of its places."""
        rest = places if self.coordinates is None else self.coordinates[places]
        other = None if self.other is None else self.other[places]
        return replace(
            self, rows=self.rows[:, places], again=self.again[:, places], signals=self.signals[:, places],
            other=other, coordinates=rest,
        )  # fmt: skip

    def of(self, row: int) -> str:
        """A row in words."""
        return named(int(self.owners[row]), self.round)


def chosen(width: int, count: int) -> NDArray[np.int64]:
    """So many of the places of a vector, spread at random and always the same; all, if there are no more."""
    if width <= count:
        return np.arange(width)
    places = generator(0, Purpose.CANARY, round=_PLACES, device=width).choice(width, count, replace=False)
    return np.sort(places).astype(np.int64)


def named(owner: int, round: int | None = None) -> str:
    """Whose noise it is, and of which round, counted from 1."""
    who = "the receiver noise" if owner == RECEIVER else f"the noise of device {owner}"
    return who if round is None else f"{who} of round {round + 1}"


@dataclass
class Least:
    """The smallest of many p-values, how many there were, and what was seen there."""

    p: float = 1.0
    count: int = 0
    saw: str = ""

    def add(self, p: Reals, say: Callable[[int], str], *, among: int | None = None) -> None:
        """Some more of them; `among`: the smallest of so many."""
        if not p.size:
            return
        self.count += p.size if among is None else among
        at = int(np.argmin(p))
        if float(p.flat[at]) < self.p:
            self.p, self.saw = float(p.flat[at]), say(at)

    @property
    def corrected(self) -> float:
        """The smallest, times their number (Bonferroni)."""
        return min(1.0, self.p * self.count)


@dataclass(frozen=True)
class Finding:
    """What a check found: its p-value, corrected for all comparisons it made, how many they were, and what it saw."""

    check: str
    p: float
    compared: int
    saw: str


class NoiseCheck(Protocol):
    """A question about all noise of a training."""

    name: str

    def add(self, batch: NoiseBatch) -> None:
        """The noise of one more round."""

    def families(self) -> Iterable[Least]:
        """The p-values after the last round, in families that share the error rate evenly."""


def finding(check: NoiseCheck) -> Finding:
    """The least p-value of a check's families, each corrected for its own size and for their number."""
    families = [family for family in check.families() if family.count]
    if not families:
        return Finding(check.name, 1.0, 0, "")
    least = min(families, key=lambda family: family.corrected)
    compared = sum(family.count for family in families)
    return Finding(check.name, min(1.0, least.corrected * len(families)), compared, least.saw)


@dataclass
class Totals:
    """Numbers added up by index, in arrays that grow."""

    values: Reals = field(default_factory=lambda: np.zeros(0))

    def add(self, index: NDArray[np.int64], numbers: Reals) -> None:
        """Add numbers to the totals at these indices, of which each may come more than once."""
        if not len(index):
            return
        size = int(index.max()) + 1
        if size > len(self.values):
            self.values = np.concatenate([self.values, np.zeros(size - len(self.values))])
        self.values[:size] += np.bincount(index, numbers, minlength=size)


@dataclass
class Labels:
    """Whose vectors they are, and of which rounds."""

    owners: list[int] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)

    def add(self, batch: NoiseBatch) -> None:
        """Those of one more round."""
        self.owners += batch.owners.tolist()
        self.rounds += [batch.round] * len(batch.owners)

    def pair(self, i: int, j: int, what: str) -> str:
        """Two of them in words, and what they are."""
        return paired((self.owners[i], self.rounds[i]), (self.owners[j], self.rounds[j]), what)


def paired(one: tuple[int, int], other: tuple[int, int], what: str) -> str:
    """Two vectors, by owner and round, and what they are.

    >>> paired((-1, 2), (-1, 6), "the same vector")
    'the receiver noise of rounds 3 and 7 is the same vector'
    """
    (a, s), (b, t) = sorted((one, other), key=lambda each: (each[1], each[0]))
    if a == b == RECEIVER:
        return f"the receiver noise of rounds {s + 1} and {t + 1} is {what}"
    if a == b:
        return f"the noise of device {a} in rounds {s + 1} and {t + 1} is {what}"
    if s == t:
        return f"the noise of devices {a} and {b} in round {s + 1} is {what}"
    return f"the noise of device {a} in round {s + 1} and of device {b} in round {t + 1} is {what}"
