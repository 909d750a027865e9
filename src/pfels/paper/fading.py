"""What the channel deals a training, as arrays over its rounds: enough for β and energy at any k and any ε at once."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pfels.arrays import Ids, Reals
from pfels.privacy.accountant import ServerLedger
from pfels.schemes.system import System


class Round(NamedTuple):
    """One round's cohort, its minᵢ |hᵢ|√Pᵢ, and its Σᵢ 1/|hᵢ|²."""

    cohort: Ids
    reach: float
    cost: float


def observe(system: System, t: int) -> Round:
    """What the channel deals the cohort of round t."""
    cohort = system.cohort(t)
    strengths = np.abs(system.gains(t, cohort))
    reach = np.min(strengths * np.sqrt(system.powers(cohort)), initial=math.inf)
    return Round(cohort, float(reach), float(np.sum(strengths**-2.0)))


@dataclass(frozen=True)
class Fading:
    """The rounds of a training: who takes part, minᵢ |hᵢ|√Pᵢ and Σᵢ 1/|hᵢ|² of each round's cohort."""

    cohorts: tuple[Ids, ...]
    reach: Reals
    cost: Reals

    @classmethod
    def of(cls, system: System, *, rounds: int) -> "Fading":
        """The first rounds of a system."""
        cohorts, reach, cost = zip(*(observe(system, t) for t in range(rounds)), strict=True)
        return cls(cohorts, np.array(reach), np.array(cost))

    def levels(self, *, bound: float, share: float, privacy_limit: float) -> Reals:
        """β of every round: the largest within the power limits and the privacy limit (Thm 5, eq. (35)–(37))."""
        return np.minimum(self.reach / (bound * math.sqrt(share)), privacy_limit)

    def energies(self, betas: Reals, *, bound: float, share: float) -> Reals:
        """The most that a round's Σ E‖xᵢ‖² can be: Σ (β/|hᵢ|)²·(k/d)·(ητC₁)² (Lemma 5, eq. (33))."""
        return np.where(self.cost > 0, betas, 0.0) ** 2 * self.cost * share * bound**2

    def server(self, noise_multipliers: Reals, *, devices: int) -> ServerLedger:
        """What every device loses to the server when the rounds have these noise multipliers."""
        who, sizes = np.concatenate(self.cohorts), [len(cohort) for cohort in self.cohorts]
        lost = np.zeros(devices)
        np.add.at(lost, who, np.repeat(noise_multipliers**-2.0, sizes))
        times = np.bincount(who, minlength=devices)
        ids = np.flatnonzero(times)
        return ServerLedger(devices=devices, ids=ids, mu_squared=lost[ids], participations=times[ids])
