"""Devices that are early or late, within the cyclic prefix.

A device that is Δτ off arrives turned by the angle −2πfΔτ on the subcarrier at frequency f, on top of its phase error.
The server is granted both components of the signal, so that this costs no privacy; of the one that it uses, the cosine
of the whole angle is left (`spectrum`). Δτ is uniform within ±timing_error_us, drawn anew in every round.
"""

import math
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from pfels.arrays import DeviceIds, Reals
from pfels.seeding import Purpose, Seed, scalars
from pfels.uplink.effects.effect import Effect

if TYPE_CHECKING:
    from pfels.uplink.effects.cell import Cell


class Timing(Effect):
    """A device's symbols arrive within ±timing_error_us of the server's time."""

    privacy: ClassVar[str] = "None: the server is granted both components of the signal."

    timing_error_us: float = Field(
        default=0.0,
        ge=0,
        le=1000,
        description="bound on how early or late a device's symbols arrive, in µs; twice that, with the last echo, must "
        "be within the cyclic prefix. Costs accuracy, not privacy. Not for artificial-noise",
    )

    def check(self, cell: "Cell") -> None:
        """The window that takes in the earliest device must still take in the latest."""
        longest_us, prefix_us = cell.fading.longest_us, cell.prefix_us
        if 2 * self.timing_error_us + longest_us > prefix_us:
            raise ValueError(
                f"channel.timing_error_us = {self.timing_error_us:g}: early and late devices are further apart than "
                f"the cyclic prefix is long; must be at most {math.floor((prefix_us - longest_us) * 500) / 1000:g}"
            )

    def draw_offsets(self, seed: Seed, t: int, devices: DeviceIds) -> Reals:
        """How late each device's symbols arrive in round t, in seconds."""
        bound_s = self.timing_error_us / 1e6
        return scalars(lambda g, n: g.uniform(-1, 1, n), seed, Purpose.TIMING_ERROR, devices=devices, round=t) * bound_s
