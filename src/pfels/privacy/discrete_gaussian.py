"""The discrete Gaussian, drawn exactly: Pr[x] ∝ exp(−x²/2σ²) on the whole numbers, in integers, with the operating
system's randomness (the distribution of Canonne, Kamath and Steinke 2020).

Floating-point noise is only close to Gaussian: its last bits tell which signal it was added to. Here σ = 2^bits, and
a number is drawn by rejection from a staircase above the density, 256 steps to a σ: one random integer picks a point
under the staircase, and the point is kept if it lies under the density. Integer bounds of the density decide all but
about 1 in 300 points. Those are decided in decimal arithmetic with a proven error, to as many digits as it takes.

The staircase ends at 16σ. A number beyond has probability below 2e-57, which adds as much to δ.
"""

import os
import secrets
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]

BITS = 20  # σ = 2²⁰ steps
CELL_BITS = 8  # 2⁸ stairs to a σ
STAIRS = 16 << CELL_BITS
HEIGHT = 2**63 // 322  # of the first stair: all together are then just below 2⁶³, since Σ exp(−(i/256)²/2) < 321.4
WORD = 64


@dataclass(frozen=True)
class _Staircase:
    """Stair i covers the numbers from i·width on. `start` is the area before it, `sure` the height below which every
    point of it lies under the density."""

    width_bits: int
    start: Whole
    sure: Whole
    area: int


@lru_cache(maxsize=4)
def _staircase(bits: int) -> _Staircase:
    width = 1 << (bits - CELL_BITS)
    upper = [_scaled(i * width, bits, ROUND_CEILING) for i in range(STAIRS)]
    lower = [_scaled((i + 1) * width - 1, bits, ROUND_FLOOR) for i in range(STAIRS)]
    ends = np.cumsum(np.array(upper, np.int64))
    assert ends[-1] == sum(upper), "the area fits in 63 bits"
    return _Staircase(bits - CELL_BITS, ends - np.array(upper, np.int64), np.array(lower, np.int64), int(ends[-1]))


def discrete_gaussian(count: int, *, bits: int = BITS) -> Whole:
    """`count` independent numbers with Pr[x] ∝ exp(−x²/2σ²), σ = 2^bits, from 2⁸ to 2³⁰; never the same twice.

    >>> len(discrete_gaussian(1000))
    1000
    """
    stairs = _staircase(bits)
    drawn = np.empty(count, np.int64)
    missing = np.arange(count)
    while len(missing):
        x, kept = _points(len(missing), stairs, bits)
        drawn[missing[kept]] = x[kept]
        missing = missing[~kept]
    return drawn


def _points(count: int, stairs: _Staircase, bits: int) -> tuple[Whole, NDArray[np.bool_]]:
    """Points under the staircase, as numbers with a sign, and which of them lie under the density."""
    area = (np.frombuffer(os.urandom(8 * count), np.uint64) >> np.uint64(1)).astype(np.int64)
    rest = np.frombuffer(os.urandom(4 * count), np.uint32).astype(np.int64)
    stair = np.searchsorted(stairs.start, area, side="right") - 1
    height = area - stairs.start[stair]
    x = (stair << stairs.width_bits) + (rest & ((1 << stairs.width_bits) - 1))
    negative = rest >> 31 == 1
    kept = (height < stairs.sure[stair]) & (area < stairs.area)
    for i in np.flatnonzero((area < stairs.area) & ~kept):
        kept[i] = _under_density(int(height[i]), int(x[i]), bits)
    kept &= ~(negative & (x == 0))  # zero has one sign only
    return np.where(negative, -x, x), kept


def _under_density(height: int, x: int, bits: int) -> bool:
    """Whether height + f < HEIGHT·exp(−x²/2σ²), for f uniform in [0, 1): by as many bits of f as decide it."""
    known = 0
    while True:
        height, known = height << WORD | secrets.randbits(WORD), known + WORD
        if height + 1 <= _scaled(x, bits, ROUND_FLOOR, known):
            return True
        if height >= _scaled(x, bits, ROUND_CEILING, known):
            return False


def _scaled(x: int, bits: int, rounding: str, known: int = 0) -> int:
    """HEIGHT·2^known·exp(−x²/2σ²) as an integer, rounded up or down for certain.

    The exponent is a decimal fraction of at most 2·bits + 5 digits, and so exact; `Context.exp` is right to half a unit
    in its last digit, and the product loses no more.
    """
    context = Context(prec=80 + known // 3)
    density = context.exp(context.divide(Decimal(-x * x), Decimal(2 << 2 * bits)))
    value = context.multiply(density, Decimal(HEIGHT << known))
    margin = context.multiply(value, Decimal(10) ** (2 - context.prec))
    bound = context.add(value, margin) if rounding == ROUND_CEILING else context.subtract(value, margin)
    return int(bound.to_integral_value(rounding=rounding))
