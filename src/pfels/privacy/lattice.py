"""Sums on a public lattice: integers in steps of σ/2²⁰, to which exact noise is added before anything is a float again.

A released float that was computed from integers tells no more than the integers do. A row is cut toward zero, so it
is never longer than it was and its norm bound s stands. A device's data then move the sum by whole steps, at most s in
all, and the noise is a discrete Gaussian on the same steps, of the same σ.
"""

import os
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pfels.arrays import Reals
from pfels.errors import GuardError
from pfels.privacy.checks import require_positive
from pfels.privacy.discrete_gaussian import BITS, RandomBytes, Whole, discrete_gaussian

SMOOTHING = 9.0  # τ² of `lattice_mu_squared`, in steps²
LARGEST = 2.0**62  # two such numbers add up within 63 bits


@dataclass(frozen=True)
class Lattice:
    """The whole multiples of `step`."""

    step: float

    @classmethod
    def for_noise(cls, std: float) -> Self:
        """The lattice of noise with this standard deviation."""
        require_positive("noise_std", std)
        return cls(std / 2**BITS)

    def inward(self, values: Reals) -> Whole:
        """Values as numbers of steps, cut toward zero.

        >>> Lattice(0.25).inward(np.array([0.8, -0.8])).tolist()
        [3, -3]
        """
        return self._whole(np.divide(values, self.step, dtype=np.float64))  # which drops the fractions

    def nearest(self, values: Reals) -> Whole:
        """Values as numbers of steps, rounded: for values that were on this lattice and travelled as floats."""
        return self._whole(np.rint(np.divide(values, self.step, dtype=np.float64)))

    def noise(self, count: int, *, random_bytes: RandomBytes = os.urandom) -> Whole:
        """`count` numbers of exact noise, fresh at every call."""
        return discrete_gaussian(count, random_bytes=random_bytes)

    def real(self, whole: Whole, out: Any = None) -> Reals:
        """Numbers of steps as values, computed in double precision; `out` may take them as single ones."""
        found: Reals = np.multiply(whole, self.step, out=out, dtype=np.float64, casting="same_kind")
        return found

    def _whole(self, steps: Reals) -> Whole:
        require_range(steps)
        return steps.astype(np.int64)


def require_range(steps: Reals | Whole) -> None:
    """A GuardError if numbers of steps are so large, beside noise of 2²⁰, that integers may not hold their sum."""
    largest = float(np.abs(steps).max(initial=0))
    if not largest <= LARGEST:
        raise GuardError(f"a value of {largest:.3g} steps beside noise of {2**BITS:,}: the noise hides nothing")


def lattice_mu_squared(mu_squared: float, *, bits: int = BITS) -> float:
    """μ² of Gaussian noise of standard deviation σ = 2^bits steps when it is discrete: μ²·σ²/(σ² − τ²), with τ = 3.

    Let v be what a device's data add to the sum, in steps. Draw g from N(v, σ² − τ²), and then a whole number x with
    Pr[x] = exp(−(x − g)²/2τ²)/Θ(g). By Poisson summation Θ(g)/(τ√2π) is within η = 2.1·exp(−2π²τ²) < 2e-77 of 1 for
    every g, and so x has the discrete Gaussian's probabilities about v up to a factor of 1 ± 2.1η each. So noise on k
    coordinates is, up to a factor of exp(±2.1kη), computed from a continuous Gaussian of variance σ² − τ² without
    looking at the data again. It is (ε + 4.2kη, δ·exp(2.1kη)) wherever that one is (ε, δ), in any dimension, over any
    number of rounds, under any sampling. With 2²⁰ steps μ² grows by 8.2e-12 of itself.
    """
    return mu_squared / (1 - SMOOTHING / 4.0**bits)
