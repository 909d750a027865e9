"""What a channel does subcarrier by subcarrier: fading that devices invert, and timing offsets that they do not know.

Position j of what is sent goes to column j mod K; a public permutation, drawn anew in every round, takes columns to
subcarriers. A device with mean gain |h| has the gain |H(f)| = |h|·|G(f)| (`tdl`). It divides by it where |G(f)|² is at
least a public floor ρ, and sends nothing on the other subcarriers. So

- what arrives of a vector v is βv on the subcarriers used and 0 elsewhere: never longer than βv, so that the norm bound
  s, and every privacy figure with it, stands whatever is drawn;
- over the permutation the expected energy is (β/|h|)²·m·‖v‖² with m the mean over the subcarriers of 1{|G|² ≥ ρ}/|G|²:
  that of a flat channel with gain |h|/√m, the device's effective gain, by which all power limits are met;
- the expected share of v that arrives is P(|G|² ≥ ρ) = e^{−ρ}, by which the server divides.

A device that is Δτ off, within the cyclic prefix, arrives turned by the angle −2πfΔτ, on top of its phase error. The
server is granted both components of the signal, so that this costs no privacy; of the one that it uses, the cosine of
the whole angle is left.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import DeviceIds, Gains, Reals
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.seeding import Purpose, Seed, generator, normal_rows, scalars
from pfels.uplink.tdl import PROFILES, steering, subcarrier_frequencies

Single = NDArray[np.float32]
TYPICAL = 64  # quantiles of the law of m, from SAMPLES public draws
SAMPLES = 512
UNUSED_GAIN = 1e-12  # the m of a device that uses no subcarrier: it sends nothing, at no cost


@dataclass(frozen=True)
class Band:
    """K subcarriers, `spacing_hz` apart, around the carrier."""

    subcarriers: int = 3300
    spacing_hz: float = 15e3


@dataclass(frozen=True)
class Fading:
    """A profile of `tdl` with its delay spread, and ρ: the minimum of |G(f)|² on a subcarrier that is used."""

    profile: str
    delay_spread_s: float
    floor: float

    @property
    def used_share(self) -> float:
        """e^{−ρ}, the expected share of the subcarriers that a device uses."""
        return math.exp(-self.floor)


def draw_fading(*, seed: Seed, round: int, devices: DeviceIds, band: Band, fading: Fading) -> Single:
    """|G(f)|² of each device on each subcarrier in this round, one row per device."""
    profile = PROFILES[fading.profile]
    count = len(profile.delays)
    numbers = normal_rows(seed, Purpose.TAPS, devices=devices, round=round, width=2 * count)
    taps = (numbers[:, :count] + 1j * numbers[:, count:]).astype(np.complex64) * np.float32(math.sqrt(0.5))
    found = taps @ _steering(band, fading)
    return np.square(found.real) + np.square(found.imag)


@lru_cache(maxsize=8)
def _steering(band: Band, fading: Fading) -> NDArray[np.complex64]:
    """√pₗ·e^{−j2πfτₗ}, one row per tap."""
    profile = PROFILES[fading.profile]
    frequencies = subcarrier_frequencies(band.subcarriers, spacing_hz=band.spacing_hz)
    return steering(profile, frequencies, delay_spread_s=fading.delay_spread_s).astype(np.complex64)


def inversion_costs(powers: Single, *, floor: float) -> Reals:
    """m of each row of |G|²: the energy with which a device inverts its channel where it uses it, over that in a flat
    channel of the same mean gain."""
    used = powers >= floor
    inverse = np.divide(1.0, powers, out=np.zeros_like(powers), where=used)
    costs: Reals = inverse.mean(1, dtype=np.float64)
    return np.maximum(costs, UNUSED_GAIN)


@lru_cache(maxsize=8)
def typical_costs(band: Band, fading: Fading) -> Reals:
    """Quantiles of the law of m, the same for everybody: from draws that depend on nobody's seed."""
    powers = draw_fading(seed=0, round=0, devices=np.arange(SAMPLES) + (1 << 40), band=band, fading=fading)
    costs = inversion_costs(powers, floor=fading.floor)
    return np.quantile(costs, (np.arange(TYPICAL) + 0.5) / TYPICAL)


