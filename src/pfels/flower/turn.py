"""A round at the server: signals are superposed as they come, and nothing of any one device is kept."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from flwr.app import Message
from torch import Tensor

from pfels.flower.wire import Answer, UnusableError
from pfels.link import Link, Tally
from pfels.power import energy
from pfels.rounds import listen
from pfels.schemes import Scheme
from pfels.system import System
from pfels.vectors import norms

SLACK = 1e-5  # what float32 may add to a norm on the way


@dataclass
class Turn:
    """A round under way: what has arrived by now (y, in double precision, so that the order of arrival is nothing to
    the result), the devices each node was asked for, and what could not be used."""

    scheme: Scheme
    system: System
    link: Link
    theta: Tensor
    tally: Tally
    indices: Tensor | None
    y: Tensor
    asked: dict[int, set[int]] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    used: int = 0
    payload: int = 0

    @classmethod
    def begin(cls, scheme: Scheme, system: System, link: Link, theta: Tensor, tally: Tally) -> Self:
        """Before anyone has answered: the receiver hears its own noise."""
        tally.energies = [0.0] * (len(link.sending) if link.air is not None else 0)
        indices = scheme.indices(system, theta, link.round)
        return cls(scheme, system, link, theta, tally, indices, listen(system, link).double())

    def take(self, replies: Iterable[Message]) -> None:
        """Superpose the signals of replies; whatever cannot be used is dropped and counted."""
        places = {device: place for place, device in enumerate(self.link.sending.tolist())}
        for reply in replies:
            asked = self.asked.pop(reply.metadata.src_node_id, set())
            if reply.has_error():
                continue
            try:
                answer = Answer.read(reply.content, round=self.link.round, width=len(self.y))
            except UnusableError as error:
                self.dropped[str(error)] += max(len(asked), 1)
                continue
            self.payload += 4 * answer.signals.numel()
            for device, x in zip(answer.devices, answer.signals, strict=True):
                reason = "nobody asked for it" if device not in asked else self._fault(x, places[device])
                asked.discard(device)
                if reason is not None:
                    self.dropped[reason] += 1
                else:
                    self._superpose(x, places[device])

    def _fault(self, x: Tensor, place: int) -> str | None:
        length, air = float(norms(x.unsqueeze(0))), self.link.air
        if not np.isfinite(length):
            return "not finite"
        if air is not None and length > air.beta / abs(air.gains[place]) * air.bound * (1 + SLACK):
            return "above its norm bound"
        return None

    def _superpose(self, x: Tensor, place: int) -> None:
        row = x.unsqueeze(0)
        self.y += self.link.arriving(row.double(), slice(place, place + 1))
        self.used += 1
        if self.link.air is not None:
            self.tally.energies[place] = float(energy(row)[0])

    def estimate(self) -> Tensor:
        """The server's estimate. What was not answered, or not used, counts as silent and stands in the record."""
        expected = len(self.link.sending)
        self.tally.silent = expected - self.used
        self.tally.notes["replies"] = {
            "expected": expected,
            "used": self.used,
            "short": self.used < expected,
            "dropped": dict(self.dropped),
            "payload_bytes": self.payload,
        }
        return self.scheme.receive(self.system, self.link, self.y.float(), self.indices)
