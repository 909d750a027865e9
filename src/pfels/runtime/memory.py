"""runtime.memory"""

import ctypes
import math
import sys

from torch import Tensor


class Scratch:
    """Memory for large passing values, used again at every step: fresh memory costs a page fault for each 4 kB.

    It is a stack: what was taken last is given back first.
    """

    def __init__(self) -> None:
        self._slots: list[Tensor] = []
        self._used = 0

    def take(self, *shape: int, like: Tensor) -> Tensor:
        """An unset tensor of this shape, on the device and of the type of `like`."""
        size, at = math.prod(shape), self._used
        if at == len(self._slots):
            self._slots.append(like.new_empty(size))
        elif self._slots[at].numel() < size:
            self._slots[at] = like.new_empty(size)
        self._used += 1
        return self._slots[at][:size].view(shape)

    @property
    def mark(self) -> int:
        """How much is in use, to give back to later."""
        return self._used

    def give_back(self, mark: int) -> None:
        """Let go of all that was taken since `mark`."""
        self._used = mark


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # from malloc.h


def _keep_freed_memory() -> None:
    """Let glibc hold on to freed memory for the next step, which asks for the same again.

    Giving it to the system and taking it back costs a page fault for every 4 kB: a quarter of a small network's time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)
        mallopt(_M_TRIM_THRESHOLD, 512 * 2**20)
