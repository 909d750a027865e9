"""PFELS+: the paper's idea with its holes closed (docs/pfels-plus.md says why each step is sound).

Poisson cohorts; a second clip after the projection, to s = √p·ητC₁; one public level β from a budget for the whole
training; a device whose channel cannot carry it, or is too weak to be worth its energy, stays silent; and a divisor
that everybody knows beforehand.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from pfels.arrays import Ids
from pfels.privacy.calibration import Budget, calibrate, ration
from pfels.privacy.events import Adversary, Sampling
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.plan import Air, Link, Tally
from pfels.schemes.system import System
from pfels.uplink.channel import gain_exceeds, snr_at
from pfels.uplink.clipping import clip
from pfels.uplink.compression import lift, project
from pfels.uplink.power import carries, serving_level, transmit

if TYPE_CHECKING:
    from pfels.training.local import LocalUpdates


QUANTILES = (np.arange(256) + 0.5) / 256  # of the law of the power limits


@dataclass(frozen=True)
class Level:
    """What everybody knows before the first round: the level β and the limit that set it, the noise multiplier, the
    bound s of what is sent, the share of devices whose channel carries β, and how often one may send (None: always)."""

    beta: float
    limit: str
    noise_multiplier: float
    bound: float
    carried: float
    ration: int | None


def public_level(system: System) -> Level:
    """The level of a whole training, from the budget and the laws of the channel alone: it tells nothing of anyone."""
    assert system.budget is not None, "pfels-plus needs a budget for the whole training"
    s = math.sqrt(system.kept / system.dimension) * system.bound
    z, times = _noise_and_ration(system, system.budget)
    gain, snr = system.gain_law, system.snr_law
    powers = snr_at(QUANTILES, low_db=snr.low_db, high_db=snr.high_db, scale=snr.scale)
    amplitudes = np.sqrt(powers * system.dimension) * system.noise_std

    def carried(beta: float) -> float:
        needed = np.maximum(beta * s / amplitudes, system.silent_below)
        return float(gain_exceeds(needed, mean=gain.mean, low=gain.low, high=gain.high).mean())

    allowed = system.noise_std / (z * s)
    beta = serving_level(beta=allowed, carried=carried)
    limit = "privacy" if beta == allowed else "power"
    return Level(beta, limit, system.noise_std / (beta * s), s, carried(beta), times)


def _noise_and_ration(system: System, budget: Budget) -> tuple[float, int | None]:
    """The least noise multiplier that meets the budget, and how often a device may send for it to be met."""
    times = None
    if budget.adversary is Adversary.SERVER:
        times = ration(rounds=budget.rounds, rate=system.cohort_size / system.devices)
    found = calibrate(
        adversary=budget.adversary, epsilon=budget.epsilon, delta=system.delta, rounds=budget.rounds,
        devices=system.devices, cohort=system.cohort_size, sampling=Sampling.POISSON, participations=times,
    )  # fmt: skip
    return found.noise_multiplier * (1 + 1e-9), times  # so that the rounding of a running sum spends no more


def prepare(system: System, t: int) -> Link:
    """Who is drawn for round t and who of them sends, at the one level of the whole training."""
    level = system.once("level", lambda: public_level(system))
    cohort = system.cohort(t)
    sending = _sending(system, level, t)
    air = Air(
        system.gains(t, sending), system.powers(sending), level.beta, level.limit, bound=level.bound, share=1.0
    )  # share = 1: every single transmission stays within its power, not the average one
    return system.link(
        t,
        cohort, sending=sending, subcarriers=system.kept, noise_multiplier=level.noise_multiplier, air=air,
        cohort_dependent=False, claimed=False,
    )  # fmt: skip


def indices(system: System, theta: Tensor, t: int) -> Tensor:
    """The index set of round t, from the shared seed and, with public-top-k, the models already released."""
    return system.chosen(t, theta)


def send(system: System, link: Link, part: "LocalUpdates", A: Tensor, tally: Tally) -> Tensor:
    """The signals of devices that have trained: clipped, projected, clipped again, scaled."""
    air = link.on_air
    h, P = air.gains[part.places], air.powers[part.places]
    delta = _with_memory(system, part, link.sending, tally)
    sent = clip(project(delta, A), bound=air.bound)
    if system.error_feedback:
        delta[:, A] = 0  # what a clip cuts off is not kept: a device may never send as much as it would then pile up
        _hold_back(delta, link.sending[part.places], tally)
    return transmit(sent, h, P, beta=air.beta, bound=air.bound, share=air.share)


def hold(system: System, link: Link, part: "LocalUpdates", tally: Tally) -> None:
    """Devices that were drawn and stay silent keep their whole update for a later round."""
    _hold_back(_with_memory(system, part, link.waiting, tally), link.waiting[part.places], tally)


def receive(system: System, link: Link, y: Tensor, A: Tensor) -> Tensor:
    """The server's estimate of the mean update."""
    level = system.once("level", lambda: public_level(system))
    return lift(y, A, dimension=system.dimension) / (
        expected_transmitters(system, level, link.round) * link.on_air.beta
    )


def expected_transmitters(system: System, level: Level, t: int) -> float:
    """How many send in round t on average: the public divisor."""
    rate = system.cohort_size / system.devices * level.carried
    left = 1.0 if level.ration is None else float(binom.cdf(level.ration - 1, t, rate))
    return max(system.devices * rate * left, 1.0)


def _sending(system: System, level: Level, t: int) -> Ids:
    """Those drawn in round t whose channel carries β and who have not used up their ration."""
    if level.ration is None:
        return _able(system, level, t)
    sent = system.once("sent", lambda: _Sent(np.zeros(system.devices, np.int64)))
    if sent.rounds > t:
        sent.rounds, sent.times = 0, np.zeros(system.devices, np.int64)
    while sent.rounds < t:
        sent.times[sent.within(level.ration, _able(system, level, sent.rounds))] += 1
        sent.rounds += 1
    return sent.within(level.ration, _able(system, level, t))


@dataclass
class _Sent:
    """How often each device has sent in the first `rounds` rounds. It follows from the seed, and is counted on from
    where it was."""

    times: NDArray[np.int64]
    rounds: int = 0

    def within(self, ration: int, able: Ids) -> Ids:
        return able[self.times[able] < ration]


def _able(system: System, level: Level, t: int) -> Ids:
    cohort = system.cohort(t)
    h = system.gains(t, cohort)
    able = carries(h, system.powers(cohort), beta=level.beta, bound=level.bound)
    return cohort[able & (np.abs(h) >= system.silent_below)]


def _with_memory(system: System, part: "LocalUpdates", devices: Ids, tally: Tally) -> Tensor:
    """Each update with what its device held back in earlier rounds, clipped to ητC₁."""
    delta = part.updates
    if system.error_feedback:
        for row, device in enumerate(devices[part.places].tolist()):
            if device in tally.memory:
                delta[row] += tally.memory[device]
    return clip(delta, bound=system.bound)


def _hold_back(rows: Tensor, devices: Ids, tally: Tally) -> None:
    tally.held_back |= {device: row.clone() for device, row in zip(devices.tolist(), rows, strict=True)}
