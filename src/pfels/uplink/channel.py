"""The wireless uplink: drawing a channel, and separately, sending through it.

Signals are real vectors with one model coordinate per subcarrier. The receiver noise has standard deviation σ₀ on
every used subcarrier. Gains are complex, h = |h|e^{jφ}, flat over the subcarriers of a device and constant within a
round.
"""

from dataclasses import dataclass

import numpy as np

from pfels.arrays import DeviceIds, Gains, Reals
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.seeding import Purpose, Seed, scalars


def draw_powers(
    *, seed: Seed, devices: DeviceIds, dimension: int, noise_std: float, low_db: float, high_db: float, scale: str
) -> Reals:
    """The power limit Pᵢ = SNRᵢ·d·σ₀² of every device, the same in all rounds; SNRᵢ uniform in dB or as a ratio."""
    u = scalars(lambda g, n: g.uniform(size=n), seed, Purpose.POWER, devices=devices)
    return snr_at(u, low_db=low_db, high_db=high_db, scale=scale) * dimension * noise_std**2


def snr_at(u: Reals, *, low_db: float, high_db: float, scale: str) -> Reals:
    """The quantiles u in [0, 1] of SNRᵢ: uniform between low_db and high_db, in dB or as a ratio."""
    if scale == "db":
        in_db: Reals = 10 ** ((low_db + u * (high_db - low_db)) / 10)
        return in_db
    low, high = 10 ** (low_db / 10), 10 ** (high_db / 10)
    return low + u * (high - low)


def phase_correction(gains: Gains) -> Gains:
    """The factor e^{-jφ} with which a device cancels the phase of its channel before sending."""
    correction: Gains = np.exp(-1j * np.angle(gains))
    return correction


def superpose(signals: Tensor, gains: Gains, *, correction: Gains) -> Tensor:
    """The sum of the simultaneous signals, without receiver noise: Σᵢ Re(hᵢ e^{-jφᵢ}) xᵢ (eq. (7))."""
    weights = torch.from_numpy((gains * correction).real).to(signals)
    return weights @ signals


def receiver_noise(generator: np.random.Generator, *, width: int, std: float) -> Tensor:
    """z ~ N(0, σ₀²I) on the `width` used subcarriers."""
    return torch.from_numpy(generator.standard_normal(width, dtype=np.float32)).mul_(std)


@dataclass(frozen=True)
class SnrLaw:
    """Pᵢ/(dσ₀²) is uniform between low_db and high_db, on the linear scale or in dB."""

    low_db: float
    high_db: float
    scale: str
