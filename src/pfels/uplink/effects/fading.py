"""Frequency-selective fading, inverted subcarrier by subcarrier (profiles of 3GPP TR 38.901, `tdl`).

A device with mean gain |h| has the gain |H(f)| = |h|·|G(f)|, with |G(f)|² exponential of mean 1. It divides by it where
|G(f)|² is at least a public floor ρ, and sends nothing on the other subcarriers. So

- what arrives of a vector v is βv on the subcarriers used and 0 elsewhere: never longer than βv, so that the norm bound
  s, and every privacy figure with it, stands whatever is drawn;
- over the permutation of the coordinates (`spectrum`) the expected energy is (β/|h|)²·m·‖v‖² with m the mean over the
  subcarriers of 1{|G|² ≥ ρ}/|G|²: that of a flat channel with gain |h|/√m, the device's effective gain, by which all
  power limits are met;
- the expected share of v that arrives is P(|G|² ≥ ρ) = e^{−ρ}, by which the server divides.
"""

import math
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pfels.arrays import DeviceIds, Reals
from pfels.seeding import Purpose, Seed, normal_rows
from pfels.uplink.effects.effect import Effect
from pfels.uplink.frame import Band
from pfels.uplink.tdl import PROFILES, steering, subcarrier_frequencies

if TYPE_CHECKING:
    from pfels.uplink.effects.cell import Cell

Single = NDArray[np.float32]
TYPICAL = 64  # quantiles of the law of m, from SAMPLES public draws
SAMPLES = 512
UNUSED_GAIN = 1e-12  # the m of a device that uses no subcarrier: it sends nothing, at no cost


class Fading(Effect):
    """In a model other than flat gains differ between subcarriers. Those fade_limit_db below the mean are not used."""

    privacy: ClassVar[str] = "None against one antenna: no vector arrives longer than its bound."

    model: Literal["flat", "tdl-a", "tdl-c"] = Field(
        default="flat",
        description="`tdl-a` or `tdl-c`: [frequency-selective fading](radio.md#frequency-selective-fading) of 3GPP TR "
        "38.901. Not for artificial-noise",
    )
    delay_spread_ns: float = Field(
        default=100.0,
        gt=0,
        le=1e6,
        description="root-mean-square delay spread of `tdl-a` and `tdl-c`; the last echo must come within the cyclic "
        "prefix",
    )
    fade_limit_db: float = Field(
        default=10.0,
        ge=0,
        le=60,
        description="with `tdl-a` and `tdl-c`: subcarriers further below the device's mean gain than this are not used",
    )

    @property
    def active(self) -> bool:
        """Whether the channel is not flat."""
        return self.model != "flat"

    @property
    def floor(self) -> float:
        """ρ: the minimum of |G(f)|² on a subcarrier that is used."""
        return 10 ** (-self.fade_limit_db / 10)

    @property
    def used_share(self) -> float:
        """e^{−ρ}, the expected share of the subcarriers that a device uses."""
        return math.exp(-self.floor)

    @property
    def longest_us(self) -> float:
        """When the last echo comes."""
        return PROFILES[self.model].longest * self.delay_spread_ns / 1000 if self.active else 0.0

    def check(self, cell: "Cell") -> None:
        """The prefix must take in the last echo; no bound is known with several antennas or a clipping amplifier."""
        if self.longest_us > cell.prefix_us:
            longest = PROFILES[self.model].longest
            raise ValueError(
                f"channel.delay_spread_ns = {self.delay_spread_ns:g}: the last echo of {self.model} comes "
                f"after {self.longest_us:.3g} µs, beyond the cyclic prefix of {cell.prefix_us:.3g} µs; must be at most "
                f"{math.floor(cell.prefix_us * 1000 / longest)}"
            )
        if cell.antennas > 1:
            raise ValueError(f"channel.antennas = {cell.antennas}: must be 1 unless channel.model is flat")
        if cell.clipping_db is not None:
            raise ValueError(
                f"channel.clipping_db = {cell.clipping_db:g}: needs channel.model = flat, in which what is "
                "clipped cannot arrive stronger"
            )

    def draw_powers(self, seed: Seed, t: int, devices: DeviceIds, *, band: Band) -> Single:
        """|G(f)|² of each device on each subcarrier in round t, one row per device."""
        count = len(PROFILES[self.model].delays)
        numbers = normal_rows(seed, Purpose.TAPS, devices=devices, round=t, width=2 * count)
        taps = (numbers[:, :count] + 1j * numbers[:, count:]).astype(np.complex64) * np.float32(math.sqrt(0.5))
        found = taps @ _steering(band, self)
        return np.square(found.real) + np.square(found.imag)

    def inversion_costs(self, powers: Single) -> Reals:
        """m of each row of |G|²: the energy with which a device inverts its channel where it uses it, over that in a
        flat channel of the same mean gain."""
        used = powers >= self.floor
        inverse = np.divide(1.0, powers, out=np.zeros_like(powers), where=used)
        costs: Reals = inverse.mean(1, dtype=np.float64)
        return np.maximum(costs, UNUSED_GAIN)

    def typical_costs(self, band: Band) -> Reals:
        """Quantiles of the law of m, which is public: from draws that depend on no seed of a run."""
        return _typical_costs(band, self)


@lru_cache(maxsize=8)
def _typical_costs(band: Band, fading: Fading) -> Reals:
    costs = fading.inversion_costs(fading.draw_powers(0, 0, np.arange(SAMPLES) + (1 << 40), band=band))
    return np.quantile(costs, (np.arange(TYPICAL) + 0.5) / TYPICAL)


@lru_cache(maxsize=8)
def _steering(band: Band, fading: Fading) -> NDArray[np.complex64]:
    """√pₗ·e^{−j2πfτₗ}, one row per tap."""
    profile, delay_spread_s = PROFILES[fading.model], fading.delay_spread_ns / 1e9
    frequencies = subcarrier_frequencies(band.subcarriers, spacing_hz=band.spacing_hz)
    return steering(profile, frequencies, delay_spread_s=delay_spread_s).astype(np.complex64)
