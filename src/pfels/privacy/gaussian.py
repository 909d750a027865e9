"""The Gaussian mechanism exactly: δ(ε), its inverses, and what sampling makes of them.

A mechanism is μ-GDP when telling its two worlds apart is as hard as telling N(0, 1) from N(μ, 1). One release with
noise multiplier z is (1/z)-GDP, and releases compose exactly: μ² = Σ 1/z². Everything is done in logarithms: μ may
be anything from 1e-6 to 1e14.
"""

import math
from collections.abc import Callable
from typing import TypeVar, overload

import numpy as np
from scipy import special

from pfels.arrays import Reals

Number = TypeVar("Number", float, Reals)
MOST_STEPS = 100  # of Newton's method, which takes about five


@overload
def mu_squared(noise_multiplier: float, *, times: int = 1) -> float: ...
@overload
def mu_squared(noise_multiplier: Reals, *, times: int = 1) -> Reals: ...
def mu_squared(noise_multiplier: float | Reals, *, times: int = 1) -> float | Reals:
    """μ² = n/z² of n = `times` releases with noise multiplier z; infinite without noise, z = 0."""
    if isinstance(noise_multiplier, np.ndarray):
        with np.errstate(divide="ignore"):
            return times * noise_multiplier**-2.0
    return math.inf if noise_multiplier == 0 else times * noise_multiplier**-2


def log_delta(*, epsilon: float, mu: Reals) -> Reals:
    """log δ(ε) = log(Φ(a) − e^ε·Φ(a − μ)) with a = μ/2 − ε/μ, for each μ > 0.

    As e^ε·φ(a − μ) = φ(a), the second term is φ(a)·R(μ − a) with R the Mills ratio (1 − Φ)/φ, which cannot
    overflow. Where a < 0 the first is φ(a)·R(−a), so that φ(a) factors out and nothing underflows either.
    """
    a = mu / 2 - epsilon / mu
    log_phi = -(a**2) / 2 - math.log(2 * math.pi) / 2
    rest = _mills(mu - a)
    with np.errstate(divide="ignore"):  # δ = 0 to the last digit has logarithm −∞, which is right
        tail = log_phi + np.log(_mills(np.maximum(-a, 0)) - rest)
        body = np.log(np.maximum(special.ndtr(a) - np.exp(log_phi) * rest, 0))
    return np.where(a < 0, tail, body)


def _mills(x: Number) -> Number:
    ratio: Number = math.sqrt(math.pi / 2) * special.erfcx(x / math.sqrt(2))
    return ratio


def _log_delta_and_slope(epsilon: float, mu: float) -> tuple[float, float]:
    """`log_delta` of a single μ, and its derivative by ε, −e^ε·Φ(a − μ)/δ: every round's record needs two ε."""
    a = mu / 2 - epsilon / mu
    log_phi = -(a * a) / 2 - math.log(2 * math.pi) / 2
    rest = float(_mills(mu - a))
    if a < 0:
        tail = float(_mills(-a)) - rest
        return (log_phi + math.log(tail), -rest / tail) if tail > 0 else (-math.inf, -math.inf)
    taken = math.exp(log_phi) * rest
    body = float(special.ndtr(a)) - taken
    return (math.log(body), -taken / body) if body > 0 else (-math.inf, -math.inf)


def gaussian_delta(*, epsilon: float, mu: float) -> float:
    """δ(ε) of a μ-GDP mechanism: Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2)."""
    return math.exp(_log_delta_and_slope(epsilon, mu)[0]) if mu > 0 else 0.0


def gaussian_epsilon(*, mu: float, delta: float) -> float:
    """The ε at which a μ-GDP mechanism has this δ; 0 where δ(0) is less already.

    Newton's method from above. δ(ε) = ∫ e^{−u}·P(L > ε + u) du over u > 0, with a normal loss L, is log-concave, as an
    integral of a log-concave function of (ε, u) is. So log δ lies below its tangents, and each ε on the way is an upper
    bound. It ends where rounding no longer lets ε fall.
    """
    log_of_delta = math.log(delta)
    if mu <= 0 or _log_delta_and_slope(0.0, mu)[0] <= log_of_delta:
        return 0.0
    epsilon = _epsilon_bound(mu, delta)
    for _ in range(MOST_STEPS):
        value, slope = _log_delta_and_slope(epsilon, mu)
        nearer = epsilon + (log_of_delta - value) / slope
        if not 0 < nearer < epsilon * (1 - 1e-15):
            break
        epsilon = nearer
    return float(epsilon)


