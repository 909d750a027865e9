"""Noise that comes again: sizes within a vector, and the numbers of one vector in another."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pfels.arrays import Reals
from pfels.privacy import tails
from pfels.privacy.noise_batch import Labels, Least, NoiseBatch, Singles, chosen
from pfels.privacy.noise_pairs import ALL_PAIRS
from pfels.privacy.noise_values import WORKED

EQUAL = 2.0**-17  # numbers that are nearer to each other count as equal
SORTED = 2**14  # numbers of a vector that are
POOLED = 2**21  # numbers of all vectors that are sorted together
CLOSE = 2.0**-20  # sizes of two vectors that are nearer to each other count as equal
TOP = 8  # the largest sizes of a vector, by which a copy is found whatever its order, signs and scale
ALIKE = 1e-6  # ratios of them that are nearer to each other are the same, or that differ by no more than rounding
BLURRED = 2e-5  # vectors whose rounding is beyond that are not tried
COINCIDENCE = 1e-8  # above the probability that any of ten million vectors has the ratios of another by chance


@dataclass
class Repeats:
    """Do sizes come again within a vector: on a lattice, in copies of parts, or out of a small set?"""

    name: str = "values"
    vectors: Least = field(default_factory=Least)
    counts: float = 0.0
    expected: float = 0.0

    def add(self, batch: NoiseBatch) -> None:
        """The noise of one more round."""
        sizes = np.sort(np.abs(_some(batch)), axis=1)
        n, near = sizes.shape[1], np.maximum(EQUAL, 4 * batch.rounding)
        counts = (np.diff(sizes, axis=1) <= near[:, None]).sum(1).astype(np.float64)
        expected = n * (n - 1) * near / math.sqrt(math.pi)  # pairs, times the density of a difference of two sizes at 0
        self.vectors.add(
            tails.poisson(counts, expected),
            lambda at: f"{batch.of(at)} has {counts[at]:.0f} equal sizes among {n}; {expected[at]:.0f} are expected",
        )
        self.counts, self.expected = self.counts + float(counts.sum()), self.expected + float(expected.sum())

    def families(self) -> Iterator[Least]:
        """After the last round."""
        together, counts, expected = Least(), self.counts, self.expected
        if expected:
            together.add(
                tails.poisson(np.array([counts]), expected),
                lambda at: f"its vectors have {counts:,.0f} equal sizes; {expected:,.0f} are expected",
            )
        yield from (self.vectors, together)


def _some(batch: NoiseBatch) -> Singles:
    """The rows at as many places as can be sorted in a round."""
    count, width = min(SORTED, max(16, WORKED // max(len(batch.rows), 1))), batch.rows.shape[1]
    return batch.rows if width <= count else batch.rows[:, chosen(width, count)]


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
