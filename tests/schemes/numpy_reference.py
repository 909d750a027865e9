"""The schemes of the related work a second time: plain NumPy in double precision, written from their formulas.

Nothing of `pfels` is used. A `Problem` holds what is given: data, initial model and raw draws. Training, clipping,
levels, added noise, divisor and budget are worked out here.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Ids = NDArray[np.int64]

# Margins that the product documents, so that rounding in float32 or in a running sum breaks no bound.
CLIP_MARGIN, BUDGET_MARGIN = 1e-6, 1e-9


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is given. Per device: examples and power limit; per round: cohort, complex gains of its members, and the
    receiver's noise; `device_noise(round, device)` is standard normal."""

    features: Sequence[Reals]
    labels: Sequence[Ids]
    powers: Reals
    start: Reals
    hidden: int
    cohorts: Sequence[Ids]
    gains: Sequence[NDArray[np.complex128]]
    receiver_noise: Sequence[Reals]
    device_noise: Callable[[int, int], Reals]
    cohort_size: int
    learning_rate: float
    epochs: int
    momentum: float
    clip: float
    noise_std: float
    delta: float

    @property
    def bound(self) -> float:
        """ητC₁."""
        return self.learning_rate * self.epochs * self.clip

    @property
    def dimension(self) -> int:
        return len(self.start)

    @property
    def rounds(self) -> int:
        return len(self.cohorts)


class Played(NamedTuple):
    """The final model, β of every round, and what limited each."""

    theta: Reals
    betas: list[float]
    limits: list[str]


# training


def gradient(theta: Reals, x: Reals, labels: Ids, hidden: int) -> Reals:
    """The gradient of the mean cross-entropy of a network with one hidden layer, or none if `hidden` is 0."""
    inputs, first = x.shape[1], (x.shape[1] + 1) * hidden
    if not hidden:
        return _dense_gradient(theta, x, labels)[0]
    W, b = theta[: inputs * hidden].reshape(inputs, hidden), theta[inputs * hidden : first]
    before = x @ W + b
    rest, back = _dense_gradient(theta[first:], np.maximum(before, 0.0), labels)
    back = back * (before > 0)
    return np.concatenate([(x.T @ back).ravel(), back.sum(0), rest])


def _dense_gradient(theta: Reals, x: Reals, labels: Ids) -> tuple[Reals, Reals]:
    """For softmax regression: the gradient in its parameters, and in x."""
    inputs = x.shape[1]
    classes = len(theta) // (inputs + 1)
    V, c = theta[: inputs * classes].reshape(inputs, classes), theta[inputs * classes :]
    logits = x @ V + c
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    p /= len(labels)
    return np.concatenate([(x.T @ p).ravel(), p.sum(0)]), p @ V.T


def clipped_update(problem: Problem, theta: Reals, device: int) -> Reals:
    """Full-batch momentum SGD on one device's examples, and its update cut to ητC₁."""
    own, velocity = theta.copy(), np.zeros_like(theta)
    for _ in range(problem.epochs):
        g = gradient(own, problem.features[device], problem.labels[device], problem.hidden)
        velocity = problem.momentum * velocity + g
        own = own - problem.learning_rate * velocity
    update = own - theta
    length = float(np.sqrt(np.sum(update**2)))
    return update * min(1.0, problem.bound * (1 - CLIP_MARGIN) / length)


# privacy


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The μ at which Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) = δ, by bisection."""

    def cdf(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    low, high = 1e-9, 1e4
    for _ in range(200):
        mu = math.sqrt(low * high)
        second = cdf(-mu / 2 - epsilon / mu)
        tail = math.exp(epsilon + math.log(second)) if second > 0 else 0.0
        low, high = (low, mu) if cdf(mu / 2 - epsilon / mu) - tail > delta else (mu, high)
    return low


def claimed_noise_multiplier(problem: Problem, epsilon: float) -> float:
    """z = 2√2·(r/N)·√log(1.25r/(Nδ))/ε: what the paper of PFELS asks for ε per round."""
    rate = problem.cohort_size / len(problem.powers)
    return 2 * math.sqrt(2) * rate * math.sqrt(math.log(1.25 * rate / problem.delta)) / epsilon


# the three schemes


def liu_simeone(problem: Problem, *, total_epsilon: float, contraction: float) -> Played:
    """β = min(ν·ρ^((T−1−t)/4), power limit), with the maximum ν that every device's budget allows."""
    last = problem.rounds - 1
    wanted = np.array([contraction ** ((last - t) / 4) for t in range(problem.rounds)])
    limits = np.array([_weakest(problem, t) / problem.bound for t in range(problem.rounds)])
    budget = gaussian_mu(total_epsilon, problem.delta) ** 2 * (1 - BUDGET_MARGIN)
    allowed = budget * (problem.noise_std / problem.bound) ** 2  # for the sum of a device's β²
    taking_part = [
        [t for t in range(problem.rounds) if device in problem.cohorts[t]] for device in range(len(problem.powers))
    ]
    nu = min(filled_to(wanted[rounds], limits[rounds], allowed) for rounds in taking_part)
    betas = np.minimum(nu * wanted, limits)
    named = ["power" if nu * w >= limit else "privacy" for w, limit in zip(wanted, limits, strict=True)]
    return _play(problem, betas.tolist(), named)


