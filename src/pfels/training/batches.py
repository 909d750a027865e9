"""The batches in which devices process their examples."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Orders = Callable[[int], np.random.Generator]


@dataclass(frozen=True)
class Batch:
    """One step of c devices: the indices of their examples (c, b), or None for all examples in stored order.

    `weights` (c, b) average over the real examples, or None if there is no padding; `active` (c,) is 0 for a device
    whose epoch is over, or None if all devices are active.
    """

    chosen: Tensor | None
    weights: Tensor | None
    active: Tensor | None

    def of(self, examples: Tensor) -> Tensor:
        """The batch's entries of a tensor (c, n, …)."""
        if self.chosen is None:
            return examples
        return examples[torch.arange(len(examples), device=examples.device).unsqueeze(1), self.chosen]


def batches(
    counts: NDArray[np.int64], members: Sequence[int], orders: Orders, *, epochs: int, size: int, device: torch.device
) -> Iterator[Batch]:
    """The steps of devices with `counts` examples: `epochs` passes over all of them, in batches of `size`.

    A device with more than `size` examples draws a new order per epoch from `orders(member)`; for the others the
    order has no effect.
    """
    least = np.maximum(counts, 1)  # a device without examples learns nothing, of padding alone
    longest = int(least.max())
    if longest <= size:
        full = Batch(None, _weights(counts, 0, longest, device), None)
        yield from (full for _ in range(epochs))
        return
    generators = [orders(m) if n > size else None for m, n in zip(members, counts, strict=True)]
    for _ in range(epochs):
        order = np.zeros((len(counts), longest), dtype=np.int64)
        for row, n, generator in zip(order, counts, generators, strict=True):
            row[:n] = np.arange(n) if generator is None else generator.permutation(n)
        for start in range(0, longest, size):
            stop = min(start + size, longest)
            active = None if least.min() > start else torch.from_numpy((least > start).astype(np.float32)).to(device)
            chosen = torch.from_numpy(order[:, start:stop]).to(device)
            yield Batch(chosen, _weights(counts, start, stop, device), active)


def _weights(counts: NDArray[np.int64], start: int, stop: int, device: torch.device) -> Tensor | None:
    """Per-example weights of the batch [start, stop): 1/size of the device's own batch, zero on padding."""
    sizes = np.minimum(np.maximum(counts - start, 0), stop - start)
    if sizes.min() == stop - start:
        return None
    real = np.arange(stop - start)[None, :] < sizes[:, None]
    return torch.from_numpy((real / np.maximum(sizes, 1)[:, None]).astype(np.float32)).to(device)
