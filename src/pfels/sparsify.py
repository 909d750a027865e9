"""The shared rand-k index set ω, and the projection A and its transpose that it stands for (eq. (9))."""

import numpy as np
import torch
from torch import Tensor


def kept_count(dimension: int, ratio: float) -> int:
    """The number k of coordinates kept out of d at ratio p: p·d to the nearest whole number, at least one."""
    return max(1, round(ratio * dimension))


def rand_k(generator: np.random.Generator, *, dimension: int, kept: int) -> Tensor:
    """k indices drawn uniformly from all k-subsets of [d], in rising order.

    Server and devices draw them from the same address of the seed tree, so they are never sent.
    """
    if kept == dimension:
        return torch.arange(dimension)
    chosen = generator.choice(dimension, size=kept, replace=False, shuffle=False)
    mask = np.zeros(dimension, dtype=bool)
    mask[chosen] = True
    return torch.from_numpy(np.flatnonzero(mask))


def public_top_k(generator: np.random.Generator, moved: Tensor, *, kept: int) -> Tensor:
    """k indices in rising order: half of them where a public vector is largest, the others drawn from the rest.

    `moved` is how far each coordinate of the released model has come, which everybody can see, so that the choice
    tells nothing new; the random half keeps any coordinate from starving.
    """
    dimension = len(moved)
    chosen = torch.zeros(dimension, dtype=torch.bool)
    chosen[torch.topk(moved.abs(), kept // 2).indices] = True
    rest = torch.nonzero(~chosen).squeeze(1)
    drawn = generator.choice(len(rest), size=kept - kept // 2, replace=False, shuffle=False)
    chosen[rest[torch.from_numpy(drawn)]] = True
    return torch.nonzero(chosen).squeeze(1)


def project(rows: Tensor, indices: Tensor) -> Tensor:
    """A·v for every row v: its kept coordinates."""
    return rows.index_select(-1, indices)


def lift(vector: Tensor, indices: Tensor, *, dimension: int) -> Tensor:
    """Aᵀ·v: the kept coordinates in their places, zero elsewhere."""
    full = torch.zeros(dimension, dtype=vector.dtype, device=vector.device)
    full[indices] = vector
    return full
