"""Histograms of oriented gradients on cells of 4×4 pixels, and the cells' mean colours.

After Dalal and Triggs (2005), with the choices that made small networks learn fastest; docs/data.md has the numbers.
"""

import math
from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

VERSION = 2  # of this definition; the cache computes features of another version anew
BINS, CELL = 8, 4
NORM = 4.0  # of an example's features
COLOUR = 0.6  # norm of the mean colours, relative to that of the histograms
TINY, FAINT = 1e-30, 1e-4  # no division by zero; no rounding errors for features where an image is constant


def features(x: Tensor) -> Tensor:
    """Images (n, colours, height, width) as vectors (n, (8 + colours)·height/4·width/4) of norm 4."""
    x = x / x.abs().amax((1, 2, 3), keepdim=True).clamp_(min=TINY)  # contrast does not matter, nor can squares overflow
    histograms, colours = _unit(_histograms(x).sqrt_()), _unit(F.avg_pool2d(x, CELL))
    return torch.cat([histograms, COLOUR * colours], 1).mul_(NORM / math.hypot(1, COLOUR))


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


def _unit(x: Tensor) -> Tensor:
    """Vectors of norm 1, each around its own mean; a constant one is zero."""
    x = x.flatten(1)
    return F.normalize(x - x.mean(1, keepdim=True), eps=FAINT)
