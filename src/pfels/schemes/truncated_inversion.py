"""Truncated channel inversion: the broadband analog aggregation of Zhu, Wang and Huang (2020), with a gain floor.

A device whose gain is below a public floor g stays silent. All others invert their channels to one public level,
β = g·√P_min/(ητC₁): what the weakest power limit P_min carries at the floor. The server divides by the number of
senders, and leaves the model as it is if there is none. The scheme has no privacy limit; `[truncated-inversion]
private` adds the one of WFL-PDP, for a budget.
"""

import math
from dataclasses import dataclass

import numpy as np

from pfels.arrays import Reals
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.draws import Draws
from pfels.schemes.plan import AirLink, RoundPlan
from pfels.schemes.scheme import OwnSettings
from pfels.schemes.wfl_p import WflP
from pfels.uplink.channel import snr_at

ROUNDING = 1e-12  # relative; |h| of a gain at the end of its law's range, which may be the floor, is rounded


class Settings(OwnSettings):
    """`private`: whether the claim per round limits the level, as it does in WFL-PDP; a common budget sets it."""

    private: bool = False


@dataclass(frozen=True)
class TruncatedInversion(WflP):
    """Whole updates over the air, at the level that every gain above the floor carries; sends as WFL-P."""

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """Who of the cohort is above the floor, and the level that all of them carry."""
        s, cohort, g = self.setting, draws.cohort(t), self.floor
        sending = cohort[np.abs(draws.gains(t, cohort)) >= g * (1 - ROUNDING)]
        power_limit = g * math.sqrt(self._smallest_power()) / s.bound
        beta, limit = min((power_limit, "power"), (self._privacy_limit(), "privacy"))
        h, P = draws.gains(t, sending), draws.powers(sending)
        air = AirLink(h, P, beta, limit, bound=s.bound, share=1.0)
        return RoundPlan.over_air(
            s, t, cohort, air, width=s.dimension, sending=sending, divisor=len(sending) or math.inf
        )

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """The mean update of those who sent; the server knows how many they are. Zero if nobody did."""
        return y / (plan.divisor * plan.beta)

    @property
    def floor(self) -> float:
        """g: `channel.silent_below`, or else the g that maximises g·P(|h| ≥ g), level times share of senders: the mean
        of an exponential law."""
        cell, law = self.setting.cell, self.setting.cell.gain
        return min(max(cell.silent_below or law.gain_mean, law.gain_min), law.gain_max)

    def _smallest_power(self) -> float:
        s, law = self.setting, self.setting.cell.power
        smallest: Reals = snr_at(np.zeros(1), low_db=law.low_db, high_db=law.high_db, scale=law.scale)
        return float(smallest[0]) * s.dimension * s.noise_std**2

    def _privacy_limit(self) -> float:
        own = self.setting.own
        private = isinstance(own, Settings) and own.private
        return self.setting.privacy_limit if private else math.inf
