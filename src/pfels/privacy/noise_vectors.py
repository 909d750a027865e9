"""Noise vector by vector: does one tell anything of what is sent, of another seed's, or of its own other places?"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from pfels.arrays import Reals
from pfels.privacy import tails
from pfels.privacy.noise_batch import Least, NoiseBatch, Singles
from pfels.privacy.noise_values import WORKED

FEWEST = 16  # numbers of which a correlation is asked for


def unit(vectors: Singles) -> Singles:
    """Vectors of length 1; those of length 0 stay."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    found: Singles = (vectors / np.maximum(lengths, 1e-300)[:, None]).astype(np.float32)
    return found


def add_cosines(least: Least, cosines: Reals | Singles, dimensions: Reals | float, say: Callable[[int], str]) -> None:
    """The p-values of many cosines; only the least is worked out, since it belongs to the largest of them."""
    if not cosines.size:
        return
    freedom = np.broadcast_to(np.asarray(dimensions, np.float64), cosines.shape)
    squared = np.minimum(np.asarray(cosines, np.float64) ** 2, 1.0)
    at = int(np.argmax(np.where(freedom < FEWEST, -1.0, squared / (1 - squared + 1e-12) * freedom)))
    if freedom.flat[at] >= FEWEST:
        p = tails.correlation(squared.flat[at], freedom.flat[at])
        least.add(np.atleast_1d(p), lambda _: say(at), among=cosines.size)


@dataclass
class Signals:
    """Is the noise independent of what it was added to, and of what else is sent?"""

    name: str = "signals"
    vectors: Least = field(default_factory=Least)
    along: dict[str, list[Reals]] = field(default_factory=lambda: {})

    def add(self, batch: NoiseBatch) -> None:
        """The noise of one more round."""
        there = np.flatnonzero(batch.signals.any(1))
        own = np.einsum("ij,ij->i", batch.rows[there], unit(batch.signals[there]), dtype=np.float64)
        self._add("what it hides", own, lambda at: batch.of(int(there[at])))
        if batch.other is not None and batch.other.any():
            other = np.einsum("ij,j->i", batch.rows, unit(batch.other[None])[0], dtype=np.float64)
            self._add("what else was sent", other, batch.of)

    def _add(self, what: str, z: Reals, who: Callable[[int], str]) -> None:
        say = lambda at: f"{who(at)} is {z[at]:.1f} standard deviations along {what}"  # noqa: E731
        self.vectors.add(tails.normal(z), say)
        self.along.setdefault(what, []).append(z**2)

    def families(self) -> Iterator[Least]:
        """After the last round."""
        yield self.vectors
        for what, parts in self.along.items():
            together, squares = Least(), np.concatenate(parts)
            if len(squares):
                p = tails.chi_squared(squares.sum(keepdims=True), float(len(squares)))
                together.add(p, _all_along(what, float(squares.mean())))
            yield together


def _all_along(what: str, share: float) -> Callable[[int], str]:
    return lambda at: f"along {what}, all of it has {share:.3g} times the stated variance"


@dataclass
class Seeds:
    """Does the noise change with the seed?"""

    name: str = "seeds"
    vectors: Least = field(default_factory=Least)

    def add(self, batch: NoiseBatch) -> None:
        """The noise of one more round."""
        cosines = np.einsum("ij,ij->i", unit(batch.rows), unit(batch.again), dtype=np.float64)
        self.vectors.add(
            tails.correlation(cosines**2, batch.rows.shape[1]),
            lambda at: f"{batch.of(at)} under two seeds has correlation {cosines[at]:.2f}",
        )

    def families(self) -> Iterator[Least]:
        """After the last round."""
        yield self.vectors


@dataclass
class Neighbours:
    """Are the places of a vector independent: at every distance in each vector, at every frequency in all together?"""

    name: str = "neighbours"
    lags: Least = field(default_factory=Least)
    powers: dict[int, Reals] = field(default_factory=lambda: {})
    rows: dict[int, int] = field(default_factory=lambda: {})

    def add(self, batch: NoiseBatch) -> None:
        """The noise of one more round."""
        x = _window(batch)
        n = x.shape[1]
        if n < 2 * FEWEST:
            return
        powers = (np.abs(rfft(x, axis=1)) ** 2).sum(0, dtype=np.float64)
        self.powers[n] = self.powers.get(n, np.zeros(len(powers))) + powers
        self.rows[n] = self.rows.get(n, 0) + len(x)
        cosines = _with_itself(x)
        add_cosines(
            self.lags, cosines, n - np.arange(1, n - FEWEST, dtype=np.float64),
            lambda at: f"{batch.of(at // cosines.shape[1])} has correlation {cosines.flat[at]:.2f} with itself "
            f"{at % cosines.shape[1] + 1} places on",
        )  # fmt: skip

    def families(self) -> Iterator[Least]:
        """After the last round."""
        yield self.lags
        for n, powers in self.powers.items():
            frequencies, rows = Least(), self.rows[n]
            freedom = np.full(len(powers), 2.0)  # of each frequency: its sine and its cosine
            freedom[0] = 1.0
            if n % 2 == 0:
                freedom[-1] = 1.0
            shares = powers / (n * rows)
            frequencies.add(tails.chi_squared(shares * freedom * rows, freedom * rows), _power(shares, n))
            yield frequencies


def _power(shares: Reals, n: int) -> Callable[[int], str]:
    return lambda at: f"with {at} periods in {n} places, all of it has {shares[at]:.3g} times the stated power"


def _window(batch: NoiseBatch) -> Singles:
    """Consecutive places of the rows, as many as a round can have transformed: others in every round."""
    count, width = max(2 * FEWEST, WORKED // max(len(batch.rows), 1)), batch.rows.shape[1]
    start = batch.round * 7919 % (width - count + 1) if count < width else 0
    return batch.rows[:, start : start + count]


def _with_itself(x: Singles) -> NDArray[np.float32]:
    """The cosine between each row and itself 1, 2, … places on, over the places that both have."""
    n = x.shape[1]
    size, last = next_fast_len(2 * n, real=True), n - FEWEST
    products = irfft(np.abs(rfft(x, size, axis=1)) ** 2, size, axis=1)[:, 1:last]
    squares = np.cumsum(x.astype(np.float64) ** 2, axis=1)
    heads = squares[:, ::-1][:, 1:last]  # Σ of the first n − lag squares
    rest = squares[:, -1:] - squares[:, : last - 1]  # and of the last n − lag
    found: NDArray[np.float32] = (products / np.sqrt(np.maximum(heads * rest, 1e-300))).astype(np.float32)
    return found