def gaussian_mu(*, epsilon: float, delta: float) -> float:
    """The largest μ for which μ-GDP gives (ε, δ)."""

    def excess(mu: float) -> float:
        return log_delta(epsilon=epsilon, mu=np.array(mu)).item() - math.log(delta)

    # At the lower end the tail bound of _epsilon_bound gives just ε, so δ(ε) is no more than δ there.
    c = math.sqrt(-2 * math.log(delta))
    lower = 2 * epsilon / (c + math.sqrt(c**2 + 2 * epsilon))
    upper = 2 * lower
    while excess(upper) <= 0:
        lower, upper = upper, 2 * upper
    return _root_between(excess, lower, upper)


def mixture_epsilon(*, mu: Reals, log_weights: Reals, delta: float) -> float:
    """The ε at which Σ wᵢ·δ(ε; μᵢ) = δ, for a mechanism that is μᵢ-GDP with probability wᵢ and says which.

    Weights that sum to less than 1 leave the rest to worlds in which nothing is released.
    """

    def excess(epsilon: float) -> float:
        return float(np.logaddexp.reduce(log_weights + log_delta(epsilon=epsilon, mu=mu))) - math.log(delta)

    return _root(excess, _epsilon_bound(float(mu.max()), delta))


def _root(excess: Callable[[float], float], upper: float) -> float:
    """The ε from 0 to `upper` at which a falling function is 0; 0 where it begins below."""
    return _root_between(excess, 0.0, upper) if excess(0.0) > 0 else 0.0


def _root_between(excess: Callable[[float], float], lower: float, upper: float) -> float:
    from scipy.optimize import brentq  # takes longer to import than most figures take

    return float(brentq(excess, lower, upper, xtol=1e-300, rtol=1e-14))


def _epsilon_bound(mu: float, delta: float) -> float:
    # δ(ε) ≤ Φ(−x) ≤ exp(−x²/2)/2 with x = ε/μ − μ/2, so this is a little more than ε needs to be.
    return mu**2 / 2 + mu * math.sqrt(-2 * math.log(delta))


def amplified(*, epsilon: float, rate: float) -> float:
    """log(1 + q(e^ε − 1)): what an (ε, δ) mechanism gives, with qδ, to those who do not know the sample (Thm 2)."""
    if epsilon < 1:
        return math.log1p(rate * math.expm1(epsilon))
    return epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon))  # the same, where e^ε would overflow


def revealed_epsilon(*, noise_multiplier: float, rate: float, rounds: int, delta: float) -> float:
    """An upper bound on ε after `rounds` sampled rounds that grants the adversary who took part when.

    A device takes part K ~ Binomial(T, q) times, in neighbouring worlds alike, and given K the rounds are
    (√K/z)-GDP; a mixture is no worse than its parts (joint convexity), so δ(ε) ≤ E δ(ε; √K/z). Nearly exact where the
    noise hides so little that sampling hides nothing, and exact at q = 1.
    """
    from scipy.stats import binom  # takes longer to import than most figures take

    count, mean = binom(rounds, rate), rounds * rate
    slack = 1e-6 * delta  # rare counts are not priced one by one: few count as the fewest kept, many as δ = 1
    c = -math.log(slack)
    fewest = max(1, math.floor(mean - math.sqrt(2 * c * mean)))
    most = min(rounds, math.ceil(mean + c / 3 + math.sqrt(c**2 / 9 + 2 * c * mean * (1 - rate))))  # Bernstein
    k = np.arange(fewest, most + 1, dtype=np.float64)
    log_weights = np.asarray(count.logpmf(k), dtype=np.float64)
    if fewest > 1:
        log_weights[0] = count.logcdf(fewest)
    return mixture_epsilon(mu=np.sqrt(k) / noise_multiplier, log_weights=log_weights, delta=delta - slack)
