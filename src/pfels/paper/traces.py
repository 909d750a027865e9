"""Channel statistics of every round as arrays: enough for β, noise and energy at any k and any ε at once."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from pfels.arrays import DeviceIds, Reals
from pfels.privacy.accountant import ServerLedger
from pfels.privacy.gaussian import mu_squared
from pfels.schemes.draws import Draws
from pfels.uplink.power import beta_limit


class RoundTrace(NamedTuple):
    """One round's cohort, its minᵢ |hᵢ|√Pᵢ (infinite if nobody was drawn), and its Σᵢ 1/|hᵢ|²."""

    cohort: DeviceIds
    weakest_amplitude: float
    inverse_gain_sum: float


def round_trace(draws: Draws, t: int) -> RoundTrace:
    """The channel statistics of round t."""
    cohort = draws.cohort(t)
    strengths = np.abs(draws.gains(t, cohort))
    weakest = np.min(strengths * np.sqrt(draws.powers(cohort)), initial=math.inf)
    return RoundTrace(cohort, float(weakest), float(np.sum(strengths**-2.0)))


@dataclass(frozen=True)
class ChannelTrace:
    """The cohorts of all rounds of a training, and minᵢ |hᵢ|√Pᵢ and Σᵢ 1/|hᵢ|² of each."""

    cohorts: tuple[DeviceIds, ...]
    weakest_amplitudes: Reals
    inverse_gain_sums: Reals

    @classmethod
    def of(cls, draws: Draws, *, rounds: int) -> Self:
        """The first rounds of these draws."""
        cohorts, weakest, sums = zip(*(round_trace(draws, t) for t in range(rounds)), strict=True)
        return cls(cohorts, np.array(weakest), np.array(sums))

    def betas(self, *, bound: float, share: float, privacy_limit: float) -> Reals:
        """β of every round: the maximum within the power limits and the privacy limit (Thm 5, eq. (35)–(37))."""
        return np.minimum(beta_limit(self.weakest_amplitudes, bound=bound, share=share), privacy_limit)

    def energies(self, betas: Reals, *, bound: float, share: float) -> Reals:
        """The maximum of Σ E‖xᵢ‖² of every round: Σ (β/|hᵢ|)²·(k/d)·(ητC₁)² (Lemma 5, eq. (33))."""
        used = np.where(self.inverse_gain_sums > 0, betas, 0.0)  # β may be infinite where nobody sends
        return used**2 * self.inverse_gain_sums * share * bound**2

    def server(self, noise_multipliers: Reals, *, devices: int) -> ServerLedger:
        """What every device loses to the server if the rounds have these noise multipliers."""
        who, sizes = np.concatenate(self.cohorts), [len(cohort) for cohort in self.cohorts]
        lost = np.zeros(devices)
        np.add.at(lost, who, np.repeat(mu_squared(noise_multipliers), sizes))
        times = np.bincount(who, minlength=devices)
        ids = np.flatnonzero(times)
        return ServerLedger(devices=devices, ids=ids, mu_squared=lost[ids], participations=times[ids])
