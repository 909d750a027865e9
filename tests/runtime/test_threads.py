"""The thread pool: a result has the same bits on whichever thread it was computed, and on one that is new, too."""

import torch

from pfels.runtime.memory import Scratch
from pfels.runtime.threads import OrderedPool, one_thread_each


def test_a_new_thread_computes_the_same_bits_as_the_calling_one():
    draw = torch.Generator().manual_seed(0)
    x, w = torch.randn(1, 250, 32, generator=draw), torch.randn(1, 32, 10, generator=draw)

    def product(part: int, scratch: Scratch) -> torch.Tensor:
        return torch.bmm(w.mT, x.mT)

    with one_thread_each():
        here = product(0, Scratch())
        for _ in range(20):
            assert all(torch.equal(found, here) for found in OrderedPool(2).map(product, [0, 1]))
