"""Mallat's scattering transform of two scales and eight directions: local averages of |x ⋆ ψ| and ||x ⋆ ψ| ⋆ ψ'|.

Bruna and Mallat, Invariant scattering convolution networks (2013), with the Morlet wavelets of Kymatio. Coefficients
of order two are divided by those of order one, as in Andén and Mallat, Deep scattering spectrum (2014).
"""

import math
from collections.abc import Sequence
from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pfels.data.feature_groups import centred, joined, opponents, scaled

VERSION = 2  # of this definition; the cache computes features of another version anew
DIRECTIONS, CELL = 8, 4
BRIGHTNESS, HUE = 0.4, 0.5  # weights of the mean brightness, and of each order of the hues; that of the others is 1
FLOOR = 0.01  # where order one is weaker, relative to the image's maximum, order two counts less
ROUNDING = 1e-5  # a coefficient of an image of maximum 1 that may be nothing but rounding errors
MAPS = 15  # images transformed at a time: a core's cache holds them, which takes half the time
Pair = tuple[Tensor, Tensor]


def features(x: Tensor) -> Tensor:
    """Images (n, colours, height, width) as vectors (n, 81·colours·height/4·width/4) of norm 6."""
    x = opponents(scaled(x))
    maps = torch.cat([scatter(part) for part in torch.split(x.flatten(0, 1), MAPS)])
    maps = maps.view(*x.shape[:2], *maps.shape[1:])
    mean, one, two, both = torch.split(maps, [1, DIRECTIONS, DIRECTIONS, DIRECTIONS**2], 2)
    one, two, both = (order.sub_(ROUNDING).clamp_(min=0) for order in (one, two, both))
    orders = [order.sqrt() for order in (one, two, both / (one.repeat_interleave(DIRECTIONS, 2) + FLOOR))]
    groups = [(BRIGHTNESS, centred(mean[:, 0])), *((1.0, centred(order[:, 0])) for order in orders)]
    hues = [(HUE, mean[:, 1:]), *((HUE, centred(order[:, 1:])) for order in orders)]
    return joined(groups if x.shape[1] == 1 else groups + hues)


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
    fine, coarse = (torch.stack([_morlet(*padded, scale=j, direction=k) for k in range(DIRECTIONS)]) for j in (0, 1))
    quarters = [(q / 4).float().unsqueeze(-1).expand(*q.shape, 2).contiguous() for q in _quarters(coarse)]
    every, other = ((_pool(height, step=step), _pool(width, step=step)) for step in (1, 2))
    return fine.float(), quarters, every, other


def _morlet(height: int, width: int, *, scale: int, direction: int) -> Tensor:
    """The spectrum of a Morlet wavelet: a Gaussian around the frequency ξ, less one around 0 that makes its mean 0."""
    sigma, xi, theta = 0.8 * 2**scale, 0.75 * math.pi / 2**scale, (3 - direction) * math.pi / DIRECTIONS
    aliases = torch.arange(-3, 4, dtype=torch.float64).view(-1, 1)
    down, across = (
        2 * math.pi * (torch.arange(side, dtype=torch.float64) / side + aliases).flatten() for side in (height, width)
    )
    along = down.unsqueeze(1) * math.cos(theta) + across * math.sin(theta)
    beside = across * math.cos(theta) - down.unsqueeze(1) * math.sin(theta)
    around_xi, around_0 = (
        torch.exp(-0.5 * sigma**2 * ((along - centre).square() + (2 * beside).square()))
        .view(len(aliases), height, len(aliases), width)
        .sum((0, 2))
        for centre in (xi, 0.0)
    )
    return around_xi - around_xi[0, 0] / around_0[0, 0] * around_0


def _pool(side: int, *, step: int) -> Tensor:
    """Weights (side/4, padded side/step) of a Gaussian around the first pixel of every cell, σ = 1.6 pixels."""
    padded = side + 2 * CELL
    pixels, cells = torch.arange(0, padded, step), CELL * torch.arange(1, side // CELL + 1).unsqueeze(1)
    distance = (pixels - cells).abs()
    weights = torch.exp(-torch.minimum(distance, padded - distance).square() / (2 * 1.6**2))
    return weights / weights.sum(1, keepdim=True)
