"""How often each device has sent so far, where a scheme caps it. The count follows from the seed alone."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import DeviceIds
from pfels.schemes.draws import Draws


@dataclass
class ParticipationCount:
    """`times[i]`: how often device i has sent in the first `rounds` rounds of these draws.

    It is a pure function of the draws, continued from where it was so that a training costs one pass; an earlier round
    or other draws start it again.
    """

    times: NDArray[np.int64]
    rounds: int = 0
    draws: Draws | None = None

    def below(self, cap: int, t: int, able: Callable[[int], DeviceIds], *, draws: Draws) -> DeviceIds:
        """Of the devices able to send in round t, those that have sent fewer than `cap` times before."""
        if self.rounds > t or self.draws is not draws:
            self.times, self.rounds, self.draws = np.zeros_like(self.times), 0, draws
        while self.rounds < t:
            earlier = able(self.rounds)
            self.times[earlier[self.times[earlier] < cap]] += 1
            self.rounds += 1
        now = able(t)
        return now[self.times[now] < cap]
