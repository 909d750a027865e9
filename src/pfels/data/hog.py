"""Histograms of oriented gradients on cells of 4×4 pixels, and the cells' mean colours.

After Dalal and Triggs (2005), with the choices that made small networks learn fastest; docs/data.md has the numbers.
"""

import math
from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

VERSION = 3  # of this definition; the cache computes features of another version anew
BINS, CELL = 8, 4
NORM = 6.0  # of an example's features
BRIGHTNESS, HUE = 0.4, 0.5  # norms of the cells' mean brightness and hue, relative to that of the histograms
TINY, FAINT = 1e-30, 1e-4  # no division by zero; no rounding errors for features where an image is constant


def features(x: Tensor) -> Tensor:
    """Images (n, colours, height, width) as vectors (n, (8 + colours)·height/4·width/4) of norm 6."""
    x = x / x.abs().amax((1, 2, 3), keepdim=True).clamp_(min=TINY)  # contrast does not matter, nor can squares overflow
    means = F.avg_pool2d(x, CELL)
    parts = [_unit(_centred(_histograms(x).sqrt_())), BRIGHTNESS * _unit(_centred(means.sum(1)))]
    if x.shape[1] == 3:
        parts.append(HUE * _unit(_hues(means)))
    return NORM * _unit(torch.cat(parts, 1))


def _histograms(x: Tensor) -> Tensor:
    """The gradients around each cell (n, 8, height/4, width/4), by orientation from 0° in steps of 22.5°."""
    bins = (_windows() @ _gradients(x).flatten(2)).relu_().unflatten(2, x.shape[2:])
    return _pooling(x.shape[2]) @ (bins @ _pooling(x.shape[3]).T)


def _gradients(x: Tensor) -> Tensor:
    """Each pixel's gradient of magnitude m and direction φ as m·(cos 2φ, sin 2φ, 1); of the colours, the strongest."""
    edges = F.pad(x, (1, 1, 1, 1), mode="replicate")
    across = edges[:, :, 1:-1, 2:] - edges[:, :, 1:-1, :-2]
    down = edges[:, :, 2:, 1:-1] - edges[:, :, :-2, 1:-1]
    strongest, *others = torch.stack(
        [across.square() - down.square(), 2 * across * down, across.square() + down.square()], 2
    ).unbind(1)
    for other in others:
        strongest = torch.where(other[:, 2:] > strongest[:, 2:], other, strongest)
    return strongest / strongest[:, 2:].sqrt().clamp_(min=TINY)


@cache
def _windows() -> Tensor:
    """What each bin takes of m·(cos 2φ, sin 2φ, 1): all at its own orientation, nothing at its neighbours'."""
    angles = torch.arange(BINS) * (2 * math.pi / BINS)
    zero = torch.full_like(angles, math.cos(2 * math.pi / BINS))
    return torch.stack([angles.cos(), angles.sin(), -zero], 1) / (1 - zero[0])


@cache
def _pooling(side: int) -> Tensor:
    """Weights (side/4, side) of the pixels of each cell: a triangle of twice its width, so that cells overlap."""
    cells = CELL * torch.arange(side // CELL).unsqueeze(1) + (CELL - 1) / 2
    return (1 - (torch.arange(side) - cells).abs() / CELL).clamp_(min=0) / CELL


def _hues(means: Tensor) -> Tensor:
    """Colours (n, 3, …) without their brightness, as two numbers each: red against blue, and green against both."""
    red, green, blue = means.unbind(1)
    return torch.stack([red - blue, (2 * green - red - blue) / math.sqrt(3)], 1)


def _centred(x: Tensor) -> Tensor:
    x = x.flatten(1)
    return x - x.mean(1, keepdim=True)


def _unit(x: Tensor) -> Tensor:
    """Vectors of norm 1; almost zero stays almost zero."""
    return F.normalize(x.flatten(1), eps=FAINT)
