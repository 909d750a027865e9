"""The discrete Gaussian, drawn exactly: Pr[x] ∝ exp(−x²/2σ²) on the whole numbers, in integers, from random bytes (the
distribution of Canonne, Kamath and Steinke 2020).

Floating-point noise is only close to Gaussian: its last bits tell which signal it was added to. Here σ = 2^bits, and
a number is drawn by rejection from a staircase above the density, 64 stairs to a σ. A random integer of 63 bits is a
point under the staircase, and it is kept if it lies under the density. Its first 16 bits decide that for 97 of 100
points, so the others are drawn only where they matter. Integer bounds of the density decide all but about 1 in 400,000
points, and those are decided in decimal arithmetic with a proven error, to as many digits as it takes.

The staircase ends at 16σ. A number beyond has probability below 2e-57, which adds as much to δ.
"""

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]
RandomBytes = Callable[[int], bytes]

BITS = 20  # σ = 2²⁰ steps
STAIR_BITS = 6  # 2⁶ stairs to a σ
STAIRS = 16 << STAIR_BITS
HEIGHT = 2**63 // 81  # of the first stair: all together are then just below 2⁶³, since Σ exp(−(i/64)²/2) < 80.8
FIRST_BITS = 16  # of a point's 63, drawn at first
WORD = 64


@dataclass(frozen=True)
class _Staircase:
    """Stair i covers the w = 2^width_bits numbers from i·w on. `start` is the area before it, `upper` and `lower` bound
    the density f at its first and its last number, and `slope` is that of the line between them. With j numbers before
    and k behind it on the stair, a number has f below the line by f''(ξ)·jk/2, with f'' = f·(x²/σ² − 1)/σ². `curve` is
    f''·w²/2 in the middle of the stair, and `bend` is more than the rest: with |ξ − middle| ≤ w/2, jk ≤ w²/4 and
    |f⁽³⁾| ≤ f·(2 + (x/σ)³)/σ³, that is at most 2^−22·f·(2 + (x/σ)³), and roundings. `first` is the stair of points that
    begin with these 16 bits, if they all lie on it and below `lower`, or else −1."""

    width_bits: int
    start: Whole
    upper: Whole
    lower: Whole
    slope: Whole
    curve: Whole
    bend: Whole
    first: NDArray[np.int16]


