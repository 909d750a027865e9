"""Histograms of oriented gradients on cells of 4×4 pixels, and the cells' mean colours.

After Dalal and Triggs (2005), with the choices that made small networks learn fastest in trials.
"""

import math
from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pfels.data.feature_groups import TINY, centred, joined, opponents, scaled

VERSION = 4  # of this definition; the cache computes features of another version anew
BINS, CELL = 8, 4
BRIGHTNESS, HUE = 0.4, 0.5  # weights of the cells' mean colours; that of the histograms is 1


def features(x: Tensor) -> Tensor:
    """Images (n, colours, height, width) as vectors (n, (8 + colours)·height/4·width/4) of norm 6."""
    x = scaled(x)
    means = F.avg_pool2d(opponents(x), CELL)
    groups = [(1.0, centred(_histograms(x).sqrt_())), (BRIGHTNESS, centred(means[:, 0]))]
    return joined(groups if x.shape[1] == 1 else [*groups, (HUE, means[:, 1:])])


def _histograms(x: Tensor) -> Tensor:
    """The gradients around each cell (n, 8, height/4, width/4), by orientation from 0° in steps of 22.5°."""
    bins = (_windows() @ _gradients(x).flatten(2)).relu_().view(len(x), BINS, *x.shape[2:])
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
