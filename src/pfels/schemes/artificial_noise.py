"""Artificial noise: every device aligns its update to the weakest and spends the rest of its power on noise
(Seif, Tandon and Li 2020).

With aᵢ = |hᵢ|√Pᵢ and the level β, device i adds noise of energy Pᵢ − (βC/|hᵢ|)², so that every coordinate of the sum
has noise of variance σ² = σ₀² + Σᵢ (aᵢ² − (βC)²)/d. β is the largest at which all stay within their power limits and
the noise multiplier σ/(βC) is at least that of the claim per round.
"""

import math
from dataclasses import dataclass

import numpy as np

from pfels.arrays import Reals
from pfels.privacy.events import noise_multiplier_at
from pfels.schemes.draws import Draws
from pfels.schemes.plan import AirLink, RoundPlan
from pfels.schemes.wfl_p import WflP
from pfels.uplink.power import align


@dataclass(frozen=True)
class ArtificialNoise(WflP):
    """Whole updates over the air, each with as much noise as its device has power left for; what is sent before the
    noise, and the estimate, are WFL-P's."""

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """Who takes part in round t, at what level β, and how much noise each device adds."""
        s, cohort = self.setting, draws.cohort(t)
        h, P = draws.gains(t, cohort), draws.powers(cohort)
        beta, limit = align(h, P, bound=s.bound, share=1.0, privacy_limit=self._privacy_limit(np.abs(h) ** 2 * P))
        added = np.maximum(P - (beta * s.bound / np.abs(h)) ** 2, 0.0)
        air = AirLink(h, P, beta, limit, bound=s.bound, share=1.0, added=added)
        return RoundPlan.over_air(s, t, cohort, air, width=s.dimension, claimed=True)

    def noise_std(self, plan: RoundPlan, device: int) -> float:
        """The standard deviation of the noise that one device adds, as it transmits it."""
        place = int(np.flatnonzero(plan.sending == device)[0])
        return plan.require_air().added_std(place, width=self.setting.dimension)

    def _privacy_limit(self, squared_amplitudes: Reals) -> float:
        """The β at which the noise multiplier is the claim's z: (zβCm)² = σ₀² + Σᵢ (aᵢ² − (βC)²)/(dm²), solved for β,
        with m the margin for gain errors: signals may arrive stronger by it, and noise weaker."""
        s, m = self.setting, self.setting.cell.margin
        z = noise_multiplier_at(beta=s.privacy_limit, bound=s.bound * m, noise_std=s.noise_std)
        noise = s.noise_std**2 + float(squared_amplitudes.sum()) / (s.dimension * m**2)
        count = len(squared_amplitudes)
        return math.sqrt(noise / ((z * m) ** 2 + count / (s.dimension * m**2))) / s.bound if count else math.inf
