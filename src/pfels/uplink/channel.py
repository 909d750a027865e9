"""The wireless uplink. Drawing a channel is one thing, sending through it another.

Signals are real vectors, one model coordinate to a subcarrier, in units in which the receiver's noise has
standard deviation σ₀ on every used subcarrier. Gains are complex, h = |h|e^{jφ}, flat over the subcarriers of
a device and constant within a round.
"""

import math
from dataclasses import dataclass

import numpy as np

from pfels.arrays import Gains, Ids, Reals
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.seeding import Purpose, scalars


def draw_gains(*, seed: int, round: int, devices: Ids, mean: float, low: float, high: float) -> Gains:
    """The complex gain of every device in this round: |h| exponential, limited to [low, high]; φ uniform."""
    magnitudes = scalars(lambda g, n: g.exponential(mean, n), seed, Purpose.GAIN, devices=devices, round=round)
    phases = scalars(lambda g, n: g.uniform(0, 2 * math.pi, n), seed, Purpose.PHASE, devices=devices, round=round)
    gains: Gains = np.clip(magnitudes, low, high) * np.exp(1j * phases)
    return gains


def draw_powers(
    *, seed: int, devices: Ids, dimension: int, noise_std: float, low_db: float, high_db: float, scale: str
) -> Reals:
    """The power limit Pᵢ = SNRᵢ·d·σ₀² of every device, the same in all rounds; SNRᵢ uniform in dB or as a ratio."""
    u = scalars(lambda g, n: g.uniform(size=n), seed, Purpose.POWER, devices=devices)
    return snr_at(u, low_db=low_db, high_db=high_db, scale=scale) * dimension * noise_std**2


def snr_at(u: Reals, *, low_db: float, high_db: float, scale: str) -> Reals:
    """The quantiles u in [0, 1] of the law of SNRᵢ: uniform between the two, in dB or as a ratio."""
    if scale == "db":
        in_db: Reals = 10 ** ((low_db + u * (high_db - low_db)) / 10)
        return in_db
    low, high = 10 ** (low_db / 10), 10 ** (high_db / 10)
    return low + u * (high - low)


def gain_exceeds(levels: Reals, *, mean: float, low: float, high: float) -> Reals:
    """P(|h| ≥ level) for the exponential law limited to [low, high]."""
    return np.where(levels <= low, 1.0, np.where(levels <= high, np.exp(-levels / mean), 0.0))


def phase_correction(gains: Gains) -> Gains:
    """The factor e^{-jφ} with which a device undoes its channel's phase before it sends."""
    correction: Gains = np.exp(-1j * np.angle(gains))
    return correction


def superpose(signals: Tensor, gains: Gains, *, correction: Gains) -> Tensor:
    """What the air makes of the rows sent at once: Σᵢ Re(hᵢ e^{-jφᵢ}) xᵢ, without the receiver's noise (eq. (7))."""
    weights = torch.from_numpy((gains * correction).real).to(signals)
    return weights @ signals


def receiver_noise(generator: np.random.Generator, *, width: int, std: float) -> Tensor:
    """z ~ N(0, σ₀²I) over the `width` subcarriers in use."""
    return torch.from_numpy(generator.standard_normal(width, dtype=np.float32)).mul_(std)


def slots(subcarriers_used: int, *, subcarriers: int) -> int:
    """The time slots that carry so many symbols, K to a slot."""
    return -(-subcarriers_used // subcarriers)


@dataclass(frozen=True)
class GainLaw:
    """|h| is exponential with this mean, limited to [low, high]."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class SnrLaw:
    """Pᵢ/(dσ₀²) is uniform between the two, on the linear scale or in dB."""

    low_db: float
    high_db: float
    scale: str
