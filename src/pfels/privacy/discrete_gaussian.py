"""The discrete Gaussian, drawn exactly: Pr[x] ∝ exp(−x²/2σ²) on the whole numbers, in integers, with the operating
system's randomness (the distribution of Canonne, Kamath and Steinke 2020).

Floating-point noise is only close to Gaussian: its last bits tell which signal it was added to. Here σ = 2^bits, and
a number is drawn by rejection from a staircase above the density, 64 stairs to a σ. A random integer of 63 bits is a
point under the staircase, and it is kept if it lies under the density. Its first 16 bits decide that for 97 of 100
points, so the others are drawn only where they matter. Integer bounds of the density decide all but 1 in 5,000 points,
and those are decided in decimal arithmetic with a proven error, to as many digits as it takes.

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
Mask = NDArray[np.bool_]

BITS = 20  # σ = 2²⁰ steps
STAIR_BITS = 6  # 2⁶ stairs to a σ
STAIRS = 16 << STAIR_BITS
HEIGHT = 2**63 // 81  # of the first stair: all together are then just below 2⁶³, since Σ exp(−(i/64)²/2) < 80.8
FIRST_BITS = 16  # of a point's 63, drawn at first
WORD = 64


@dataclass(frozen=True)
class _Staircase:
    """Stair i covers the numbers from i·2^width_bits on. `start` is the area before it, `upper` and `lower` bound the
    density f at its first and its last number. `bend` is more than f departs from the line between them, which is at
    most max|f''|·(σ/64)²/8 with |f''| = f·|x²/σ² − 1|/σ². `first` is the stair of points that begin with these 16 bits,
    if they all lie on it and below `lower`, or else −1."""

    width_bits: int
    start: Whole
    upper: Whole
    lower: Whole
    bend: Whole
    area: int
    first: NDArray[np.int32]


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
    first = np.where(sure, stair, -1).astype(np.int32)
    t_squared = (np.arange(1, STAIRS + 1) ** 2 >> 2 * STAIR_BITS) + 1  # at least x²/σ² and at least 1, on each stair
    bend = (upper >> 14) * t_squared + 2**15
    return _Staircase(bits - STAIR_BITS, start, upper, lower, bend, int(ends[-1]), first)


def discrete_gaussian(count: int, *, bits: int = BITS) -> Whole:
    """`count` independent numbers with Pr[x] ∝ exp(−x²/2σ²), σ = 2^bits, from 2⁶ to 2²¹; never the same twice.

    >>> len(discrete_gaussian(1000))
    1000
    """
    stairs, drawn = _staircase(bits), np.empty(0, np.int64)
    while (missing := count - len(drawn)) > 0:
        drawn = np.concatenate([drawn, _numbers(missing + missing // 32 + 8, stairs, bits)])
    return drawn[:count]


def _numbers(count: int, stairs: _Staircase, bits: int) -> Whole:
    """Those of `count` points under the staircase that lie under the density, as numbers with a sign."""
    words = np.frombuffer(os.urandom(4 * count), np.uint16)
    begin, rest = words[:count], words[count:]
    stair = stairs.first.take(begin)
    offset = (rest & np.uint16((1 << stairs.width_bits) - 1)).astype(np.int32)
    kept = stair >= 0
    open_points = np.flatnonzero(~kept)
    if len(open_points):
        stair[open_points], kept[open_points] = _decided(begin[open_points], offset[open_points], stairs, bits)
    x = (stair << stairs.width_bits) + offset
    minus = -(rest >> np.uint16(15)).astype(np.int32)  # −1 or 0
    kept &= (minus == 0) | (x != 0)  # zero has one sign only
    return ((x ^ minus) - minus)[kept].astype(np.int64)


def _decided(
    begin: NDArray[np.uint16], offset: NDArray[np.int32], stairs: _Staircase, bits: int
) -> tuple[NDArray[np.int32], Mask]:
    """The stairs of points that begin with these bits, with all other bits drawn, and whether they are kept."""
    left = 63 - FIRST_BITS
    more = np.frombuffer(os.urandom(8 * len(begin)), np.uint64) >> np.uint64(64 - left)
    area = (begin.astype(np.int64) << left) + more.astype(np.int64)
    stair = np.searchsorted(stairs.start, area, side="right") - 1
    height = area - stairs.start[stair]
    chord = _chord(stairs, stair, offset)
    inside = area < stairs.area
    bend = stairs.bend[stair]
    kept = inside & ((height < stairs.lower[stair]) | (height < chord - bend))
    for i in np.flatnonzero(inside & ~kept & (height <= chord + bend)):
        x = (int(stair[i]) << stairs.width_bits) + int(offset[i])
        kept[i] = _under_density(int(height[i]), x, bits)
    return stair.astype(np.int32), kept


def _chord(stairs: _Staircase, stair: NDArray[np.int64], offset: NDArray[np.int32]) -> Whole:
    """The density, up to the stair's bend, at the `offset`-th number of each stair: on the line between its ends."""
    drop = stairs.upper[stair] - stairs.lower[stair]
    slope = drop // max((1 << stairs.width_bits) - 1, 1)  # before the product, which then fits in 63 bits
    return stairs.upper[stair] - slope * offset


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
