"""How often a run writes its checkpoint."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

SLOW_CHECKPOINT_S = 0.5


class Pace:
    """When a checkpoint is due: every `every` rounds, except that one that takes long is not written so often that it
    would take more than a twentieth of the time. `every` = 1 means every round, whatever it takes."""

    def __init__(self, every: int) -> None:
        self.every, self.took, self.ended = every, 0.0, 0.0

    def due(self, rounds: int) -> bool:
        """Whether to save after this many rounds."""
        soon = self.took > SLOW_CHECKPOINT_S and time.perf_counter() - self.ended < 20 * self.took
        return rounds % self.every == 0 and (self.every == 1 or not soon)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Take the time of a checkpoint."""
        began = time.perf_counter()
        yield
        self.ended = time.perf_counter()
        self.took = self.ended - began
