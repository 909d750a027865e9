"""Budgets for a whole training, and the minimum noise that meets one."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pfels.errors import InputError
from pfels.privacy import checks
from pfels.privacy.accountant import blind_server_loss, outsider_loss, server_loss
from pfels.privacy.events import Adversary, PrivacyLoss, Sampling, turns_per_device
from pfels.privacy.gaussian import gaussian_mu, mu_squared

LEAST, MOST = 1e-3, 1e6  # the noise multipliers that are tried
LEAST_EPSILON, MOST_EPSILON = 1e-9, 1e6
CLOSE = 0.999  # an ε from here to 1 times the budget is close enough


@dataclass(frozen=True, init=False)
class Budget:
    """What a whole training may cost: ε at the config's δ, and the adversary against whom it must hold.

    >>> Budget(8.0, "server")
    Budget(epsilon=8.0, adversary=<Adversary.SERVER: 'server'>)
    """

    epsilon: float
    adversary: Adversary

    def __init__(self, epsilon: float, adversary: Adversary | str = Adversary.SERVER) -> None:
        checks.require_budget("epsilon", epsilon)
        if adversary not in list(Adversary):
            raise InputError(f"adversary = {adversary!r}: must be one of {', '.join(Adversary)}")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "adversary", Adversary(adversary))

    def settings(self) -> dict[str, float | str]:
        """The budget as config keys."""
        return {"privacy.total_epsilon": self.epsilon, "privacy.adversary": self.adversary.value}


@dataclass(frozen=True)
class RequiredNoise:
    """The noise multiplier that a budget requires of a scheme, the level β that gives it (None on ideal links), and
    the privacy loss of a training with it: never more than the budget."""

    noise_multiplier: float
    beta: float | None
    loss: PrivacyLoss


@dataclass(frozen=True)
class Calibration:
    """A noise multiplier, and what the accountant says of a training with it: never more than the budget."""

    noise_multiplier: float
    loss: PrivacyLoss


def calibrate(
    *,
    adversary: Adversary,
    epsilon: float,
    delta: float,
    rounds: int,
    devices: int,
    cohort: int,
    sampling: Sampling,
    participations: int | None = None,
    exposure: float = 1.0,
) -> Calibration:
    """The smallest noise multiplier, the same every round, with which the whole training costs at most (ε, δ).

    Against the server a device pays for each of its `participations`, which nobody can promise to be fewer than all
    `rounds`, unless devices take turns; a caller who can, says so. Against an outsider everyone is in the same position
    and it is not used, except in turns, where an outsider counts as the server. `exposure` is by how much the server's
    other antennas can raise what a transmission costs.
    """
    checks.require_positive("epsilon", epsilon)
    if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        raise InputError(f"epsilon = {epsilon:g}: must be a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}")
    checks.require_delta(delta)
    checks.require_cohort(devices=devices, cohort=cohort)
    checks.require_count("rounds", rounds)
    times = rounds if participations is None else participations
    if sampling is Sampling.TURNS and participations is None:
        times = turns_per_device(devices=devices, cohort=cohort, rounds=rounds)
    checks.require_count("participations", times, maximum=rounds)

    def against_server(z: float) -> PrivacyLoss:
        return server_loss(mu_squared=exposure * mu_squared(z, times=times), participations=times, delta=delta)

    def against_outsider(z: float) -> PrivacyLoss:
        loss = outsider_loss(
            {z: rounds}, devices=devices, cohort=cohort, sampling=sampling, delta=delta, server=against_server(z)
        )
        if adversary is Adversary.BLIND_SERVER:
            return blind_server_loss(loss, sampling=sampling, on_air=True, antennas=1)
        return loss

    if adversary is Adversary.BLIND_SERVER and (sampling is Sampling.WITHOUT_REPLACEMENT or exposure != 1):
        raise InputError("adversary = 'blind-server': needs Poisson sampling, or turns, and a server with one antenna")
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    if adversary is Adversary.SERVER or sampling is Sampling.TURNS:
        figure = against_server if adversary is Adversary.SERVER else against_outsider
        z, step = math.sqrt(exposure * times) / mu, 1 + 1e-12
        while not _meets(figure(z), epsilon):  # by rounding alone, so a step or two
            z *= step
        return Calibration(z, figure(z))
    # Many rounds at a small rate q are about μ-GDP with μ² = q²T(e^(1/z²) − 1): a first guess, and no more than that.
    guess = math.log1p((mu * devices / cohort) ** 2 / rounds) ** -0.5
    return _search(against_outsider, epsilon=epsilon, guess=guess)


def participation_cap(*, rounds: int, rate: float) -> int:
    """The maximum number of participations per device that serves best, where a device is drawn with probability
    `rate` per round and each participation costs privacy.

    With a cap of n, z grows like √n while a device is heard E[min(X, n)] times, X binomial: the n with the largest
    ratio of the two.
    """
    from scipy.special import bdtrc

    times = np.arange(1, rounds + 1)
    heard = np.cumsum(bdtrc(times - 1, rounds, rate))  # E[min(X, n)] = P(X > 0) + … + P(X > n − 1)
    return int(times[np.argmax(heard / np.sqrt(times))])


def _meets(loss: PrivacyLoss, epsilon: float) -> bool:
    return loss.epsilon is not None and loss.epsilon <= epsilon


def _search(loss_at: Callable[[float], PrivacyLoss], *, epsilon: float, guess: float) -> Calibration:
    """The smallest z whose loss meets ε, found from both sides; what is returned has been priced and meets it."""
    z = min(max(guess, LEAST), MOST)
    enough: Calibration | None = None
    short: tuple[float, float] | None = None  # a z that is too small, and its ε
    while True:
        loss = loss_at(z)
        if _meets(loss, epsilon):
            enough = Calibration(z, loss)
        else:
            assert loss.epsilon is not None
            short = (z, loss.epsilon)
        if enough is None:
            if z >= MOST:
                raise InputError(f"epsilon = {epsilon:g}: no noise multiplier up to {MOST:g} meets it")
            z = min(1.5 * z, MOST)
        elif short is None:
            if enough.noise_multiplier <= LEAST or _close(enough, epsilon):
                return enough
            z = max(z / 1.5, LEAST)
        elif _close(enough, epsilon) or enough.noise_multiplier < (1 + 1e-4) * short[0]:
            return enough
        else:
            z = _between(short, enough, epsilon)


def _close(found: Calibration, epsilon: float) -> bool:
    return found.loss.epsilon is not None and found.loss.epsilon >= CLOSE * epsilon


def _between(short: tuple[float, float], enough: Calibration, epsilon: float) -> float:
    """Where the line through both, in logarithms, is just below ε, but at least a tenth of the way from either end."""
    low, high = math.log(short[0]), math.log(enough.noise_multiplier)
    share = 0.5
    if enough.loss.epsilon:
        above, below = math.log(short[1]), math.log(enough.loss.epsilon)
        aim = math.log(epsilon) + math.log(CLOSE) / 2
        share = (above - aim) / (above - below)
    return math.exp(low + min(max(share, 0.1), 0.9) * (high - low))
