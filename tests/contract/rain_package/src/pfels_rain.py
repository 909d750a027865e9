"""Rain at 28 GHz, by ITU-R P.838-3: γ = k·R^α dB/km, with k = 0.2051 and α = 0.9679 for horizontal polarisation."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from pfels.arrays import DeviceIds, Reals
from pfels.seeding import Seed
from pfels.uplink.effects.effect import Effect

QUANTILES = (np.arange(100) + 0.5) / 100


class Rain(Effect):
    """It rains on each device in a share of the rounds, independently, all along its link."""

    needs: ClassVar[str] = "channel"
    privacy: ClassVar[str] = "None: devices know their gains, and all antennas lose as much."

    rate_mm_h: float = Field(default=0.0, ge=0, le=200, description="rain rate R; 0: it never rains")
    path_km: float = Field(default=0.2, gt=0, le=50, description="length of the link in the rain")
    share: float = Field(default=0.1, ge=0, le=1, description="share of the rounds in which it rains on a device")

    def losses(self, seed: Seed, t: int, devices: DeviceIds) -> Reals:
        """10^{γL/20} where it rains, else 1."""
        return self._loss(self.numbers(lambda g, n: g.uniform(size=n), seed, t, devices))

    def typical_losses(self) -> Reals:
        """The quantiles of the same law."""
        return self._loss(QUANTILES)

    def _loss(self, chances: Reals) -> Reals:
        attenuation_db = 0.2051 * self.rate_mm_h**0.9679 * self.path_km
        return np.where(chances < self.share, 10 ** (attenuation_db / 20), 1.0)
