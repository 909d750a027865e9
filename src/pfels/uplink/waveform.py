"""The uplink as a waveform: OFDM symbols as time samples, through echoes and delays to the receiver's FFT.

Nothing that runs needs it. It checks the model that does, which multiplies every subcarrier by one number.

Symbol m of a device, X[m, k] on subcarrier f_k = (k − K//2)·Δf, is on the air for T_c + T seconds, T = 1/Δf. With
u = t − m·(T + T_c) − T_c, the time since its useful part began, the device sends

    x(t) = N^{−1/2}·Σₖ X[m, k]·e^{j2πf_k·u}    for −T_c ≤ u < T, and nothing before the first and after the last symbol.

The receiver takes a sample every T/N seconds of r(t) = Σᵢ Σₗ cᵢₗ·xᵢ(t − τᵢₗ) + n(t), with the complex amplitudes cᵢₗ
and the delays τᵢₗ of the paths of device i. Of every symbol it keeps the N samples of a window, and takes their FFT.

Units and conventions: frequencies in Hz, times in s. Transforms are unitary, so ‖x‖² over the useful part of a symbol
is ‖X‖². The noise of a sample has standard deviation σ₀ in I and σ₀ in Q, hence also that of a received X[m, k].
Shapes: r devices, M symbols, K subcarriers, L paths; a stream has M·(N + P) samples, P of them the prefix of each
symbol. The carrier's phase, the device's and that of each path, is in cᵢₗ.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import Reals
from pfels.uplink.frame import PREFIX_SHARE
from pfels.uplink.tdl import subcarrier_frequencies

Complex = NDArray[np.complex128]

_TOUCHING = 1e-9  # in samples: a sample this close before the start of a symbol belongs to it


@dataclass(frozen=True)
class Grid:
    """K `subcarriers`, `spacing_hz` apart, sampled `size` times (N) per useful part, with `prefix` samples (P) before.

    >>> Grid.of(subcarriers=600, spacing_hz=15e3)
    Grid(subcarriers=600, spacing_hz=15000.0, size=4096, prefix=288)
    """

    subcarriers: int
    spacing_hz: float
    size: int
    prefix: int

    @classmethod
    def of(cls, *, subcarriers: int, spacing_hz: float, oversampling: int = 4) -> Self:
        """The grid with the normal prefix whose N is the next power of two from `oversampling`·K on."""
        size = max(128, 1 << (oversampling * subcarriers - 1).bit_length())  # 128: the prefix is 9/128 of it
        return cls(subcarriers, spacing_hz, size, round(size * PREFIX_SHARE))

    @property
    def frequencies_hz(self) -> Reals:
        """f_k of each subcarrier, (K,)."""
        return subcarrier_frequencies(self.subcarriers, spacing_hz=self.spacing_hz)

    @property
    def bins(self) -> NDArray[np.int64]:
        """The place of each subcarrier in a transform of N numbers, (K,)."""
        places: NDArray[np.int64] = (np.arange(self.subcarriers) - self.subcarriers // 2) % self.size
        return places

    @property
    def step_s(self) -> float:
        """The time T/N from one sample to the next."""
        return 1 / (self.spacing_hz * self.size)

    @property
    def prefix_s(self) -> float:
        """The length T_c of the cyclic prefix."""
        return self.prefix * self.step_s

    @property
    def length(self) -> int:
        """The samples N + P of a symbol with its prefix."""
        return self.size + self.prefix


def to_symbols(rows: NDArray[np.inexact], *, order: NDArray[np.int64]) -> Complex:
    """Rows of w coordinates (r, w) as symbols (r, M, K), M = ⌈w/K⌉: coordinate j on subcarrier order[j mod K] of symbol
    j // K, where `order` is a permutation of the K subcarriers. The last symbol is filled up with zeros.

    >>> to_symbols(np.array([[1.0, 2.0, 3.0]]), order=np.array([1, 0])).real.tolist()
    [[[2.0, 1.0], [0.0, 3.0]]]
    """
    count, subcarriers = len(rows), len(order)
    symbols = -(-rows.shape[1] // subcarriers)
    padded = np.zeros((count, symbols * subcarriers), np.complex128)
    padded[:, : rows.shape[1]] = rows
    placed = np.empty((count, symbols, subcarriers), np.complex128)
    placed[:, :, order] = padded.reshape(count, symbols, subcarriers)
    return placed


def from_symbols(symbols: Complex, *, order: NDArray[np.int64], width: int) -> Complex:
    """The `width` coordinates (w,) that symbols (M, K) carry: the inverse of `to_symbols` for one row."""
    return symbols[:, order].reshape(-1)[:width]


def stream(symbols: Complex, grid: Grid, *, delay_s: float = 0.0) -> Complex:
    """The samples x(n·T/N − τ) of one device's symbols (M, K), delayed by any τ = `delay_s`; shape (M·(N + P),).

    The sampled times of symbol m are those with −T_c ≤ u < T, that is N + P consecutive ones, from the ⌈τN/T⌉-th
    sample after its undelayed start on. There x is a trigonometric polynomial with the period T: an inverse FFT of
    X[m, k]·e^{−j2πf_kτ} evaluates it exactly, whether τ is a whole number of samples or not. A symbol that is so late
    or early that it reaches into the time of the next or the last one is in the stream where it arrives.
    """
    spectrum = np.zeros((len(symbols), grid.size), np.complex128)
    spectrum[:, grid.bins] = symbols * np.exp(-2j * math.pi * grid.frequencies_hz * delay_s)
    period = np.fft.ifft(spectrum, axis=1, norm="ortho")
    late = math.ceil(delay_s / grid.step_s - _TOUCHING)
    on_air = period[:, (np.arange(grid.length) - grid.prefix + late) % grid.size].reshape(-1)
    return _shifted(on_air, late)


def _shifted(samples: Complex, late: int) -> Complex:
    """The samples, `late` places later (earlier if negative), with zeros where nothing is sent."""
    shifted = np.zeros_like(samples)
    kept = max(len(samples) - abs(late), 0)
    if late >= 0:
        shifted[len(samples) - kept :] = samples[:kept]
    else:
        shifted[:kept] = samples[len(samples) - kept :]
    return shifted


def superposed(symbols: Complex, grid: Grid, *, amplitudes: Complex, delays_s: Reals) -> Complex:
    """r(t) without noise of all devices' symbols (r, M, K), whose paths have these `amplitudes` and delays (r, L)."""
    total = np.zeros(symbols.shape[1] * grid.length, np.complex128)
    for own, gains, delays in zip(symbols, amplitudes, delays_s, strict=True):
        for gain, delay in zip(gains, delays, strict=True):
            total += gain * stream(own, grid, delay_s=float(delay))
    return total


