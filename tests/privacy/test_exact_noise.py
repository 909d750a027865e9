"""Theorems about exact noise: the distribution of the discrete Gaussian, and what it costs in privacy."""

import math
import os
from decimal import Context

import numpy as np
import pytest
from scipy import optimize, stats

from pfels.errors import GuardError
from pfels.privacy import discrete_gaussian as sampler
from pfels.privacy.discrete_gaussian import BITS, discrete_gaussian
from pfels.privacy.gaussian import gaussian_epsilon
from pfels.privacy.lattice import Lattice, lattice_mu_squared

RARE = 1e-7  # a p-value below this is a failure; the draws are the operating system's, and never the same twice


def probabilities(bits: int, reach: int = 14) -> np.ndarray:
    """Pr[x] of the discrete Gaussian for |x| up to `reach` standard deviations."""
    x = np.arange(-reach << bits, (reach << bits) + 1, dtype=np.float64)
    density = np.exp(-(x**2) / (2 * 4.0**bits))
    return density / density.sum()


@pytest.mark.parametrize("bits", [6, 8, 10])
def test_every_number_has_its_probability(bits: int):
    count, sigma = 300_000, 1 << bits
    x = discrete_gaussian(count, bits=bits)
    expected = probabilities(bits)
    middle = slice(11 * sigma, 17 * sigma + 1)  # three standard deviations, each number by itself
    observed = np.bincount(x[np.abs(x) <= 3 * sigma] + 3 * sigma, minlength=6 * sigma + 1)
    inside = expected[middle] / expected[middle].sum()
    assert stats.chisquare(observed, inside * observed.sum()).pvalue > RARE
    tails = [(x < -3 * sigma).sum(), (x > 3 * sigma).sum()]
    chance = expected[: 11 * sigma].sum()
    assert all(stats.binomtest(int(n), count, chance).pvalue > RARE for n in tails)


def test_at_the_full_number_of_steps_the_whole_is_gaussian_and_the_last_bits_are_uniform():
    x = discrete_gaussian(300_000)
    assert stats.kstest(x / 2.0**BITS, "norm").pvalue > RARE
    for shift in (0, 4, 8):
        digits = np.bincount((x >> shift) & 15, minlength=16)
        assert stats.chisquare(digits).pvalue > RARE
    assert abs(stats.pearsonr(x[1:], x[:-1]).statistic) < 6 / math.sqrt(len(x))


@pytest.mark.parametrize("x", [0, 1, 1000, 2**20, 5 * 2**20 + 77, 16 * 2**20 - 1])
@pytest.mark.parametrize("known", [0, 64, 256])
def test_the_integer_bounds_of_the_density_enclose_it(x: int, known: int):
    context = Context(prec=400)
    exact = context.multiply(context.exp(context.divide(-x * x, 2**41)), sampler.HEIGHT << known)
    low, high = sampler._density(x, BITS, known)
    assert low <= exact <= high <= low + 3


