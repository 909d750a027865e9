"""The peaks of an OFDM signal: how high they are, and what remains of the signal if the amplifier clips them."""

import math
from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from pfels.runtime.lazy_torch import Tensor, torch
from pfels.uplink.effects.effect import Effect

_OVERSAMPLING = 4  # at least; peaks between samples taken at the Nyquist rate would be missed


class Amplifier(Effect):
    """Amplifiers clip what is clipping_db above the mean power of a transmission."""

    privacy: ClassVar[str] = "None: no signal gets longer."

    clipping_db: float | None = Field(
        default=None,
        ge=-10,
        le=60,
        examples=[6.0],
        description="the amplifier clips what is this far above the mean power of a transmission, in dB; not set: it "
        "clips nothing. Needs a flat channel. Not for artificial-noise",
    )

    def amplified(self, rows: Tensor, *, subcarriers: int) -> Tensor:
        """The signals as they leave the amplifiers."""
        if self.clipping_db is None:
            return rows
        return clip_peaks(rows, clipping_db=self.clipping_db, subcarriers=subcarriers)


def clip_peaks(rows: Tensor, *, clipping_db: float, subcarriers: int) -> Tensor:
    """The rows (r, w) as they arrive if an amplifier clips the envelope `clipping_db` above the mean power of a row.

    Coordinate j of a row is sent on subcarrier j mod K of OFDM symbol j // K; the last symbol is filled up with zeros.
    In time the row is x(t) = Σₖ X[k]·e^{j2πf_k·t} in each symbol, here sampled N ≥ 4K times. With A² the mean power of
    the row times 10^(clipping_db/10), the amplifier sends g(t)·x(t), g = min(1, A/|x|), and the receiver reads the K
    subcarriers. The mean power is the row's energy over the time of w/K symbols, at least one. Rows without such a
    peak are returned as they are.

    No row gets longer. 0 ≤ g ≤ 1, so the energy of the samples falls: Σₙ|gx|² ≤ Σₙ|x|² = N·‖X‖² (Parseval; the K
    numbers X are among the N of the transform, the others are 0). Reading K of the N numbers is an orthogonal
    projection. Hence ‖clipped‖ ≤ ‖row‖, up to rounding (parts in 1e7), even for a receiver that listens outside of
    the band. A sensitivity bound of the rows is one of the clipped rows.

    All of it arrives in I. For real X, x(−t) = x(t)*, so |x| and g are even, and (gx)(−t) = (gx)(t)*: what arrives is
    real, and the same in Q is 0. (A phase that all subcarriers share changes nothing, nor does the place of the band:
    |x| is the same.) And clipping is homogeneous: c·row becomes c·clipped, since A grows by |c| as |x| does.

    >>> one_peak = torch.ones(1, 64)
    >>> clip_peaks(one_peak, clipping_db=3.0, subcarriers=64).norm().item() < 8
    True
    """
    clipped, ceiling = rows.clone(), 10 ** (clipping_db / 10)
    for row, (x, mean) in enumerate(_samples(rows, subcarriers)):
        power = _power(x)
        if bool((power > ceiling).any()):
            x.mul_(power.clamp_(min=ceiling).rsqrt_().mul_(math.sqrt(ceiling)))
            arriving = torch.fft.irfft(x, n=_size(subcarriers))[:, :subcarriers]
            clipped[row] = arriving.reshape(-1)[: rows.shape[1]] * mean
    return clipped


def peaks_db(rows: Tensor, *, subcarriers: int) -> Tensor:
    """The peak power in each OFDM symbol (r, M) over the mean power of its row, in dB; −∞ in a symbol of zeros.

    The same samples and the same mean as in `clip_peaks`, which leaves a row as it is if none of these is above
    `clipping_db`. The share of values above a level is the complementary distribution of the peak-to-average ratio.
    """
    return torch.stack([10 * _power(x).amax(-1).log10() for x, _ in _samples(rows, subcarriers)])


def _size(subcarriers: int) -> int:
    """N: the next power of two from 4K on, for a fast transform."""
    return 1 << (_OVERSAMPLING * subcarriers - 1).bit_length()


def _power(x: Tensor) -> Tensor:
    return x.real.square() + x.imag.square()


def _samples(rows: Tensor, subcarriers: int) -> Iterator[tuple[Tensor, float]]:
    """The samples of each row's symbols (M, N/2 + 1), divided by the root of the row's mean power, and that root.

    One row at a time: the samples of a round of a large network would not fit in memory together, and what becomes of
    a row must not depend on the rows beside it. For real X half of the samples are enough, since x(−t) = x(t)*: a real
    transform finds those of −t.
    """
    width = rows.shape[1]
    missing = -width % subcarriers
    for row in rows:
        length = float(torch.linalg.vector_norm(row, dtype=torch.float64))
        mean = length / math.sqrt(max(width / subcarriers, 1.0))
        symbols = torch.nn.functional.pad(row / (mean or 1.0), (0, missing)).view(-1, subcarriers)
        yield torch.fft.rfft(symbols, n=_size(subcarriers)), mean
