"""Threads that work ahead, in order and no further than memory allows."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch

from pfels.runtime.memory import Scratch, _keep_freed_memory

Part = TypeVar("Part")
Done = TypeVar("Done")


class Crew:
    """So many threads. With one, the work is done by the caller."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None
        self._free = [Scratch() for _ in range(workers + 1 if workers > 1 else 1)]

    def in_order(self, work: Callable[[Part, Scratch], Done], parts: Sequence[Part]) -> Iterator[Done]:
        """work(part, scratch) of each part, in the order of the parts.

        A result may lie in its scratch, so it holds until the next one is asked for. No more than workers + 1
        parts are under way or waiting to be taken.
        """
        if self._pool is None or len(parts) <= 1:
            for part in parts:
                yield work(part, self._free[0])
            return
        ahead: deque[tuple[Scratch, Future[Done]]] = deque()
        left = deque(parts)
        try:
            while left or ahead:
                while left and self._free:
                    scratch = self._free.pop()
                    ahead.append((scratch, self._pool.submit(work, left.popleft(), scratch)))
                yield ahead[0][1].result()
                self._free.append(ahead.popleft()[0])
        finally:  # an error, or a caller who has seen enough: nothing may go on in scratch that is given back
            for _, future in ahead:
                future.cancel()
            wait([future for _, future in ahead])
            self._free += [scratch for scratch, _ in ahead]


@contextmanager
def one_thread_each() -> Iterator[None]:
    """One intra-op thread: parallel work is cut by us, along fixed lines, so that its size never changes a bit."""
    _keep_freed_memory()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