@pytest.mark.parametrize("bits", [6, 10, BITS, 21])
def test_the_density_is_within_its_margin_of_a_parabola_on_every_stair(bits: int):
    stairs = sampler._staircase(bits)
    width = 1 << stairs.width_bits
    places = [0, width // 7, width // 4, width // 2, 3 * width // 4, width - 1]
    stair = np.repeat(np.arange(sampler.STAIRS), len(places))
    offset = np.tile(places, sampler.STAIRS).astype(np.int32)
    nearly = sampler._nearly(stairs, stair, offset).tolist()
    for i, j, density in zip(stair.tolist(), offset.tolist(), nearly, strict=True):
        x = (i << stairs.width_bits) + j
        low, high = sampler._density(x, bits)
        assert density - stairs.bend[i] < low <= high < density + stairs.bend[i]


def test_few_points_are_left_to_decimal_arithmetic():
    """The share of the area that lies within the margin of the density."""
    stairs = sampler._staircase(BITS)
    assert 2 * stairs.bend.sum() / stairs.upper.sum() < 1 / 390_000


def test_the_first_bits_of_a_point_decide_only_what_all_its_bits_would():
    """Of the points that begin with these bits, the first and the last are on the stair and below its bound."""
    stairs = sampler._staircase(BITS)
    begin = np.flatnonzero(stairs.first >= 0)
    assert 0.97 < len(begin) / 2**16 < 1
    low = begin.astype(np.int64) << 47
    for area in (low, low + (1 << 47) - 1):
        height = area - stairs.start[stairs.first[begin]]
        assert (height >= 0).all()
        assert (height < stairs.lower[stairs.first[begin]]).all()
        assert (area < stairs.upper.sum()).all()


def test_points_beyond_the_last_stair_are_not_kept():
    stairs, begin = sampler._staircase(BITS), np.full(1000, 2**16 - 1, np.uint16)
    assert int(begin[0]) << 47 > stairs.upper.sum()
    assert stairs.first[begin[0]] == -1
    _, kept = sampler._decided(begin, os.urandom(8000), np.zeros(1000, np.int32), stairs, BITS)
    assert not kept.any()


def test_every_point_is_decided_as_decimal_arithmetic_decides_it():
    """All bits drawn, on stairs and between them: points that integers decide, held to the density itself."""
    stairs, rng = sampler._staircase(BITS), np.random.default_rng(0)
    begin = np.flatnonzero(stairs.first < 0)[:-500].astype(np.uint16)
    offset = rng.integers(0, 1 << stairs.width_bits, len(begin)).astype(np.int32)
    raw = rng.bytes(8 * len(begin))
    stair, kept = sampler._decided(begin, raw, offset, stairs, BITS)
    more = np.frombuffer(raw, np.uint64) >> np.uint64(17)
    for b, m, o, i, inside in zip(*(v.tolist() for v in (begin, more, offset, stair, kept)), strict=True):
        height = (b << 47) + m - int(stairs.start[i])
        assert 0 <= height < stairs.upper[i]
        low, high = sampler._density((i << stairs.width_bits) + o, BITS)
        assert height < high if inside else height >= low
    assert 0.3 < kept.mean() < 0.9


def test_points_beside_the_density_are_decided_by_their_fraction(monkeypatch: pytest.MonkeyPatch):
    """A point in the integer that the density passes through is below it with the probability of the fraction."""
    x = 3 * 2**20 + 5
    height = sampler._density(x, BITS)[0]
    fraction = sampler._density(x, BITS, 64)[0] - (height << 64)
    for draw, below in ((fraction - 1, True), (fraction + 2, False), (0, True), (2**64 - 1, False)):
        monkeypatch.setattr(sampler.secrets, "randbits", lambda bits, draw=draw: draw)
        assert sampler._under_density(height, x, BITS) is below
    assert sampler._under_density(height - 1, x, BITS)
    assert not sampler._under_density(height + 1, x, BITS)


def discrete_epsilon(shift: tuple[int, ...], bits: int, delta: float) -> float:
    """ε of the discrete Gaussian about 0 and about a shift, by summing over all outcomes."""
    ones = [probabilities(bits) for _ in shift]
    here, there = np.ones(1), np.ones(1)
    for one, v in zip(ones, shift, strict=True):
        here = np.outer(here, np.concatenate([np.zeros(v), one])).ravel()
        there = np.outer(there, np.concatenate([one, np.zeros(v)])).ravel()

    def excess(epsilon: float) -> float:
        return float(np.maximum(here - math.exp(epsilon) * there, 0).sum()) - delta

    return float(optimize.brentq(excess, 0.0, 50.0, xtol=1e-13))


@pytest.mark.parametrize("delta", [1e-3, 1e-5])
@pytest.mark.parametrize("z", [1, 2, 4])
def test_epsilon_is_the_continuous_one_to_seven_digits_at_4096_steps_and_bounded_at_any(z: int, delta: float):
    exact = gaussian_epsilon(mu=1 / z, delta=delta)
    for bits in (4, 6, 8, 12):
        found = discrete_epsilon(((1 << bits) // z,), bits, delta)
        bound = gaussian_epsilon(mu=math.sqrt(lattice_mu_squared(z**-2, bits=bits)), delta=delta)
        assert found <= bound * (1 + 1e-9)
    assert found == pytest.approx(exact, rel=1e-6)
    bound = gaussian_epsilon(mu=math.sqrt(lattice_mu_squared(z**-2)), delta=delta)
    assert exact <= bound <= exact * (1 + 1e-10)


def test_the_bound_holds_in_several_dimensions():
    """Shifts along an axis, along the diagonal and in between, of two coordinates at 16 steps."""
    for shift in ((16, 0), (11, 11), (15, 5)):
        mu_squared = (shift[0] ** 2 + shift[1] ** 2) / 16**2
        bound = gaussian_epsilon(mu=math.sqrt(lattice_mu_squared(mu_squared, bits=4)), delta=1e-3)
        found = discrete_epsilon(shift, 4, 1e-3)
        assert bound * 0.9 < found <= bound


def test_rows_are_cut_toward_zero_and_never_longer():
    lattice, rng = Lattice.for_noise(0.7), np.random.default_rng(0)
    rows = rng.standard_normal((50, 400)) * np.geomspace(1e-9, 1e3, 50)[:, None]
    cut = lattice.real(lattice.inward(rows))
    assert (np.abs(cut) <= np.abs(rows)).all()
    assert (np.abs(rows - cut) <= lattice.step).all()
    assert (cut * rows >= 0).all()
    assert np.array_equal(lattice.nearest(cut), lattice.inward(rows))


def test_what_integers_cannot_hold_is_refused():
    with pytest.raises(GuardError, match="the noise hides nothing"):
        Lattice.for_noise(1e-20).inward(np.ones(3))
    with pytest.raises(GuardError):
        Lattice.for_noise(1.0).inward(np.array([math.nan]))


def test_noise_is_fresh_at_every_call():
    lattice = Lattice.for_noise(1.0)
    assert not np.array_equal(lattice.noise(100), lattice.noise(100))