@dataclass(frozen=True)
class Spectrum:
    """What differs between the subcarriers of some senders in one round, worked out when it is first asked for."""

    seed: Seed
    round: int
    devices: DeviceIds
    band: Band
    fading: Fading | None
    timing_error_s: float

    @property
    def used_share(self) -> float:
        """The expected share of the subcarriers that a device uses."""
        return 1.0 if self.fading is None else self.fading.used_share

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The public permutation: the subcarrier of each column."""
        return generator(self.seed, Purpose.INTERLEAVER, round=self.round).permutation(self.band.subcarriers)

    @cached_property
    def _faded(self) -> tuple[Single, Single] | None:
        """|H(f)| over the effective gain, and its inverse where the subcarrier is used, else 0; one row per device."""
        if self.fading is None:
            return None
        powers = draw_fading(seed=self.seed, round=self.round, devices=self.devices, band=self.band, fading=self.fading)
        costs = inversion_costs(powers, floor=self.fading.floor)[:, None].astype(np.float32)
        strengths = np.sqrt(powers * costs)[:, self.order]
        used = (powers >= self.fading.floor)[:, self.order]
        return strengths, np.divide(1.0, strengths, out=np.zeros_like(strengths), where=used)

    @cached_property
    def _turns(self) -> tuple[Single, Single] | None:
        """cos(2πfΔτ) and sin(2πfΔτ) of each device on each column."""
        if not self.timing_error_s:
            return None
        offsets = draw_offsets(seed=self.seed, round=self.round, devices=self.devices, bound_s=self.timing_error_s)
        frequencies = subcarrier_frequencies(self.band.subcarriers, spacing_hz=self.band.spacing_hz)[self.order]
        angles = 2 * np.pi * np.outer(offsets, frequencies)
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def invert(self, signals: Tensor, places: slice) -> Tensor:
        """What devices send of signals that are scaled for their effective gains: divided by their channel."""
        return signals if self._faded is None else by_subcarrier(signals, self._faded[1][places])

    def reach(self, signals: Tensor, places: slice) -> Tensor:
        """What arrives of signals, with both components, at an effective gain of 1: as long as the server can see."""
        return signals if self._faded is None else by_subcarrier(signals, self._faded[0][places])

    def superpose(self, signals: Tensor, weights: Gains, places: slice) -> Tensor:
        """The sum of simultaneous signals in the component that the server uses: Re Σᵢ wᵢ·e^{−j2πfΔτᵢ}·xᵢ, with wᵢ the
        effective gain of sender i after its phase correction."""
        reached = self.reach(signals, places)
        if self._turns is None:
            return torch.from_numpy(weights.real).to(signals) @ reached
        return by_subcarrier(reached, self._left(weights, places)).sum(0)

    def _left(self, weights: Gains, places: slice) -> Single:
        """Re(w·e^{−j2πfΔτ}) on each column."""
        assert self._turns is not None, "all are on time"
        cosines, sines = (each[places] for each in self._turns)
        real, imaginary = (each.astype(np.float32)[:, None] for each in (weights.real, weights.imag))
        left: Single = real * cosines + imaginary * sines
        return left

    def inverted_energy(self, row: Tensor, place: int) -> float:
        """‖·‖² of what one device sends of a row that is scaled for its effective gain."""
        inverse = np.ones(self.band.subcarriers, np.float32) if self._faded is None else self._faded[1][place]
        whole, rest = _by_symbol(row, self.band.subcarriers)
        columns = whole.square().sum(0)
        columns[: len(rest)] += rest.square()
        return float(np.dot(columns.double().cpu().numpy(), inverse.astype(np.float64) ** 2))

    def add_heard(self, y: Tensor, row: Tensor, place: int, *, weight: complex) -> None:
        """Add to y what the server hears of a row that one device inverts and sends, if it arrives with `weight`."""
        columns = np.full(self.band.subcarriers, weight.real, np.float32)
        if self._turns is not None:
            columns = self._left(np.array([weight]), slice(place, place + 1))[0]
        if self._faded is not None:
            columns = columns * (self._faded[1][place] > 0)
        factors = torch.from_numpy(columns).to(y)
        for total, part in zip(_by_symbol(y, len(columns)), _by_symbol(row, len(columns)), strict=True):
            total.addcmul_(part, factors[: part.shape[-1]])


def draw_offsets(*, seed: Seed, round: int, devices: DeviceIds, bound_s: float) -> Reals:
    """How late each device's symbols arrive in this round, in seconds: uniform within ±`bound_s`."""
    return scalars(lambda g, n: g.uniform(-1, 1, n), seed, Purpose.TIMING_ERROR, devices=devices, round=round) * bound_s


def by_subcarrier(rows: Tensor, weights: Single) -> Tensor:
    """Rows times weights, column by column: position j of a row is on column j mod K.

    >>> by_subcarrier(torch.ones(1, 5), np.array([[1.0, 2.0]], np.float32)).tolist()
    [[1.0, 2.0, 1.0, 2.0, 1.0]]
    """
    factors, product = torch.from_numpy(weights).to(rows), torch.empty_like(rows)
    (whole, rest), (whole_out, rest_out) = (_by_symbol(each, weights.shape[1]) for each in (rows, product))
    torch.mul(whole, factors.unsqueeze(-2), out=whole_out)
    torch.mul(rest, factors[:, : rest.shape[-1]], out=rest_out)
    return product


def _by_symbol(rows: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """A row or rows as whole OFDM symbols of `columns`, and what is left of the last one; both are views."""
    *some, width = rows.shape
    whole = width // columns * columns
    return rows[..., :whole].view(*some, width // columns, columns), rows[..., whole:]
