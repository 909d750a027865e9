"""How often each device has sent so far, where a scheme caps it. The count follows from the seed alone."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import DeviceIds
from pfels.schemes.draws import Draws


@dataclass
class ParticipationCount:
    """`times[i]`: how often device i has sent in the first `rounds` rounds of these draws, if it has; `next` are the
    devices able to send in the round after them, once it has been asked for.

    It is a pure function of the draws, continued from where it was so that a training costs one pass; an earlier round
    or other draws start it again.
    """

    times: dict[int, int] = field(default_factory=dict)
    rounds: int = 0
    draws: Draws | None = None
    next: DeviceIds | None = None

    def below(
        self, cap: int, t: int, now: DeviceIds, able: Callable[[int], DeviceIds], *, draws: Draws
    ) -> NDArray[np.bool_]:
        """Which of the devices `now` able to send in round t have sent fewer than `cap` times before. `able` are those
        of an earlier round."""
        if self.rounds > t or self.draws is not draws:
            self.times, self.rounds, self.draws, self.next = {}, 0, draws, None
        while self.rounds < t:
            earlier = able(self.rounds) if self.next is None else self.next
            for device in earlier[self._below(cap, earlier)].tolist():
                self.times[device] = self.times.get(device, 0) + 1
            self.rounds, self.next = self.rounds + 1, None
        self.next = now
        return self._below(cap, now)

    def _below(self, cap: int, devices: DeviceIds) -> NDArray[np.bool_]:
        return np.array([self.times.get(device, 0) < cap for device in devices.tolist()], np.bool_)
