"""Scratch tensors reused from step to step, and the malloc settings that keep freed memory."""

import ctypes
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from torch import Tensor

from pfels.errors import RunError


class Scratch:
    """Memory for large temporary values, reused at every step: fresh memory costs one page fault per 4 kB.

    It is a stack: the tensor taken last is released first.
    """

    def __init__(self) -> None:
        self._slots: list[Tensor] = []
        self._used = 0

    def take(self, *shape: int, like: Tensor) -> Tensor:
        """An uninitialised tensor of this shape, with the device and dtype of `like`."""
        size, at = math.prod(shape), self._used
        if at == len(self._slots):
            self._slots.append(_empty(size, like))
        elif self._slots[at].numel() < size or self._slots[at].dtype != like.dtype:
            self._slots[at] = _empty(size, like)
        self._used += 1
        return self._slots[at][:size].view(shape)

    @property
    def mark(self) -> int:
        """The current stack height, to return to with `give_back`."""
        return self._used

    def give_back(self, mark: int) -> None:
        """Release everything taken since `mark`."""
        self._used = mark


def _empty(size: int, like: Tensor) -> Tensor:
    """An uninitialised tensor that may be changed in place everywhere, even if it is made in inference mode."""
    with torch.inference_mode(False):
        return torch.empty(size, dtype=like.dtype, device=like.device)


def available_memory() -> int | None:
    """How many bytes this process may still take without swapping; None where the system does not say."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    group = Path("/sys/fs/cgroup")  # a container may have less
    with suppress(OSError, ValueError):
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        free = min(free, max(limit - used, 0))
    return free


@contextmanager
def full_memory_in_one_line() -> Iterator[None]:
    """Turn what PyTorch and NumPy raise where memory is short into an error for users."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):  # PyTorch's own way to say it
            raise
        raise RunError("not enough memory; choose a smaller network, cohort or batch") from None


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # from malloc.h


def keep_freed_memory() -> None:
    """Make glibc keep freed memory for the next step, which allocates the same sizes again.

    Returning it to the system costs one page fault per 4 kB at the next use: 25 % of the time of a small network.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)
        mallopt(_M_TRIM_THRESHOLD, 512 * 2**20)
