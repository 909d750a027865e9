"""How far apart the scores of included and emptied canaries are, in standard deviations: μ and its interval.

Canary i, whose figure is μᵢ, has the score a + ρ·μᵢ·(bᵢ − ½) + τ·noise, where b is its coin, 0 or 1, and a the same for
all. Least squares finds ρ/τ, with one variance for both coins: a fit of two variances is biased upward, since ε is most
sensitive to the smaller one. An honest ledger has ρ/τ ≤ 1: a canary is no easier to find than its figure says.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pfels.arrays import Reals

FEWEST = 8  # scores for which the interval below is good enough


@dataclass(frozen=True)
class ScoreFit:
    """ρ/τ, and how well it is known: t = (ρ/τ)·`scale` has a noncentral t law with `freedom` degrees of freedom."""

    ratio: float
    scale: float
    freedom: int

    def limit(self, confidence: float) -> float:
        """The one-sided confidence limit of ρ/τ: a lower one for a confidence of 0.95, an upper one for 0.05.

        Of a noncentral t variable with n degrees of freedom, P(T ≤ t) is about Φ((t(1 − 1/4n) − nc)/√(1 + t²/2n)).
        """
        t, n = self.ratio * self.scale, self.freedom
        spread = math.sqrt(1 + t**2 / (2 * n))
        return (t * (1 - 1 / (4 * n)) - float(ndtri(confidence)) * spread) / self.scale


def fit_scores(scores: Reals, included: NDArray[np.bool_], expected: Reals) -> ScoreFit | None:
    """The fit of scores to coins; `expected` is μᵢ of each canary. None where there are too few of either coin.

    >>> coins = np.arange(1000) % 2 == 0
    >>> noise = np.repeat([1.0, -1.0], 500)
    >>> round(fit_scores(3.0 * coins + noise, coins, np.full(1000, 4.0)).ratio, 2)
    0.75
    """
    x = np.where(included, expected, -expected) / 2
    spread = float(((x - x.mean()) ** 2).sum())
    freedom = len(scores) - 2
    if len(scores) < FEWEST or min(included.sum(), (~included).sum()) < 2 or spread <= 0:
        return None
    slope = float(((x - x.mean()) * (scores - scores.mean())).sum()) / spread
    left = scores - scores.mean() - slope * (x - x.mean())
    tau = math.sqrt(float((left**2).sum()) / freedom)
    return None if tau == 0 else ScoreFit(slope / tau, math.sqrt(spread), freedom)