def sample_noise(generator: np.random.Generator, *, samples: int, std: float) -> Complex:
    """n(t) at every sample: independent, with standard deviation σ₀ = `std` in I and in Q."""
    noise: Complex = std * generator.standard_normal((samples, 2)).view(np.complex128)[:, 0]
    return noise


def demodulate(samples: Complex, grid: Grid, *, early: int = 0) -> Complex:
    """The received symbols (M, K): the FFT of N samples of each symbol, from `early` samples before its useful part on.

    The window lies within the symbol for all that arrives between `early` samples too early and P − `early` too late.
    The phases e^{−j2πf_k·early·T/N} that come from its place are known and are taken out.
    """
    if not 0 <= early <= grid.prefix:
        raise ValueError(f"early = {early}: must be within the prefix of {grid.prefix} samples")
    blocks = samples.reshape(-1, grid.length)[:, grid.prefix - early : grid.length - early]
    found: Complex = np.fft.fft(blocks, axis=1, norm="ortho")[:, grid.bins]
    moved: Complex = found * np.exp(2j * math.pi * grid.frequencies_hz * early * grid.step_s)
    return moved


def clip_envelope(samples: Complex, *, limit: float) -> Complex:
    """The samples with every |x| above `limit` reduced to it, and its phase kept."""
    size = np.abs(samples)
    clipped: Complex = samples * (limit / np.maximum(size, limit))
    return clipped
