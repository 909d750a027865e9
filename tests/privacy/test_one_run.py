"""What one run certifies, and how well scores tell μ."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import norm

from pfels.errors import InputError
from pfels.privacy.one_run import certified_mu, refuted_mu
from pfels.privacy.score_fit import fit_scores


def largest_chance(correct: int, *, guesses: int, canaries: int, mu: float) -> float:
    """The maximum of P(at least `correct` right) that the theorem's inequalities allow, by linear programming: each
    says that a sum is below a concave function of another sum, so below all its tangents."""
    i = np.arange(guesses + 1)
    rows, limits = [], []
    for j in range(guesses):
        right, wrong = np.where(i > j, i, 0) / canaries, np.where(i >= j, guesses - i, 0) / canaries
        for x in np.geomspace(1e-9, 0.999, 4000):
            z = norm.ppf(x)
            slope = math.exp((z**2 - (z + mu) ** 2) / 2)
            rows.append(right - slope * wrong)
            limits.append(norm.cdf(z + mu) - slope * x)
    found = linprog(-(i >= correct).astype(float), rows, limits, np.ones((1, guesses + 1)), [1.0])
    return -float(found.fun)


@pytest.mark.parametrize(
    ("correct", "guesses", "canaries", "mu"), [(11, 12, 12, 0.7), (6, 6, 20, 1.2), (9, 10, 30, 0.4)]
)
def test_the_bound_is_the_extreme_that_the_inequalities_allow(correct: int, guesses: int, canaries: int, mu: float):
    chance = largest_chance(correct, guesses=guesses, canaries=canaries, mu=mu)
    below, above = (refuted_mu(correct, guesses=guesses, canaries=canaries, error=f * chance) for f in (0.99, 1.01))
    assert below <= mu <= above
    assert above - below < 0.02


@pytest.mark.parametrize("mu", [0.3, 1.0, 4.0])
def test_it_exceeds_the_truth_in_no_more_runs_than_its_confidence_allows(mu: float):
    draw, runs, canaries = np.random.default_rng(0), 200, 60
    above = 0
    for _ in range(runs):
        coins = draw.random(canaries) < 0.5
        above += certified_mu(draw.standard_normal(canaries) + mu * coins, coins, confidence=0.8) > mu
    assert above <= 0.2 * runs + 4 * math.sqrt(0.2 * 0.8 * runs)


def test_it_rises_with_right_guesses_and_with_canaries_and_comes_within_a_factor_of_three():
    found = [refuted_mu(c, guesses=200, canaries=1000, error=0.05) for c in (100, 120, 150, 190, 200)]
    assert found[0] == 0
    assert found == sorted(found)
    draw, certified = np.random.default_rng(1), []
    for canaries in (50, 200, 1000):
        coins = draw.random(canaries) < 0.5
        certified.append(certified_mu(draw.standard_normal(canaries) + 2.0 * coins, coins, confidence=0.95))
    assert certified == sorted(certified)
    assert certified[-1] > 2 / 3


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="correct = 5: must be a whole number from 0 to 4"):
        refuted_mu(5, guesses=4, canaries=10, error=0.05)
    with pytest.raises(InputError, match="guesses = 11: must be a whole number from 1 to 10"):
        refuted_mu(5, guesses=11, canaries=10, error=0.05)


@pytest.mark.parametrize(("canaries", "mu"), [(12, 1.0), (40, 4.0), (400, 0.5)])
def test_the_limits_of_the_fit_have_their_confidence(canaries: int, mu: float):
    """Canaries differ in μ, the noise has another scale and the scores another origin than expected."""
    draw, runs = np.random.default_rng(2), 3000
    below, missed = {0.95: 0, 0.05: 0}, 0
    for _ in range(runs):
        coins, expected = draw.random(canaries) < 0.5, mu * draw.uniform(0.5, 1.0, canaries)
        scores = 3 + 2 * (draw.standard_normal(canaries) + expected * (coins - 0.5))
        fit = fit_scores(scores, coins, expected)
        if fit is None:
            missed += 1
            continue
        for confidence in below:
            below[confidence] += fit.limit(confidence) <= 1
    assert missed < 0.02 * runs
    for confidence, count in below.items():
        share = count / (runs - missed)
        assert share == pytest.approx(confidence, abs=0.02 + 4 * math.sqrt(0.05 * 0.95 / runs))


def test_the_fit_of_one_variance_is_not_biased():
    """An audit of 200 canaries finds the ratio to 0.06, so the mean of 500 to 0.003; a t variable adds 3/4n = 0.004."""
    draw, found = np.random.default_rng(3), []
    for _ in range(500):
        coins = draw.random(200) < 0.5
        fit = fit_scores(draw.standard_normal(200) + 4 * coins, coins, np.full(200, 4.0))
        assert fit is not None
        found.append(fit.ratio)
    assert np.mean(found) == pytest.approx(1, abs=0.004 + 4 * 0.003)


@pytest.mark.parametrize("coins", [[True] * 10, [True] * 9 + [False], [True, False, True, False]])
def test_too_few_of_a_coin_are_no_fit(coins: list[bool]):
    included = np.array(coins)
    assert fit_scores(np.arange(len(coins)) * 1.0, included, np.ones(len(coins))) is None
