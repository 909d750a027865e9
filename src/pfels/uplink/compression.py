"""The shared rand-k index set ω, and the projection A and its transpose that it stands for (eq. (9))."""

import numpy as np
from numpy.typing import NDArray

from pfels.runtime.lazy_torch import Tensor, torch


def kept_count(dimension: int, ratio: float) -> int:
    """The number k of coordinates kept out of d at ratio p: p·d to the nearest whole number, at least one."""
    return max(1, round(ratio * dimension))


def rand_k(generator: np.random.Generator, *, dimension: int, kept: int) -> Tensor:
    """k indices drawn uniformly from all k-subsets of [d], in rising order.

    Server and devices draw them from the same address of the seed tree, so they are never sent.
    """
    return torch.from_numpy(np.flatnonzero(_subset(generator, size=dimension, kept=kept)))


def _subset(generator: np.random.Generator, *, size: int, kept: int) -> NDArray[np.bool_]:
    """A mask of `kept` out of `size` places, uniform over all such masks.

    One coin for each place, then as many places too many or too few, drawn at random, are turned: no step tells two
    places apart, so no mask is likelier than another. At ten million places it takes half the time of a draw of one
    place after another.
    """
    mask = generator.random(size, dtype=np.float32) < kept / size
    surplus = int(np.count_nonzero(mask)) - kept
    turned = np.flatnonzero(mask == (surplus > 0))
    mask[turned[generator.choice(len(turned), size=abs(surplus), replace=False)]] = surplus < 0
    return mask


def public_top_k(generator: np.random.Generator, moved: Tensor, *, kept: int) -> Tensor:
    """k indices in rising order: half of them where a public vector is largest, the others drawn from the rest.

    `moved` is how far each coordinate of the released model has come, which everybody can see, so that the choice
    tells nothing new; the random half keeps any coordinate from starving.
    """
    dimension = len(moved)
    chosen = torch.zeros(dimension, dtype=torch.bool)
    chosen[torch.topk(moved.abs(), kept // 2).indices] = True
    rest = torch.nonzero(~chosen).squeeze(1)
    drawn = _subset(generator, size=len(rest), kept=kept - kept // 2)
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
