"""How often each device has sent so far, where a scheme caps it. The count follows from the seed alone."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import DeviceIds
from pfels.schemes.draws import Draws


@dataclass
class ParticipationCount:
    """`times[i]`: how often device i has sent in the first `rounds` rounds of these draws; `next` are the devices able
    to send in the round after them, once it has been asked for.

    It is a pure function of the draws, continued from where it was so that a training costs one pass; an earlier round
    or other draws start it again.
    """

    times: NDArray[np.int32]
    rounds: int = 0
    draws: Draws | None = None
    next: DeviceIds | None = None

    def below(
        self, cap: int, t: int, now: DeviceIds, able: Callable[[int], DeviceIds], *, draws: Draws
    ) -> NDArray[np.bool_]:
        """Which of the devices `now` able to send in round t have sent fewer than `cap` times before. `able` are those
        of an earlier round."""
        if self.rounds > t or self.draws is not draws:
            self.times, self.rounds, self.draws, self.next = np.zeros_like(self.times), 0, draws, None
        while self.rounds < t:
            earlier = able(self.rounds) if self.next is None else self.next
            self.times[earlier[self.times[earlier] < cap]] += 1
            self.rounds, self.next = self.rounds + 1, None
        self.next = now
        below: NDArray[np.bool_] = self.times[now] < cap
        return below
