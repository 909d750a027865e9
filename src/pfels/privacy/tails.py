"""How unlikely a statistic of honest noise is: p-values of exact laws, for arrays."""

import numpy as np
from scipy.special import betainc, chdtr, chdtrc, gammainc, kolmogorov, ndtr, ndtri

from pfels.arrays import Reals


def chi_squared(total: Reals, freedom: Reals | float) -> Reals:
    """Of a sum of squares of standard normal numbers, too small or too large."""
    below, above = chdtr(freedom, total), chdtrc(freedom, total)
    return sides(np.asarray(below, np.float64), np.asarray(above, np.float64))


def chi_squared_evenness(total: Reals, freedom: Reals | float) -> Reals:
    """Of independent sums of squares, together: too even, or too uneven. One p-value."""
    below, above = chdtr(freedom, total), chdtrc(freedom, total)
    return evenness(np.asarray(below, np.float64), np.asarray(above, np.float64))


def normal(z: Reals) -> Reals:
    """Of standard normal numbers, too far from 0."""
    p: Reals = 2 * ndtr(-np.abs(z))
    return p


def binomial(count: Reals, trials: Reals | float, share: float) -> Reals:
    """Of the number of successes, too few or too many."""
    k, n = np.broadcast_arrays(np.asarray(count, np.float64), np.asarray(trials, np.float64))
    at_least = np.where(k <= 0, 1.0, betainc(np.maximum(k, 1), n - np.maximum(k, 1) + 1, share))
    at_most = np.where(k >= n, 1.0, betainc(np.maximum(n - k, 1), k + 1, 1 - share))
    return sides(at_most, at_least)


def poisson(count: Reals, mean: Reals | float) -> Reals:
    """Of the number of rare events, too many."""
    p: Reals = np.where(np.asarray(count) <= 0, 1.0, gammainc(np.maximum(count, 1), mean))
    return p


def correlation(squared: Reals, dimension: Reals | float) -> Reals:
    """Of the squared cosine between independent normal vectors, one of which may have any law: too large.

    >>> bool(correlation(np.array(1.0), 100) == 0), round(float(correlation(np.array(0.04), 100)), 3)
    (True, 0.046)
    """
    rest = 1 - np.minimum(np.asarray(squared, np.float64), 1.0)
    return np.asarray(betainc((np.asarray(dimension, np.float64) - 1) / 2, 0.5, rest), np.float64)


def kolmogorov_smirnov(distance: float, numbers: int) -> float:
    """Of the largest distance between two distribution functions, that of so many numbers and the true one: too large,
    or too small. Where it was looked for at some places alone it is up to a tenth smaller."""
    scaled = np.sqrt(numbers) * distance
    return min(1.0, 2 * float(min(kolmogorov(scaled), 1 - kolmogorov(1.1 * scaled))))


def evenness(below: Reals, above: Reals) -> Reals:
    """Of many independent numbers with these tails, together: too even, or too uneven. One p-value.

    Each is turned into a standard normal number, so that their sum of squares is one.
    """
    smaller = np.maximum(np.minimum(below, above), 1e-300)
    return chi_squared(np.array([float((ndtri(smaller) ** 2).sum())]), float(max(len(smaller), 1)))


def sides(below: Reals, above: Reals) -> Reals:
    """Both sides of a law: twice the smaller tail."""
    p: Reals = np.minimum(1.0, 2 * np.minimum(below, above))
    return p