@lru_cache(maxsize=4)
def _staircase(bits: int) -> _Staircase:
    if not STAIR_BITS <= bits <= STAIR_BITS + FIRST_BITS - 1:
        raise ValueError(f"bits = {bits}: must be from {STAIR_BITS} to {STAIR_BITS + FIRST_BITS - 1}")
    width = 1 << (bits - STAIR_BITS)
    upper = np.array([_density(i * width, bits)[1] for i in range(STAIRS)], np.int64)
    lower = np.array([_density((i + 1) * width - 1, bits)[0] for i in range(STAIRS)], np.int64)
    ends = np.cumsum(upper)
    assert ends[-1] == sum(upper.tolist()), "the area fits in 63 bits"
    start = ends - upper
    low = np.arange(1 << FIRST_BITS, dtype=np.int64) << (63 - FIRST_BITS)
    stair = np.searchsorted(start, low, side="right") - 1
    sure = low + ((1 << (63 - FIRST_BITS)) - 1) - start[stair] < lower[stair]
    first = np.where(sure, stair, -1).astype(np.int16)
    slope = (upper - lower) // max(width - 1, 1)
    curve = np.array([_curve(i * width + width // 2, bits) for i in range(STAIRS)], np.int64)
    cubed = (np.arange(1, STAIRS + 1) ** 3 >> 3 * STAIR_BITS) + 1  # at least (x/σ)³ on each stair
    bend = ((upper >> 22) + 1) * (2 + cubed) + 2**31  # |curve| < 2⁴⁴, so that its roundings are below 2³⁰ + 2¹⁶
    return _Staircase(bits - STAIR_BITS, start, upper, lower, slope, curve, bend, first)


def _curve(x: int, bits: int) -> int:
    """f''(x)·w²/2, rounded: w is a 64th of σ."""
    return _density(x, bits)[0] * (x * x - (1 << 2 * bits)) >> 2 * bits + 1 + 2 * STAIR_BITS


def discrete_gaussian(count: int, *, bits: int = BITS, random_bytes: RandomBytes = os.urandom) -> Whole:
    """`count` independent numbers with Pr[x] ∝ exp(−x²/2σ²), σ = 2^bits, from 2⁶ to 2²¹; never the same twice.

    `random_bytes` must give as many uniform, independent bytes as it is asked for, which nobody can predict.

    >>> len(discrete_gaussian(1000))
    1000
    """
    stairs = _staircase(bits)
    drawn = _numbers(count + count // 32 + 8, stairs, bits, random_bytes)
    while (missing := count - len(drawn)) > 0:
        drawn = np.concatenate([drawn, _numbers(missing + missing // 32 + 8, stairs, bits, random_bytes)])
    return drawn[:count]


def _numbers(count: int, stairs: _Staircase, bits: int, random_bytes: RandomBytes) -> Whole:
    """Those of `count` points under the staircase that lie under the density, as numbers with a sign."""
    words = np.frombuffer(random_bytes(4 * count), np.uint16)
    begin, rest = words[:count], words[count:]
    stair, kept = stairs.first.take(begin), np.ones(count, np.bool_)
    offset = (rest & np.uint16((1 << stairs.width_bits) - 1)).astype(np.int32)
    undecided = np.flatnonzero(stair < 0)
    if len(undecided):
        more = random_bytes(8 * len(undecided))
        stair[undecided], kept[undecided] = _decided(begin[undecided], more, offset[undecided], stairs, bits)
    x = (stair.astype(np.int32) << stairs.width_bits) + offset
    minus = rest.view(np.int16) >> 15  # −1 or 0
    zeros = np.flatnonzero(x == 0)
    kept[zeros] &= minus[zeros] == 0  # zero has one sign only
    return ((x ^ minus) - minus)[kept].astype(np.int64)


def _decided(
    begin: NDArray[np.uint16], more: bytes, offset: NDArray[np.int32], stairs: _Staircase, bits: int
) -> tuple[NDArray[np.int16], Mask]:
    """The stairs of points that begin with these bits and go on with those in `more`, and whether they are kept.

    A point beyond the last stair counts as one on it, and above the density.
    """
    left = 63 - FIRST_BITS
    others = np.frombuffer(more, np.uint64) >> np.uint64(64 - left)
    area = (begin.astype(np.int64) << left) + others.view(np.int64)
    stair = stairs.start.searchsorted(area, side="right") - 1
    above = area - stairs.start[stair] - _nearly(stairs, stair, offset)
    kept = above < 0
    for i in np.flatnonzero(np.abs(above) <= stairs.bend[stair]):
        x = (int(stair[i]) << stairs.width_bits) + int(offset[i])
        kept[i] = _under_density(int(area[i] - stairs.start[stair[i]]), x, bits)
    return stair.astype(np.int16), kept


def _nearly(stairs: _Staircase, stair: NDArray[np.int64], offset: NDArray[np.int32]) -> Whole:
    """The density, up to the stair's bend, at the `offset`-th number of each stair: below the line between its ends by
    curve·jk/w². Divisions come before products, which then fit in 63 bits."""
    last, digits = (1 << stairs.width_bits) - 1, min(2 * stairs.width_bits, 14)
    share = offset * (last - offset) >> (2 * stairs.width_bits - digits)  # jk/w², of which `digits` binary digits
    found: Whole = stairs.upper[stair] - stairs.slope[stair] * offset - (stairs.curve[stair] * share >> digits)
    return found


def _under_density(height: int, x: int, bits: int) -> bool:
    """Whether height + f < HEIGHT·exp(−x²/2σ²), for f uniform in [0, 1): by as many bits of f as decide it."""
    known = 0
    while True:
        low, high = _density(x, bits, known)
        if height < low:
            return True
        if height >= high:
            return False
        height, known = height << WORD | secrets.randbits(WORD), known + WORD


def _density(x: int, bits: int, known: int = 0) -> tuple[int, int]:
    """Two integers that enclose HEIGHT·2^known·exp(−x²/2σ²).

    The exponent is a decimal fraction of at most 2·bits + 5 digits, and so exact; `Context.exp` is right to half a unit
    in its last digit, and the product loses no more.
    """
    context = Context(prec=60 + known // 3)
    density = context.exp(context.divide(Decimal(-x * x), Decimal(2 << 2 * bits)))
    value = context.multiply(density, Decimal(HEIGHT << known))
    margin = context.multiply(value, Decimal(10) ** (2 - context.prec))
    low, high = context.subtract(value, margin), context.add(value, margin)
    return int(low.to_integral_value(ROUND_FLOOR)), int(high.to_integral_value(ROUND_CEILING))
