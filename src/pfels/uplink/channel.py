"""The wireless uplink: drawing a channel, and separately, sending through it.

Signals are real vectors with one model coordinate per subcarrier. The receiver noise has standard deviation σ₀ on
every used subcarrier. Gains are complex, h = |h|e^{jφ}, flat over the subcarriers of a device and constant within a
round.
"""

import math
from dataclasses import dataclass

import numpy as np

from pfels.arrays import DeviceIds, Gains, Reals
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.seeding import Purpose, Seed, scalars


def draw_gains(*, seed: Seed, round: int, devices: DeviceIds, mean: float, low: float, high: float) -> Gains:
    """The complex gain of every device in this round: |h| exponential, clipped to [low, high]; φ uniform."""
    magnitudes = scalars(lambda g, n: g.exponential(mean, n), seed, Purpose.GAIN, devices=devices, round=round)
    phases = scalars(lambda g, n: g.uniform(0, 2 * math.pi, n), seed, Purpose.PHASE, devices=devices, round=round)
    gains: Gains = np.clip(magnitudes, low, high) * np.exp(1j * phases)
    return gains


def draw_other_strengths(
    *, seed: Seed, round: int, devices: DeviceIds, antennas: int, mean: float, low: float, high: float
) -> Reals:
    """|h| from every device to each of the receiver's other antennas in this round, one row per antenna, by the law of
    the first one and independent of it. More antennas leave the first rows as they are."""
    rows = [
        scalars(lambda g, n: g.exponential(mean, n), seed, Purpose.ANTENNA, devices=devices + (m << 40), round=round)
        for m in range(1, antennas)
    ]
    return np.clip(np.array(rows).reshape(antennas - 1, len(devices)), low, high)


def draw_errors(*, seed: Seed, round: int, devices: DeviceIds, gain_db: float, phase_deg: float) -> Gains:
    """h/ĥ, the true gain over the one that a device knows: uniform in dB and in degrees, within these bounds."""
    db = scalars(lambda g, n: g.uniform(-1, 1, n), seed, Purpose.GAIN_ERROR, devices=devices, round=round) * gain_db
    turn = scalars(lambda g, n: g.uniform(-1, 1, n), seed, Purpose.PHASE_ERROR, devices=devices, round=round)
    errors: Gains = np.exp(db / 20 * math.log(10) + 1j * np.deg2rad(turn * phase_deg))
    return errors


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


def gain_exceeds(levels: Reals, *, mean: float, low: float, high: float) -> Reals:
    """P(|h| ≥ level) for the exponential distribution clipped to [low, high]."""
    return np.where(levels <= low, 1.0, np.where(levels <= high, np.exp(-levels / mean), 0.0))


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
class GainLaw:
    """|h| is exponential with this mean, clipped to [low, high]."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class SnrLaw:
    """Pᵢ/(dσ₀²) is uniform between low_db and high_db, on the linear scale or in dB."""

    low_db: float
    high_db: float
    scale: str
