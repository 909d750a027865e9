"""What one run certifies: a lower bound on μ from guesses of who was included (Mahloujifar, Melis and Chaudhuri 2024).

The auditor includes each of m canaries by a fair coin. Whoever sees the release guesses the coins of some of them. If
every canary is μ-GDP, too many right guesses are unlikely, however the release depends on all of them together.

Let pᵢ be the probability of exactly i right guesses out of n. One canary, chosen at random, is guessed right and i are
right with probability (i/m)·pᵢ; with its coin turned over the same guess is wrong and i − 1 are right. So
Σ_{i>j} (i/m)·pᵢ ≤ f̄(Σ_{i≥j} ((n − i)/m)·pᵢ) for every j, with f̄(x) = Φ(Φ⁻¹(x) + μ) = 1 − f(x), f the trade-off curve.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from pfels.arrays import Reals
from pfels.privacy import checks

SHARES = (0.1, 0.3, 0.6, 1.0)  # of the canaries, those with the clearest scores, that are guessed; the best is taken
MOST_MU = 1e3
PRECISION = 1e-4


def certified_mu(scores: Reals, included: NDArray[np.bool_], *, confidence: float) -> float:
    """The largest μ such that guesses from these scores refute every smaller one, with this confidence; 0: none.

    A canary is guessed to be in where its score is above the mean of all scores. How many are guessed is settled
    beforehand: each of the SHARES is tried, at the same part of the allowed error.

    >>> coins = np.arange(1000) % 2 == 0
    >>> round(certified_mu(coins + 0.0, coins, confidence=0.95), 2)
    2.01
    """
    error = (1 - confidence) / len(SHARES)
    clear = np.argsort(-np.abs(scores - scores.mean()), kind="stable")
    right = (scores > scores.mean()) == included
    found = 0.0
    for share in SHARES:
        guesses = round(share * len(scores))
        if guesses:
            correct = int(right[clear[:guesses]].sum())
            found = max(found, refuted_mu(correct, guesses=guesses, canaries=len(scores), error=error))
    return found


def refuted_mu(correct: int, *, guesses: int, canaries: int, error: float) -> float:
    """The largest μ such that under every smaller one this many right guesses have a probability below `error`."""
    checks.require_count("guesses", guesses, maximum=canaries)
    checks.require_count("correct", correct, minimum=0, maximum=guesses)
    low, high = 0.0, MOST_MU
    if _possible(0.0, correct, guesses, canaries, error):
        return 0.0
    while high - low > PRECISION:
        middle = (low + high) / 2
        if _possible(middle, correct, guesses, canaries, error):
            high = middle
        else:
            low = middle
    return low


def _possible(mu: float, correct: int, guesses: int, canaries: int, error: float) -> bool:
    """Whether P(at least `correct` right guesses) = `error` contradicts nothing, if every canary is μ-GDP.

    `right` and `wrong` are Σ_{i≥j} (i/m)pᵢ and Σ_{i≥j} ((n − i)/m)pᵢ at their smallest, from j = `correct` down; over
    all i they must sum to n/m.
    """
    right, wrong = error * correct / canaries, error * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        more = max(wrong, float(ndtr(ndtri(right) - mu)))
        right += i / (guesses - i) * (more - wrong)
        wrong = more
        if right + wrong > guesses / canaries:
            return False
    return True
