"""A thread pool that yields results in order, with a bounded number of tasks in flight."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch

from pfels.runtime.memory import Scratch, keep_freed_memory

Part = TypeVar("Part")
Done = TypeVar("Done")


class OrderedPool:
    """A pool of `workers` threads. With one worker, the calling thread does the work."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        # A new thread takes up PyTorch's number of threads only when it is asked for it; until then a product is split.
        self._pool = ThreadPoolExecutor(workers, initializer=torch.get_num_threads) if workers > 1 else None
        self._free = [Scratch() for _ in range(workers + 1 if workers > 1 else 1)]

    def map(self, work: Callable[[Part, Scratch], Done], parts: Sequence[Part]) -> Iterator[Done]:
        """Yield work(part, scratch) for each part, in the order of the parts.

        A result may lie in its scratch memory, so it is valid only until the next one is requested. At most
        workers + 1 parts are in progress or waiting to be consumed.
        """
        if self._pool is None or len(parts) <= 1:
            for part in parts:
                yield work(part, self._free[0])
            return
        pending: deque[tuple[Scratch, Future[Done]]] = deque()
        remaining = deque(parts)
        try:
            while remaining or pending:
                while remaining and self._free:
                    scratch = self._free.pop()
                    pending.append((scratch, self._pool.submit(work, remaining.popleft(), scratch)))
                yield pending[0][1].result()
                self._free.append(pending.popleft()[0])
        finally:  # after an error or an early stop, wait: no thread may still use scratch memory that is returned
            for _, future in pending:
                future.cancel()
            wait([future for _, future in pending])
            self._free += [scratch for scratch, _ in pending]


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Limit PyTorch to one thread per operation: we split the work at fixed points, so results never depend on it."""
    keep_freed_memory()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
