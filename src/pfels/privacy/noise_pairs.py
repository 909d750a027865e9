"""Noise vectors in pairs: are they independent of each other?"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import Reals
from pfels.privacy import tails
from pfels.privacy.noise_batch import Labels, Least, NoiseBatch, Singles, chosen, paired
from pfels.privacy.noise_vectors import FEWEST, add_cosines, unit

Places = NDArray[np.int64]
KEPT = 2**25  # numbers of all vectors that are kept to be compared after the last round
ALL_PAIRS = 2048  # vectors of which all pairs are tried; of more, those of a round, of two in a row, of a device
COLUMNS = 2048  # places of which all pairs are tried
PRODUCTS = 2**32  # that they may take
SAME = 0.999  # a correlation that is called the same vector


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
        yield self._places(rows[:, : min(COLUMNS, math.isqrt(PRODUCTS // len(rows)))])

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
    known = rows != 0
    if known.all():
        return unit(rows) @ unit(rows).T, np.full((len(rows), len(rows)), float(rows.shape[1]))
    there = known.astype(np.float32)
    squares = np.square(rows) @ there.T
    cosines = (rows @ rows.T) / np.sqrt(np.maximum(squares * squares.T, 1e-30))
    return cosines, (there @ there.T).astype(np.float64)
