"""The shared rand-k index set ω, and the projection A and its transpose that it stands for (eq. (9))."""

import numpy as np
from numpy.typing import NDArray

from pfels.runtime.lazy_torch import Tensor, torch


def kept_count(dimension: int, ratio: float) -> int:
    """The number k of coordinates kept out of d at ratio p: p·d rounded to the nearest integer, minimum 1."""
    return max(1, round(ratio * dimension))


def rand_k(generator: np.random.Generator, *, dimension: int, kept: int) -> Tensor:
    """k indices drawn uniformly from all k-subsets of [d], in ascending order.

    Server and devices derive them from the same seed, so they are never transmitted.
    """
    return torch.from_numpy(np.flatnonzero(_subset(generator, size=dimension, kept=kept)))


def _subset(generator: np.random.Generator, *, size: int, kept: int) -> NDArray[np.bool_]:
    """A mask of `kept` out of `size` positions, uniform over all such masks.

    One Bernoulli draw per position, then the surplus or deficit is corrected at random positions. No step
    distinguishes two positions, so all masks are equally likely. At ten million positions this takes half the time
    of drawing the positions one by one.
    """
    mask = generator.random(size, dtype=np.float32) < kept / size
    surplus = int(np.count_nonzero(mask)) - kept
    flipped = np.flatnonzero(mask == (surplus > 0))
    mask[flipped[generator.choice(len(flipped), size=abs(surplus), replace=False)]] = surplus < 0
    return mask


def blocks(generator: np.random.Generator, *, dimension: int, count: int) -> list[Tensor]:
    """The d coordinates cut at random into `count` blocks of equal size, up to one; each in ascending order.

    >>> sorted(len(block) for block in blocks(np.random.default_rng(0), dimension=8, count=3))
    [2, 3, 3]
    """
    cut = np.array_split(generator.permutation(dimension), count)
    return [torch.from_numpy(np.sort(block)) for block in cut]


def public_top_k(generator: np.random.Generator, moved: Tensor, *, kept: int) -> Tensor:
    """k indices in ascending order: k//2 where |moved| is maximal, the others drawn uniformly from the rest.

    `moved` is the change of each coordinate of the released model. It is public, so the choice reveals nothing new;
    the random half ensures that every coordinate is sent eventually.
    """
    dimension = len(moved)
    chosen = torch.zeros(dimension, dtype=torch.bool)
    chosen[torch.topk(moved.abs(), kept // 2).indices] = True
    rest = torch.nonzero(~chosen).squeeze(1)
    drawn = _subset(generator, size=len(rest), kept=kept - kept // 2)
    chosen[rest[torch.from_numpy(drawn)]] = True
    return torch.nonzero(chosen).squeeze(1)


def project(rows: Tensor, indices: Tensor | None) -> Tensor:
    """A·v for every row v: its kept coordinates. None keeps every coordinate and returns the rows themselves.

    >>> project(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([0, 2]))
    tensor([[1., 3.]])
    """
    if indices is None:
        return rows
    return rows.index_select(-1, indices)


def lift(vector: Tensor, indices: Tensor | None, *, dimension: int) -> Tensor:
    """Aᵀ·v: the kept coordinates in their positions, zero elsewhere. None returns the vector itself.

    >>> lift(torch.tensor([1.0, 3.0]), torch.tensor([0, 2]), dimension=4)
    tensor([1., 0., 3., 0.])
    """
    if indices is None:
        return vector
    full = torch.zeros(dimension, dtype=vector.dtype, device=vector.device)
    full[indices] = vector
    return full
