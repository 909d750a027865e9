"""The gains of devices: |h| exponential within limits, φ uniform, drawn anew in every round (the paper, section VI)."""

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from pfels.arrays import DeviceIds, Gains, Reals
from pfels.seeding import Purpose, Seed, scalars
from pfels.uplink.effects.effect import Effect

if TYPE_CHECKING:
    from pfels.uplink.effects.cell import Cell

Positive = Annotated[float, Field(ge=1e-20, le=1e20, allow_inf_nan=False)]  # squares and products stay floats


class Gain(Effect):
    """|h| is exponential, clipped to [gain_min, gain_max]; h = |h|e^{jφ} is the same on all subcarriers of a device and
    constant within a round."""

    needs: ClassVar[str] = "channel"

    gain_mean: Positive = Field(default=0.02, description="mean of the exponential law of gains")
    gain_min: Positive = Field(default=0.0001, description="minimum gain; smaller ones are set to it")
    gain_max: Positive = Field(default=0.1, description="maximum gain; larger ones are set to it")

    def check(self, cell: "Cell") -> None:
        """The limits are in order."""
        if not self.gain_min <= self.gain_max:
            raise ValueError(f"channel.gain_min = {self.gain_min}: must be at most gain_max = {self.gain_max}")

    def draw_gains(self, seed: Seed, t: int, devices: DeviceIds) -> Gains:
        """The complex gain of every device in this round."""
        magnitudes = scalars(self._exponential, seed, Purpose.GAIN, devices=devices, round=t)
        phases = scalars(lambda g, n: g.uniform(0, 2 * math.pi, n), seed, Purpose.PHASE, devices=devices, round=t)
        gains: Gains = np.clip(magnitudes, self.gain_min, self.gain_max) * np.exp(1j * phases)
        return gains

    def draw_elsewhere(self, seed: Seed, t: int, devices: DeviceIds, *, antennas: int) -> Reals:
        """|h| from every device to each of `antennas` − 1 other antennas, one row per antenna: by the same law, and
        independent of the first one. More antennas leave the first rows as they are."""
        rows = [
            scalars(self._exponential, seed, Purpose.ANTENNA, devices=devices + (m << 40), round=t)
            for m in range(1, antennas)
        ]
        return np.clip(np.array(rows).reshape(antennas - 1, len(devices)), self.gain_min, self.gain_max)

    def exceeds(self, levels: Reals) -> Reals:
        """P(|h| ≥ level)."""
        inside = np.where(levels <= self.gain_max, np.exp(-levels / self.gain_mean), 0.0)
        return np.where(levels <= self.gain_min, 1.0, inside)

    def _exponential(self, generator: np.random.Generator, count: int) -> Reals:
        return generator.exponential(self.gain_mean, count)
