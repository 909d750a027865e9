"""Frequency-selective fading by the tapped delay lines of 3GPP TR 38.901 (tables 7.7.2-1 and 7.7.2-3).

A device's channel is its mean gain times G(f) = Σₗ √pₗ·aₗ·e^{−j2πfτₗ} with independent aₗ ~ CN(0, 1) and Σ pₗ = 1, so
that |G(f)|² is exponential with mean 1 at every frequency. It is constant within a round, as the mean gain is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Complex = NDArray[np.complexfloating]
Single = NDArray[np.float32]


@dataclass(frozen=True)
class Profile:
    """A power-delay profile: delays in units of the delay spread, powers in dB as the table prints them."""

    delays: tuple[float, ...]
    powers_db: tuple[float, ...]

    @property
    def powers(self) -> NDArray[np.float64]:
        """The tap powers, which add up to 1."""
        powers: NDArray[np.float64] = 10 ** (np.array(self.powers_db) / 10)
        shares: NDArray[np.float64] = powers / powers.sum()
        return shares

    @property
    def longest(self) -> float:
        """The last tap's delay, in units of the delay spread."""
        return max(self.delays)


PROFILES = {
    "tdl-a": Profile(
        (
            0.0, 0.3819, 0.4025, 0.5868, 0.4610, 0.5375, 0.6708, 0.5750, 0.7618, 1.5375, 1.8978, 2.2242,
            2.1718, 2.4942, 2.5119, 3.0582, 4.0810, 4.4579, 4.5695, 4.7966, 5.0066, 5.3043, 9.6586,
        ),
        (
            -13.4, 0.0, -2.2, -4.0, -6.0, -8.2, -9.9, -10.5, -7.5, -15.9, -6.6, -16.7,
            -12.4, -15.2, -10.8, -11.3, -12.7, -16.2, -18.3, -18.9, -16.6, -19.9, -29.7,
        ),
    ),
    "tdl-c": Profile(
        (
            0.0, 0.2099, 0.2219, 0.2329, 0.2176, 0.6366, 0.6448, 0.6560, 0.6584, 0.7935, 0.8213, 0.9336,
            1.2285, 1.3083, 2.1704, 2.7105, 4.2589, 4.6003, 5.4902, 5.6077, 6.3065, 6.6374, 7.0427, 8.6523,
        ),
        (
            -4.4, -1.2, -3.5, -5.2, -2.5, 0.0, -2.2, -3.9, -7.4, -7.1, -10.7, -11.1,
            -5.1, -6.8, -8.7, -13.2, -13.9, -13.9, -15.8, -17.1, -16.0, -15.7, -21.6, -22.8,
        ),
    ),
}  # fmt: skip


def subcarrier_frequencies(count: int, *, spacing_hz: float) -> NDArray[np.float64]:
    """The frequencies of `count` subcarriers around the carrier, in Hz.

    >>> subcarrier_frequencies(4, spacing_hz=15e3).tolist()
    [-30000.0, -15000.0, 0.0, 15000.0]
    """
    frequencies: NDArray[np.float64] = (np.arange(count, dtype=np.float64) - count // 2) * spacing_hz
    return frequencies


def steering(profile: Profile, frequencies_hz: NDArray[np.float64], *, delay_spread_s: float) -> Complex:
    """√pₗ·e^{−j2πfτₗ}, one row per tap and one column per frequency."""
    turns = np.outer(np.array(profile.delays) * delay_spread_s, frequencies_hz)
    matrix: Complex = np.sqrt(profile.powers)[:, None] * np.exp(-2j * np.pi * turns)
    return matrix


def response(taps: Complex, profile: Profile, frequencies_hz: NDArray[np.float64], *, delay_spread_s: float) -> Complex:
    """G(f) of each device, one row per device, from its taps aₗ, one column per tap."""
    found: Complex = taps @ steering(profile, frequencies_hz, delay_spread_s=delay_spread_s)
    return found
