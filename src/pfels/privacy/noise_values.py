"""Noise number by number: how much there is of it, its law, and numbers that are zero."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pfels.arrays import DeviceIds, Reals
from pfels.privacy import tails
from pfels.privacy.noise_batch import Least, NoiseBatch, Singles, Totals, named

NEAR = 2.0**-18  # a number nearer to 0, in standard deviations, counts as zero: one in 330,000 does
EXACT = 2.0**-20  # and under two seeds one that is nearer than this
WORKED = 2**18  # numbers of a round that are sorted, transformed or counted by size
BANDS = ((0.0, 0.25), (2.0, 3.0), (3.0, math.inf))  # of |x|
BINS = 4096  # of the distribution function


@dataclass
class Level:
    """Is there as much noise as stated: in every vector, in all of each device, in all together?"""

    name: str = "level"
    vectors: Least = field(default_factory=Least)
    squares: Totals = field(default_factory=Totals)
    counts: Totals = field(default_factory=Totals)
    each: list[tuple[Reals, int]] = field(default_factory=list)

    def add(self, batch: NoiseBatch) -> None:
        """The noise of one more round."""
        width = batch.rows.shape[1]
        squares = np.einsum("ij,ij->i", batch.rows, batch.rows, dtype=np.float64)
        say = lambda at: f"{batch.of(at)} has {_times(squares[at] / width)}"  # noqa: E731
        self.vectors.add(tails.chi_squared(squares, width), say)
        self.each.append((squares, width))
        self.squares.add(batch.owners + 1, squares)
        self.counts.add(batch.owners + 1, np.full(len(squares), float(width)))

    def families(self) -> Iterator[Least]:
        """After the last round."""
        owners, each, everything = np.flatnonzero(self.counts.values), Least(), Least()
        sums, counts = self.squares.values[owners], self.counts.values[owners]
        each.add(
            tails.chi_squared(sums, counts),
            lambda at: f"{named(int(owners[at]) - 1)} has {_times(sums[at] / counts[at])}",
        )
        total, number = float(sums.sum()), float(counts.sum())
        everything.add(
            tails.chi_squared(np.array([total]), number), lambda at: f"all of it has {_times(total / max(number, 1))}"
        )
        spread = Least()
        if self.each:
            squares = np.concatenate([found for found, _ in self.each])
            widths = np.repeat([float(width) for _, width in self.each], [len(found) for found, _ in self.each])
            spread.add(
                tails.chi_squared_evenness(squares, widths),
                lambda at: "the variances of its vectors differ from each other by less, or more, than by chance",
            )
        yield from (self.vectors, each, everything, spread)


@dataclass
class Coordinates:
    """Is there as much noise on every coordinate, and at every place of what is sent, and does it add up to nothing?"""

    name: str = "coordinates"
    totals: dict[str, Totals] = field(default_factory=dict)

    def add(self, batch: NoiseBatch) -> None:
        """The noise of one more round."""
        rows, width = batch.rows, batch.rows.shape[1]
        found = {
            "squares": np.einsum("ij,ij->j", rows, rows, dtype=np.float64),
            "sums": rows.sum(0, dtype=np.float64),
            "counts": np.full(width, float(len(rows))),
        }
        for where, index in (("at place", np.arange(width)), ("on coordinate", batch.coordinates)):
            for name, numbers in found.items():
                if index is not None:
                    self.totals.setdefault(f"{where} {name}", Totals()).add(index, numbers)

    def families(self) -> Iterator[Least]:
        """After the last round."""
        for where in ("at place", "on coordinate"):
            if f"{where} counts" in self.totals:
                yield from self._families(where)

    def _families(self, where: str) -> Iterator[Least]:
        counts, squares, sums = (self.totals[f"{where} {name}"].values for name in ("counts", "squares", "sums"))
        at, level, mean = np.flatnonzero(counts), Least(), Least()
        shares, means = squares[at] / counts[at], sums[at] / counts[at]
        level.add(
            tails.chi_squared(squares[at], counts[at]),
            lambda i: f"the noise {where} {at[i] + 1} has {_times(shares[i])}",
        )
        mean.add(
            tails.normal(sums[at] / np.sqrt(counts[at])),
            lambda i: f"the mean of the noise {where} {at[i] + 1} is {means[i]:.2f} standard deviations",
        )
        yield from (level, mean, *_evenness(where, counts[at], squares[at], sums[at]))


def _evenness(where: str, counts: Reals, squares: Reals, sums: Reals) -> Iterator[Least]:
    """All variances together, and all means."""
    levels, means, z = Least(), Least(), sums / np.sqrt(counts)
    said = f"of the noise {where} 1, 2, … differ from each other by less, or more, than by chance"
    if len(counts):
        levels.add(tails.chi_squared_evenness(squares, counts), lambda at: f"the variances {said}")
        means.add(tails.chi_squared(np.array([float((z**2).sum())]), float(len(z))), lambda at: f"the means {said}")
    yield from (levels, means)


@dataclass
class Law:
    """Is it normal: shares of small, large and positive numbers in every vector, all numbers together, the largest?"""

    name: str = "law"
    shares: Least = field(default_factory=Least)
    bins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    largest: float = 0.0
    numbers: int = 0

    def add(self, batch: NoiseBatch) -> None:
        """The noise of one more round."""
        sizes = np.abs(batch.rows)
        for low, high in BANDS:
            found, share = (sizes >= low) & (sizes < high), 2 * float(ndtr(-low) - ndtr(-high))
            self._count(batch, found, share, f"of its numbers between {low:g} and {high:g} standard deviations from 0")
        self._count(batch, batch.rows > 0, 0.5, "of its numbers above 0")
        some = batch.rows[:, :: max(1, batch.rows.size // WORKED)]
        self.bins += np.bincount(np.minimum((ndtr(some) * BINS).astype(np.int64).ravel(), BINS - 1), minlength=BINS)
        self.largest, self.numbers = max(self.largest, float(sizes.max(initial=0.0))), self.numbers + sizes.size

    def _count(self, batch: NoiseBatch, found: NDArray[np.bool_], share: float, what: str) -> None:
        counts, width = found.sum(1).astype(np.float64), found.shape[1]
        say = lambda at: f"{batch.of(at)} has {counts[at] / width:.2%} {what}, not {share:.2%}"  # noqa: E731
        self.shares.add(tails.binomial(counts, width, share), say)

    def families(self) -> Iterator[Least]:
        """After the last round."""
        total, together, largest = int(self.bins.sum()), Least(), Least()
        if total:
            away = float(np.abs(np.cumsum(self.bins) / total - np.arange(1, BINS + 1) / BINS).max())
            together.add(
                np.array([tails.kolmogorov_smirnov(away, total)]),
                lambda at: f"the distribution function of all of it is {away:.4f} away from the normal one",
            )
            inside = self.numbers * float(np.log1p(-2 * ndtr(-self.largest)))  # log P(no number is larger)
            largest.add(
                tails.sides(np.array([np.exp(inside)]), np.array([-np.expm1(inside)])),
                lambda at: f"the largest of {self.numbers:,} numbers is {self.largest:.2f} standard deviations",
            )
        yield from (self.shares, together, largest)


@dataclass
class Zeros:
    """Are numbers zero more often than by chance: in a vector, of a device, on a coordinate, or under any seed?"""

    name: str = "zeros"
    vectors: Least = field(default_factory=Least)
    seeds: Least = field(default_factory=Least)
    found: dict[str, Totals] = field(default_factory=dict)

    def add(self, batch: NoiseBatch) -> None:
        """The noise of one more round."""
        near = np.maximum(NEAR, 4 * batch.rounding)
        share, width = near * math.sqrt(2 / math.pi), batch.rows.shape[1]
        sizes = np.abs(batch.rows)
        zero = sizes <= near[:, None]
        counts = zero.sum(1).astype(np.float64)
        say = lambda at: f"{batch.of(at)} is zero {_count(counts[at])}"  # noqa: E731
        self.vectors.add(tails.poisson(counts, share * width), say)
        self._under_two_seeds(batch, np.maximum(sizes, np.abs(batch.again)))
        columns, expected = zero.sum(0).astype(np.float64), np.full(width, float(share.sum()))
        self._tally("at place", np.arange(width), columns, expected)
        self._tally("on coordinate", batch.coordinates, columns, expected)
        self._tally("of", batch.owners + 1, counts, share * width)

    def _under_two_seeds(self, batch: NoiseBatch, both: Singles) -> None:
        least = np.maximum(both.min(1), np.maximum(EXACT, batch.rounding))
        self.seeds.add(
            np.minimum(1.0, least**2 * 2 / math.pi),
            lambda at: f"{batch.of(at)} is zero at place {int(both[at].argmin()) + 1}, under two seeds",
            among=both.size,
        )

    def _tally(self, where: str, index: DeviceIds | None, counts: Reals, expected: Reals) -> None:
        if index is not None:
            self.found.setdefault(where, Totals()).add(index, counts)
            self.found.setdefault(f"{where} expected", Totals()).add(index, expected)

    def families(self) -> Iterator[Least]:
        """After the last round."""
        yield from (self.vectors, self.seeds)
        for where in ("at place", "on coordinate", "of"):
            if where in self.found:
                yield self._family(where)
        if "of" in self.found:
            together, total = Least(), float(self.found["of"].values.sum())
            together.add(
                tails.poisson(np.array([total]), float(self.found["of expected"].values.sum())),
                lambda at: f"all of it is zero {_count(total)}",
            )
            yield together

    def _family(self, where: str) -> Least:
        expected, each = self.found[f"{where} expected"].values, Least()
        at = np.flatnonzero(expected)
        counts = self.found[where].values[at]

        def say(i: int) -> str:
            whose = named(int(at[i]) - 1) if where == "of" else f"the noise {where} {at[i] + 1}"
            return f"{whose} is zero {_count(counts[i])}"

        each.add(tails.poisson(counts, expected[at]), say)
        return each


def _times(share: float) -> str:
    return f"{share:.3g} times the stated variance"


def _count(times: float) -> str:
    return "once" if times == 1 else f"{times:,.0f} times"
