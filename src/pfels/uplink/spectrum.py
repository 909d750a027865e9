"""What differs between the subcarriers of some senders in a round: fading, which they invert, and timing offsets, which
they do not know (`effects.fading`, `effects.timing`).

Position j of what is sent goes to column j mod K; a public permutation, drawn anew in every round, takes columns to
subcarriers.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import DeviceIds, Gains
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.seeding import Purpose, Seed, generator
from pfels.uplink.effects.fading import Fading
from pfels.uplink.effects.timing import Timing
from pfels.uplink.frame import Band
from pfels.uplink.tdl import subcarrier_frequencies

Single = NDArray[np.float32]


@dataclass(frozen=True)
class Spectrum:
    """What differs between the subcarriers of some senders in one round, worked out when it is first asked for."""

    seed: Seed
    round: int
    devices: DeviceIds
    band: Band
    fading: Fading
    timing: Timing

    @property
    def used_share(self) -> float:
        """The expected share of the subcarriers that a device uses."""
        return self.fading.used_share if self.fading.active else 1.0

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The public permutation: the subcarrier of each column."""
        return generator(self.seed, Purpose.INTERLEAVER, round=self.round).permutation(self.band.subcarriers)

    @cached_property
    def _faded(self) -> tuple[Single, Single] | None:
        """|H(f)| over the effective gain, and its inverse where the subcarrier is used, else 0; one row per device."""
        if not self.fading.active:
            return None
        powers = self.fading.draw_powers(self.seed, self.round, self.devices, band=self.band)
        costs = self.fading.inversion_costs(powers)[:, None].astype(np.float32)
        strengths = np.sqrt(powers * costs)[:, self.order]
        used = (powers >= self.fading.floor)[:, self.order]
        return strengths, np.divide(1.0, strengths, out=np.zeros_like(strengths), where=used)

    @cached_property
    def _turns(self) -> tuple[Single, Single] | None:
        """cos(2πfΔτ) and sin(2πfΔτ) of each device on each column."""
        if not self.timing.active:
            return None
        offsets = self.timing.draw_offsets(self.seed, self.round, self.devices)
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
