"""Several antennas of the server, of which devices aim at one.

A device scales what it sends by β/|ĥ|, with ĥ the gain to the first antenna as it knows it. Another antenna, with gain
hₘ, hears it |hₘ|²/|ĥ|² times as well, and a server that combines all of them has the sum of their signal-to-noise
ratios. Against it a transmission costs μ² = (w/z)²·Σₘ|hₘ|²/|ĥ|², where z has the margin for gain errors in it already.
"""

from typing import ClassVar

from pydantic import Field

from pfels.uplink.effects.effect import Effect


class Antennas(Effect):
    """The server may listen with all its antennas; the estimate uses the first one."""

    needs: ClassVar[str] = "channel"
    privacy: ClassVar[str] = "The ledger prices what all antennas hear, and a budget is met for whatever is drawn."

    antennas: int = Field(
        default=1,
        ge=1,
        le=4096,
        description="antennas of the server, all of which may listen; the ledger prices what they hear, and a budget "
        "holds surely against them ([pitfalls.md](pitfalls.md#several-antennas))",
    )

    def exposure_bound(self, *, strongest: float, weakest: float) -> float:
        """The maximum of Σₘ|hₘ|²/|ĥ|² for gains up to `strongest` and senders with at least `weakest`."""
        return 1 + (self.antennas - 1) * (strongest / weakest) ** 2