def filled_to(wanted: Reals, limits: Reals, allowed: float) -> float:
    """The ν at which Σ min(ν·wantedₜ, limitₜ)² = allowed; infinite if the limits alone are within it.

    Rounds reach their limits in rising order of limit/wanted: it is solved for each number of rounds at their limits.
    """
    order = np.argsort(limits / wanted)
    w, limit = wanted[order], limits[order]
    if np.sum(limit**2) <= allowed:
        return math.inf
    for full in range(len(w)):
        rest = allowed - np.sum(limit[:full] ** 2)
        nu = math.sqrt(max(rest, 0.0) / np.sum(w[full:] ** 2))
        if nu * w[full] <= limit[full]:
            return nu
    raise AssertionError("unreachable: the limits exceed what is allowed")


def artificial_noise(problem: Problem, *, epsilon: float) -> Played:
    """Noise of energy Pᵢ − (βC/|hᵢ|)² on top of every signal; β by bisection on the noise multiplier that results."""
    C, d, z = problem.bound, problem.dimension, claimed_noise_multiplier(problem, epsilon)
    betas, named, noise = [], [], []
    for t in range(problem.rounds):
        magnitudes, P = np.abs(problem.gains[t]), problem.powers[problem.cohorts[t]]

        def arriving_variance(beta: float, magnitudes: Reals = magnitudes, P: Reals = P) -> float:
            added = P - (beta * C / magnitudes) ** 2
            return problem.noise_std**2 + float(np.sum(magnitudes**2 * added)) / d

        power_limit = beta = _weakest(problem, t) / C
        if math.sqrt(arriving_variance(power_limit)) < z * power_limit * C:
            low, high = 0.0, power_limit
            for _ in range(200):
                beta = (low + high) / 2
                low, high = (beta, high) if math.sqrt(arriving_variance(beta)) > z * beta * C else (low, beta)
        std = np.sqrt(np.maximum(P - (beta * C / magnitudes) ** 2, 0.0) / d)
        betas.append(beta)
        named.append("power" if beta == power_limit else "privacy")
        drawn = [problem.device_noise(t, int(i)) for i in problem.cohorts[t]]
        noise.append([s * own for s, own in zip(std, drawn, strict=True)])
    return _play(problem, betas, named, noise=noise)


class GainRange(NamedTuple):
    """|h| is exponential with this mean, moved into [low, high]."""

    mean: float
    low: float
    high: float


def truncated_inversion(
    problem: Problem,
    *,
    gain_range: GainRange,
    lowest_snr_db: float,
    floor: float | None = None,
    total_epsilon: float | None = None,
) -> Played:
    """Devices at or above the floor send at β = floor·√P_min/C, or at what the budget allows the one that sends most
    often. Without a given floor it is the g with the maximum of g·P(|h| ≥ g), searched for on a grid."""
    g = best_floor(gain_range) if floor is None else floor
    smallest_power = 10 ** (lowest_snr_db / 10) * problem.dimension * problem.noise_std**2
    power_limit = beta = g * math.sqrt(smallest_power) / problem.bound
    sends = [np.abs(problem.gains[t]) >= g for t in range(problem.rounds)]
    if total_epsilon is not None:
        ids = np.concatenate([problem.cohorts[t][sends[t]] for t in range(problem.rounds)])
        z = math.sqrt(np.bincount(ids).max()) / gaussian_mu(total_epsilon, problem.delta) * (1 + BUDGET_MARGIN)
        beta = min(beta, problem.noise_std / (z * problem.bound))
    limit = "power" if beta == power_limit else "privacy"
    divisors = [float(np.sum(mask)) for mask in sends]
    return _play(problem, [beta] * problem.rounds, [limit] * problem.rounds, sends=sends, divisors=divisors)


def best_floor(gain_range: GainRange) -> float:
    """The g with the maximum of g·P(|h| ≥ g), refined around the best of a grid."""
    mean, low, high = gain_range

    def value(g: Reals) -> Reals:
        return g * np.where(g <= low, 1.0, np.exp(-g / mean))

    left, right = low, high
    for _ in range(60):
        grid = np.linspace(left, right, 101)
        at = int(np.argmax(value(grid)))
        left, right = grid[max(at - 1, 0)], grid[min(at + 1, 100)]
    # The maximum is flat: the grid finds it to the root of the rounding error, and the stationary point is exact.
    found = float((left + right) / 2)
    return mean if abs(found - mean) < 1e-6 * mean else found


def _weakest(problem: Problem, t: int) -> float:
    """minᵢ |hᵢ|√Pᵢ over the cohort."""
    return float(np.min(np.abs(problem.gains[t]) * np.sqrt(problem.powers[problem.cohorts[t]])))


def _play(
    problem: Problem,
    betas: list[float],
    limits: list[str],
    *,
    sends: Sequence[Any] | None = None,
    noise: Sequence[Sequence[Reals]] | None = None,
    divisors: Sequence[float] | None = None,
) -> Played:
    """All rounds: signals (β/|h|)·Δ with phases undone, their superposition with the receiver's noise, the estimate."""
    theta = problem.start.copy()
    for t, beta in enumerate(betas):
        received = problem.receiver_noise[t].astype(np.complex128)
        for place, device in enumerate(problem.cohorts[t]):
            if sends is not None and not sends[t][place]:
                continue
            h = problem.gains[t][place]
            x = beta / abs(h) * clipped_update(problem, theta, int(device))
            if noise is not None:
                x = x + noise[t][place]
            received = received + h * (np.conj(h) / abs(h) * x)
        divisor = float(problem.cohort_size) if divisors is None else divisors[t]
        if divisor:
            theta = theta + received.real / (divisor * beta)
    return Played(theta, betas, limits)
