"""What a device knows of its channel: its gain and its phase, each within a bound.

h/ĥ, the true gain over the known one, is e^{jψ}·10^{g/20} with g uniform within ±csi_error_db and ψ uniform within
±phase_error_deg, drawn anew in every round.
"""

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from pfels.arrays import DeviceIds, Gains, Reals
from pfels.seeding import Purpose, Seed, scalars
from pfels.uplink.effects.effect import Effect


class GainKnowledge(Effect):
    """A device knows its gain within csi_error_db."""

    needs: ClassVar[str] = "channel"
    privacy: ClassVar[str] = "Signals may arrive stronger by the bound; z has that margin in it."

    csi_error_db: float = Field(
        default=0.0,
        ge=0,
        le=60,
        description="bound on the error of a device's estimate of its own gain, in dB; the level is set with that "
        "margin",
    )

    def log_errors(self, seed: Seed, t: int, devices: DeviceIds) -> Gains:
        """ln 10^{g/20}."""
        db = scalars(_uniform, seed, Purpose.GAIN_ERROR, devices=devices, round=t) * self.csi_error_db
        return (db / 20 * math.log(10)).astype(np.complex128)

    @property
    def margin(self) -> float:
        """The maximum of |h|/|ĥ|."""
        return 10 ** (self.csi_error_db / 20)


class PhaseKnowledge(Effect):
    """A device cancels the phase of its channel within phase_error_deg."""

    privacy: ClassVar[str] = "None: the server is granted both components of the signal."

    phase_error_deg: float = Field(
        default=0.0,
        ge=0,
        le=180,
        description="bound on the error of a device's phase correction; costs accuracy, not privacy. Not for "
        "artificial-noise",
    )

    def log_errors(self, seed: Seed, t: int, devices: DeviceIds) -> Gains:
        """jψ."""
        turn = scalars(_uniform, seed, Purpose.PHASE_ERROR, devices=devices, round=t)
        angles: Gains = 1j * np.deg2rad(turn * self.phase_error_deg)
        return angles


def _uniform(generator: np.random.Generator, count: int) -> Reals:
    return generator.uniform(-1, 1, count)
