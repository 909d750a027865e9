"""Noise vectors in pairs: are they independent of each other, and does one hold numbers of another?"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import Reals
from pfels.privacy import tails
from pfels.privacy.noise_batch import RECEIVER, Least, NoiseBatch, Singles, chosen
from pfels.privacy.noise_vectors import FEWEST, add_cosines, unit

Places = NDArray[np.int64]
KEPT = 2**25  # numbers of all vectors that are kept to be compared after the last round
ALL_PAIRS = (
    2048  # vectors of which all pairs are tried; of more, those of one round, of two in a row, and of one device
)
COLUMNS = 2048  # places of which all pairs are tried
SAME = 0.999  # a correlation that is called the same vector
POOLED = 2**21  # numbers of all vectors that are sorted together
CLOSE = 2.0**-20  # sizes of two vectors that are nearer to each other count as equal
TOP = 8  # the largest sizes of a vector, by which a copy is found whatever its order, signs and scale
ALIKE = 1e-6  # ratios of them that are nearer to each other are the same, or that differ by no more than rounding
BLURRED = 2e-5  # vectors whose rounding is beyond that are not tried
COINCIDENCE = 1e-8  # above the probability that any of ten million vectors has the ratios of another by chance


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


def _related(cosine: float) -> str:
    if abs(cosine) < SAME:
        return f"correlated ({cosine:.2f})"
    return "the same vector" if cosine > 0 else "the same vector with opposite sign"


@dataclass
class Pairs:
    """Are vectors independent of each other, place by place and coordinate by coordinate, and places over all vectors?

    Of `expected` vectors in all, each is kept at as many places as fit.
    """

    expected: int
    dimension: int
    name: str = "vectors"
    near: Least = field(default_factory=Least)
    far: Least = field(default_factory=Least)
    labels: Labels = field(default_factory=Labels)
    kept: list[Singles] = field(default_factory=list)
    lifted: list[Singles] = field(default_factory=list)
    places: Places | None = None
    last: NoiseBatch | None = None
    squared: float = 0.0
    pairs: int = 0

    def add(self, batch: NoiseBatch) -> None:
        """The noise of one more round."""
        self.labels.add(batch)
        room = max(16 * FEWEST, KEPT // max(self.expected, 1))
        width = batch.rows.shape[1]
        self.places = chosen(width, room) if self.places is None else self.places
        self.kept.append(_taken(batch.rows, self.places, np.arange(width), self.dimension))
        if self.expected <= ALL_PAIRS:
            if batch.coordinates is not None:
                where = chosen(self.dimension, room)
                self.lifted.append(_taken(batch.rows, where, batch.coordinates, self.dimension))
            return
        self._within(batch)
        if self.last is not None and self.last.rows.shape[1] == width:
            last = self.last
            cosines = unit(last.rows) @ unit(batch.rows).T
            add_cosines(self.near, cosines, width, lambda at: _between(last, batch, cosines, at))
        self.last = batch

    def _within(self, batch: NoiseBatch) -> None:
        """All pairs of one round."""
        width, count = batch.rows.shape[1], len(batch.rows)
        cosines = np.triu(unit(batch.rows) @ unit(batch.rows).T, 1)
        add_cosines(self.near, cosines, width, lambda at: _between(batch, batch, cosines, at))
        self.squared += width * float(np.square(cosines, dtype=np.float64).sum())
        self.pairs += count * (count - 1) // 2

    def families(self) -> Iterator[Least]:
        """After the last round."""
        if not self.kept:
            return
        rows = np.concatenate(self.kept)
        if self.expected <= ALL_PAIRS:
            self._all_pairs(rows, count=True)
            if self.lifted:
                self._all_pairs(np.concatenate(self.lifted), count=False)
        else:
            self._same_owner(rows)
        yield from (self.near, self.far)
        together = Least()
        if self.pairs:
            share = self.squared / self.pairs
            together.add(
                tails.chi_squared(np.array([self.squared]), float(self.pairs)),
                lambda at: f"the squared correlations of all pairs are {share:.3g} times as large as by chance",
            )
        yield together
        yield self._places(rows[:, :COLUMNS])

    def _all_pairs(self, rows: Singles, *, count: bool) -> None:
        cosines, shared = _cosines(rows)
        cosines = np.triu(cosines, 1)
        add_cosines(
            self.far, cosines, shared,
            lambda at: self.labels.pair(*divmod(at, len(rows)), _related(float(cosines.flat[at]))),
        )  # fmt: skip
        if count:
            enough = np.triu(shared >= FEWEST, 1)
            self.squared += float((np.square(cosines, dtype=np.float64) * shared)[enough].sum())
            self.pairs += int(enough.sum())

    def _same_owner(self, rows: Singles) -> None:
        owners = np.array(self.labels.owners)
        order = np.argsort(owners, kind="stable")
        for mine in np.split(order, np.flatnonzero(np.diff(owners[order])) + 1):
            cosines, shared = _cosines(rows[mine])
            cosines = np.triu(cosines, 1)

            def say(at: int, mine: Places = mine, cosines: Singles = cosines) -> str:
                i, j = divmod(at, len(mine))
                return self.labels.pair(int(mine[i]), int(mine[j]), _related(float(cosines.flat[at])))

            add_cosines(self.far, cosines, shared, say)

    def _places(self, rows: Singles) -> Least:
        """All pairs of places, over all vectors."""
        found, width = Least(), rows.shape[1]
        cosines, shared = _cosines(np.ascontiguousarray(rows.T))
        cosines = np.triu(cosines, 1)

        def say(at: int) -> str:
            i, j = divmod(at, width)
            return (
                f"over all vectors, places {i + 1} and {j + 1} of those tried have correlation {cosines.flat[at]:.2f}"
            )

        add_cosines(found, cosines, shared, say)
        return found


def _between(one: NoiseBatch, other: NoiseBatch, cosines: Singles, at: int) -> str:
    i, j = divmod(at, cosines.shape[1])
    first, second = (int(one.owners[i]), one.round), (int(other.owners[j]), other.round)
    return paired(first, second, _related(float(cosines.flat[at])))


def _taken(rows: Singles, wanted: Places, index: Places, dimension: int) -> Singles:
    """The rows, whose columns stand for the places `index`, at the `wanted` places; 0 where they have none."""
    where = np.full(dimension, -1)
    where[index] = np.arange(len(index))
    found = np.zeros((len(rows), len(wanted)), np.float32)
    there = where[wanted] >= 0
    found[:, there] = rows[:, where[wanted[there]]]
    return found


def _cosines(rows: Singles) -> tuple[Singles, Reals]:
    """The cosines between rows over the places where both are known, and how many those are."""
    known = (rows != 0).astype(np.float32)
    squares = np.square(rows) @ known.T
    cosines = (rows @ rows.T) / np.sqrt(np.maximum(squares * squares.T, 1e-30))
    return cosines, (known @ known.T).astype(np.float64)


@dataclass
class Copies:
    """Are numbers of one vector those of another: all of it in another order, with other signs and scale, or a part?"""

    expected: int
    name: str = "copies"
    labels: Labels = field(default_factory=Labels)
    ratios: list[Reals] = field(default_factory=list)
    sizes: list[Singles] = field(default_factory=list)
    blur: list[float] = field(default_factory=list)
    rounding: float = 0.0
    numbers: int = 0

    def add(self, batch: NoiseBatch) -> None:
        """The noise of one more round."""
        if batch.rows.shape[1] < 2 * TOP:
            return
        self.labels.add(batch)
        sizes = np.abs(batch.rows)
        top = -np.sort(-np.partition(sizes, -TOP, axis=1)[:, -TOP:].astype(np.float64), axis=1)
        self.ratios.append(top[:, 1:] / np.maximum(top[:, :-1], 1e-300))
        self.blur += np.maximum(ALIKE, 4 * batch.rounding).tolist()
        self.rounding = max(self.rounding, float(batch.rounding.max(initial=0.0)))
        if self.expected <= ALL_PAIRS:
            room = max(2 * TOP, POOLED // self.expected)
            self.sizes.append(sizes[:, chosen(sizes.shape[1], room)])

    def families(self) -> Iterator[Least]:
        """After the last round."""
        if self.ratios:
            yield self._whole(np.concatenate(self.ratios))
        if len(self.sizes) > 1:
            yield self._parts()

    def _whole(self, ratios: Reals) -> Least:
        """Any two vectors whose largest sizes have the same ratios."""
        found, blur = Least(count=1), np.array(self.blur)
        order = np.argsort(ratios[:, 0], kind="stable")
        order = order[blur[order] <= BLURRED]
        for step in range(1, min(9, len(order))):
            alike = np.abs(ratios[order[step:]] - ratios[order[:-step]]).max(1) <= blur[order[step:]]
            for at in np.flatnonzero(alike)[:1].tolist():
                said = self.labels.pair(
                    int(order[at]), int(order[at + step]), "the same but for order, signs and scale"
                )
                found.add(np.array([COINCIDENCE]), lambda _, said=said: said, among=0)  # type: ignore[misc]
        return found

    def _parts(self) -> Least:
        """Pairs of vectors with equal sizes, among all sizes in order."""
        found, near = Least(), max(CLOSE, 2 * self.rounding)
        lengths = np.array([part.shape[1] for part in self.sizes for _ in part], np.float64)
        whose = np.repeat(np.arange(len(lengths)), lengths.astype(np.int64))
        values = np.concatenate([part.ravel() for part in self.sizes])
        order = np.argsort(values)
        here = np.flatnonzero(np.diff(values[order]) <= near)
        low, high = np.sort(np.stack([whose[order[here]], whose[order[here + 1]]]), axis=0)
        keys, counts = np.unique((low * len(lengths) + high)[low != high], return_counts=True)
        if not len(keys):
            return found
        i, j = np.divmod(keys, len(lengths))
        expected = lengths[i] * lengths[j] * 2 * near / math.sqrt(math.pi)
        found.add(
            tails.poisson(counts.astype(np.float64), expected),
            lambda at: self.labels.pair(int(i[at]), int(j[at]), f"equal in size at {counts[at]} places"),
            among=len(lengths) * (len(lengths) - 1) // 2,
        )
        return found
