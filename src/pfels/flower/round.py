"""A round is asked for once: its noise is drawn anew whenever it is played, so playing it twice would cost twice."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import torch
from flwr.app import Message
from torch import Tensor

from pfels.flower.messages import UnusableError, signals, size
from pfels.runtime.files import read_json, to_json, write_atomically
from pfels.schemes.plan import Link, Tally
from pfels.schemes.round import listen
from pfels.schemes.scheme import Scheme
from pfels.schemes.system import System
from pfels.uplink.clipping import norms
from pfels.uplink.power import energy


class Begun:
    """The last round that a run directory has begun to ask for, kept in `begun.json`, which outlives the process."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "begun.json"

    def claim(self, t: int) -> bool:
        """Whether round t is begun only now; it is on disk before any node is asked."""
        if t <= (read_json(self._path) or {"round": -1})["round"]:
            return False
        write_atomically(self._path, to_json({"round": t}))
        return True


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
    asked: dict[int, list[int]] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    used: set[int] = field(default_factory=set)
    heard: int = 0
    uploaded: int = 0

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
            devices = self.asked.pop(reply.metadata.src_node_id, [])
            if reply.has_error():
                continue
            try:
                if reply.metadata.group_id != self.group:
                    raise UnusableError("for another round")
                rows = signals(reply.content, devices=len(devices), width=len(self.y))
            except UnusableError as error:
                self.dropped[str(error)] += max(len(devices), 1)
                continue
            self.heard += len(devices)
            self.uploaded += size(reply)
            for device, x in zip(devices, rows, strict=True):
                reason = self._fault(x, places[device])
                if reason is not None:
                    self.dropped[reason] += 1
                else:
                    self._superpose(x, places[device])

    @property
    def group(self) -> str:
        """The group that this round's messages carry, and their replies with them; Flower counts rounds from 1."""
        return str(self.link.round + 1)

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
        self.used.add(place)
        if self.link.air is not None:
            self.tally.energies[place] = float(energy(row)[0])

    def estimate(self) -> Tensor:
        """The server's estimate. What was not answered, or not used, counts as silent and stands in the record."""
        self._count()
        self._make_up_for_noise()
        return self.scheme.receive(self.system, self.link, self.y.float(), self.indices)

    def lost(self) -> Tensor:
        """No estimate: the round was asked for once, by a process that has ended, and is counted as it was then."""
        self._count()
        self.tally.notes["lost"] = True
        return torch.zeros_like(self.theta)

    def _count(self) -> None:
        expected, used = len(self.link.sending), len(self.used)
        self.tally.silent = expected - used
        self.tally.notes |= {
            "device_energy": None,  # it would tell the norm of a device's update
            "replies": {
                "expected": expected,
                "used": used,
                "short": used < expected,
                "dropped": dict(self.dropped),
                "bytes_per_device": self.uploaded / self.heard if self.heard else None,
            },
        }

    def _make_up_for_noise(self) -> None:
        """Where devices add the noise, those that were not heard took their share with them."""
        noise = getattr(self.scheme, "noise", None)
        for place, device in enumerate(self.link.sending.tolist()):
            if noise is not None and place not in self.used:
                self.y += noise(self.system, self.link, device)
