"""Mallat's scattering transform of two scales and eight directions: local averages of |x ⋆ ψ| and ||x ⋆ ψ| ⋆ ψ'|.

Bruna and Mallat, Invariant scattering convolution networks (2013), with the Morlet wavelets of Kymatio (JMLR 2020),
and the group normalisation of Tramèr and Boneh, Differentially private learning needs better features (2021), which
takes its statistics from one image.
"""

import math
from collections.abc import Sequence
from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

VERSION = 1  # of this definition; the cache computes features of another version anew
DIRECTIONS = 8
CELL = 4  # 2² pixels, the side of a local average
GROUPS = 27  # of neighbouring channels, each brought to mean 0 and variance 1 over an image
NORM = 6.0
Pair = tuple[Tensor, Tensor]


def features(x: Tensor) -> Tensor:
    """Images (n, colours, height, width) as vectors (n, 81·colours·height/4·width/4)."""
    scattered = scatter(x.flatten(0, 1)).unflatten(0, x.shape[:2])
    return scattered.flatten(1)


def scatter(x: Tensor) -> Tensor:
    """The coefficients (n, 81, height/4, width/4) of images (n, height, width) by order: 1, then 16, then 64.

    Those of order one are by scale and direction; those of order two by the direction at scale 1, then at scale 2.
    """
    fine, coarse, every, other = _operators(*x.shape[1:])
    x = F.pad(x.unsqueeze(1), (CELL, CELL, CELL, CELL), mode="reflect")
    spectrum = torch.fft.fft2(x)
    one = _modulus(torch.fft.ifft2(spectrum * fine))  # scale 1, at every pixel
    two = _modulus(torch.fft.ifft2(_halved(spectrum, coarse)))  # scale 2, at every other pixel
    both = _modulus(torch.fft.ifft2(_halved(torch.fft.fft2(one).unsqueeze(2), coarse))).flatten(1, 2)
    return torch.cat([_average(x, every), _average(one, every), _average(two, other), _average(both, other)], 1)


def _average(maps: Tensor, pools: Pair) -> Tensor:
    rows, columns = pools
    return rows @ (maps @ columns.T)


def _halved(spectrum: Tensor, filters: Sequence[Tensor]) -> Tensor:
    """The spectrum of filtered images at every other pixel of both directions: the mean of its four quarters."""
    first, *others = (torch.view_as_real(quarter).contiguous() for quarter in _quarters(spectrum))
    total = first * filters[0]
    for quarter, weights in zip(others, filters[1:], strict=True):
        total.addcmul_(quarter, weights)
    return torch.view_as_complex(total)


def _quarters(x: Tensor) -> list[Tensor]:
    return [quarter for half in x.chunk(2, -2) for quarter in half.chunk(2, -1)]


def _modulus(z: Tensor) -> Tensor:
    """|z|, five times as fast as `abs`."""
    real, imaginary = torch.view_as_real(z).unbind(-1)
    return real.square().addcmul_(imaginary, imaginary).sqrt_()


@cache
def _operators(height: int, width: int) -> tuple[Tensor, list[Tensor], Pair, Pair]:
    """The wavelets' spectra at both scales, the second in quarters, and the local averages at every (other) pixel."""
    padded = height + 2 * CELL, width + 2 * CELL
    fine, coarse = (torch.stack([_morlet(*padded, j, k) for k in range(DIRECTIONS)]) for j in (0, 1))
    quarters = [(q / 4).float().unsqueeze(-1).expand(*q.shape, 2).contiguous() for q in _quarters(coarse)]
    every, other = ((_pool(height, step), _pool(width, step)) for step in (1, 2))
    return fine.float(), quarters, every, other


def _morlet(height: int, width: int, scale: int, direction: int) -> Tensor:
    """The spectrum of a Morlet wavelet, a Gaussian around the frequency ξ from which one around 0 takes the mean."""
    sigma, xi, theta = 0.8 * 2**scale, 0.75 * math.pi / 2**scale, (3 - direction) * math.pi / DIRECTIONS
    total, mean = torch.zeros(2, height, width, dtype=torch.float64)
    for v, h in ((v, h) for v in range(-3, 4) for h in range(-3, 4)):  # aliases
        down = 2 * math.pi * (torch.arange(height, dtype=torch.float64) / height + v).unsqueeze(1)
        across = 2 * math.pi * (torch.arange(width, dtype=torch.float64) / width + h)
        along = down * math.cos(theta) + across * math.sin(theta)
        beside = across * math.cos(theta) - down * math.sin(theta)
        for centre, sum_ in ((xi, total), (0.0, mean)):
            sum_ += torch.exp(-0.5 * sigma**2 * ((along - centre) ** 2 + (2 * beside) ** 2))
    return total - total[0, 0] / mean[0, 0] * mean


def _pool(side: int, step: int) -> Tensor:
    """Weights of a Gaussian (side/4, padded side/step) around the first pixel of every cell, σ = 1.6 pixels."""
    padded = side + 2 * CELL
    frequencies = torch.fft.fftfreq(padded, dtype=torch.float64) * 2 * math.pi
    spectrum = torch.exp(-0.5 * 1.6**2 * frequencies**2)
    if step == 2:
        n = padded // 2
        spectrum[n // 2 : n // 2 + n] = 0
        spectrum = spectrum.view(2, n).sum(0)
    kernel = torch.fft.ifft(spectrum).real
    rows = [torch.roll(kernel, (CELL + CELL * i) // step) for i in range(side // CELL)]
    return torch.stack(rows).float()
