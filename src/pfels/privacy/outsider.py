"""What rounds with a sampled cohort tell those who see only the models: dp-accounting's PLD and RDP accountants.

Each returns an upper bound within seconds, however little noise there was and however many rounds. dp-accounting is
imported where it is used: many figures do without it, and take less time than its import.
"""

import itertools
import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from pfels.arrays import Reals
from pfels.privacy.events import Sampling
from pfels.privacy.gaussian import amplified, gaussian_mu, revealed_epsilon

MOST_LEVELS = 12
LARGEST_NOISE_MULTIPLIER = 1e6  # more is taken as this much: the accountants' differences would drown in rounding
SMALLEST_PLD_DELTA = 1e-10  # below, rounding errors of the PLD's Fourier transforms show in ε
MOST_PLD_ROUNDS = 200_000  # beyond, dp-accounting's PLD takes long to decide how to go about it
SMALLEST_INTERVAL, MOST_POINTS = 1e-6, 5e5  # of the PLD's grids
ORDERS = (*range(2, 24), *range(24, 40, 2), *range(40, 64, 4), 64, 72, 80, 96, 112, 128, 160, 512, 1024)
Rounds = Mapping[float, int]  # how many rounds had each noise multiplier


def coarsened(rounds: Rounds) -> dict[float, int]:
    """The same rounds at no more than MOST_LEVELS noise multipliers, each as it was or rounded down.

    Less noise only costs more, so the figure stays an upper bound; a few different values are left as they are.
    """
    capped: dict[float, int] = {}
    for z in sorted(rounds):
        level = min(z, LARGEST_NOISE_MULTIPLIER)
        capped[level] = capped.get(level, 0) + rounds[z]
    if len(capped) <= MOST_LEVELS:
        return capped
    least, most = min(capped), max(capped)
    step = math.log(most / least) / MOST_LEVELS

    def bin_of(z: float) -> int:
        return min(int(math.log(z / least) / step), MOST_LEVELS - 1)

    # Within a bin everything goes down to the smallest value that is really there.
    bins = [list(members) for _, members in itertools.groupby(capped, key=bin_of)]
    return {members[0]: sum(capped[z] for z in members) for members in bins}


def poisson_epsilon(rounds: Rounds, *, devices: int, cohort: int, delta: float) -> tuple[float, str]:
    """ε for add-remove neighbours where each device is in with probability r/N, and which accountant gave it."""
    rounds, rate = coarsened(rounds), cohort / devices
    bounds = {"revealed-sampling": _revealed(rounds, rate=rate, delta=delta)}
    if delta < SMALLEST_PLD_DELTA or sum(rounds.values()) > MOST_PLD_ROUNDS:
        bounds["rdp"] = _rdp_epsilon(rounds, devices=devices, cohort=cohort, sampling=Sampling.POISSON, delta=delta)
    else:
        bounds["pld"] = _pld_epsilon(rounds, rate=rate, delta=delta, ceiling=bounds["revealed-sampling"])
    return _least(bounds)


def fixed_size_epsilon(rounds: Rounds, *, devices: int, cohort: int, delta: float) -> tuple[float, str]:
    """ε for replace-one neighbours where exactly r of N take part, and which accountant gave it.

    Replacing a device moves the sum by up to 2s. A noise multiplier here is relative to s, and dp-accounting's is
    relative to what the neighbouring relation moves, so it is handed z/2.
    """
    halved = {z / 2: count for z, count in coarsened(rounds).items()}
    sampling = Sampling.WITHOUT_REPLACEMENT
    return _least(
        {
            "rdp": _rdp_epsilon(halved, cohort=cohort, devices=devices, sampling=sampling, delta=delta),
            "revealed-sampling": _revealed(halved, rate=cohort / devices, delta=delta),
        }
    )


def _least(bounds: dict[str, float]) -> tuple[float, str]:
    name = min(bounds, key=lambda name: bounds[name])  # the first of equals: the PLD may have begun from another bound
    return bounds[name], name


def _revealed(rounds: Rounds, *, rate: float, delta: float) -> float:
    # All rounds are taken to be as bad as the worst: a coarse bound for uneven noise, which the others are not.
    return revealed_epsilon(noise_multiplier=min(rounds), rate=rate, rounds=sum(rounds.values()), delta=delta)


def _pld_epsilon(rounds: Rounds, *, rate: float, delta: float, ceiling: float) -> float:
    """ε from the PLD accountant, on a grid that is made finer until that no longer matters.

    dp-accounting's grids are pessimistic, so that each ε is an upper bound. A fixed interval would take minutes where
    z is small, and lose the whole figure to rounding where z is large.
    """
    z = min(rounds)
    one_round = amplified(epsilon=1 / (2 * z**2) + 11 / z, rate=rate)  # the widest loss, 11 standard deviations out
    best, interval = ceiling, one_round / 2000
    while 0 < best < 1e5:  # past that the loss is beyond dispute, and the PLD's grid beyond floats
        interval = max(interval, SMALLEST_INTERVAL, _width(best, delta) / MOST_POINTS)
        found = _pld_epsilon_at(interval, rounds, rate=rate, delta=delta)
        settled = 0.998 * best < found <= best  # what a finer grid could still gain is a tenth of this or less
        best, interval = min(best, found), interval / 4
        too_fine = interval < SMALLEST_INTERVAL or len(rounds) * one_round / interval > 6e4
        if settled or too_fine or not 0 < best < 1000 or _width(best, delta) / interval > MOST_POINTS:
            break
    return best


def _width(epsilon: float, delta: float) -> float:
    # How far the sum of all rounds' losses spreads, if it is about normal: 8 standard deviations to either side.
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    return mu**2 + 16 * mu


def _pld_epsilon_at(interval: float, rounds: Rounds, *, rate: float, delta: float) -> float:
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=interval)
    for z, count in rounds.items():
        accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(z)), count)
    return float(accountant.get_epsilon(delta))


def _rdp_epsilon(rounds: Rounds, *, devices: int, cohort: int, sampling: Sampling, delta: float) -> float:
    from dp_accounting.rdp import compute_epsilon

    total: Reals = np.zeros(len(ORDERS))
    for z, count in rounds.items():
        total += count * np.array(_rdp_of_one_round(z, devices, cohort, sampling))
    return float(compute_epsilon(ORDERS, total, delta)[0])


@lru_cache(maxsize=256)
def _rdp_of_one_round(z: float, devices: int, cohort: int, sampling: Sampling) -> tuple[float, ...]:
    from dp_accounting import (
        GaussianDpEvent,
        NeighboringRelation,
        PoissonSampledDpEvent,
        SampledWithoutReplacementDpEvent,
    )
    from dp_accounting.rdp import RdpAccountant

    noise = GaussianDpEvent(z)
    if sampling is Sampling.POISSON:
        accountant = RdpAccountant(ORDERS, NeighboringRelation.ADD_OR_REMOVE_ONE)
        accountant.compose(PoissonSampledDpEvent(cohort / devices, noise))
    else:
        accountant = RdpAccountant(ORDERS, NeighboringRelation.REPLACE_ONE)
        accountant.compose(SampledWithoutReplacementDpEvent(devices, cohort, noise))
    # dp-accounting takes a divergence that rounds to zero or below for no loss at all.
    return tuple(np.maximum(accountant.rdp, 1e-14).tolist())
