"""How often each device has sent so far, where a scheme caps it. The count follows from the seed alone."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import DeviceIds


@dataclass
class ParticipationCount:
    """`times[i]`: how often device i has sent in the first `rounds` rounds of the training with this seed.

    It is a pure function of the seed, continued from where it was so that a training costs one pass; an earlier round
    or another seed starts it again.
    """

    times: NDArray[np.int64]
    rounds: int = 0
    seed: int | None = None

    def below(self, cap: int, t: int, able: Callable[[int], DeviceIds], *, seed: int) -> DeviceIds:
        """Of the devices able to send in round t, those that have sent fewer than `cap` times before."""
        if self.rounds > t or self.seed != seed:
            self.times, self.rounds, self.seed = np.zeros_like(self.times), 0, seed
        while self.rounds < t:
            earlier = able(self.rounds)
            self.times[earlier[self.times[earlier] < cap]] += 1
            self.rounds += 1
        now = able(t)
        return now[self.times[now] < cap]
