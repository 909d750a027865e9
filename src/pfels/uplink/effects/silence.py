"""Weak channels stay silent: a device whose gain is below a public floor does not send."""

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from pfels.uplink.effects.effect import Effect

if TYPE_CHECKING:
    from pfels.uplink.effects.cell import Cell


class Silence(Effect):
    """A device with |h| < silent_below saves the energy that inverting its channel would take."""

    needs: ClassVar[str] = "silence"
    privacy: ClassVar[str] = "Other antennas hear a device at most (gain_max/silent_below)² times as well as the first."

    silent_below: float = Field(
        default=0.0,
        ge=0,
        description="pfels-plus, pfels-echo and truncated-inversion: a device with a smaller gain stays silent; 0 for "
        "truncated-inversion: the mean gain",
    )

    def check(self, cell: "Cell") -> None:
        """Some device must be able to send."""
        if self.silent_below > cell.gain.gain_max:
            raise ValueError(f"channel.silent_below = {self.silent_below}: must be at most {cell.gain.gain_max}")
