"""A round at the server, and the journal of rounds that nodes have been asked for."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Self

import numpy as np
import torch
from flwr.app import Message
from torch import Tensor

from pfels.documents.run import Journal, Replies
from pfels.documents.validate import validated
from pfels.errors import GuardError
from pfels.flower.messages import UnusableError, left_out, read_signals, size
from pfels.flower.received import ExactNoise, ReceivedSum, received_noise
from pfels.runtime.files import printable, read_json, to_json, write_atomically
from pfels.schemes.draws import Draws
from pfels.schemes.plan import RoundPlan, RoundResult
from pfels.schemes.scheme import Scheme, adds_noise, decodes
from pfels.uplink.clipping import norms
from pfels.uplink.power import energy

FORGOTTEN = "nothing kept to repeat"  # reason under which devices are counted whose node was started again
SPENT = "budget of its owner spent"
TOO_LARGE = "too large for any noise to hide"
TOLERANCE = 1e-5  # relative; float32 rounding may raise the norm of a signal by a little


class RoundJournal:
    """`begun.json` in the run directory: the last round that nodes were asked for.

    With secret noise a repeated round would have fresh noise, and so release the same updates twice. The journal
    outlives the process, so no round is asked for again.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "begun.json"
        self._last: int | None = None

    def begin(self, t: int) -> bool:
        """Enter round t before any node is asked; False if it was entered before."""
        if self._last is None:
            self._last = self._read()
        if t <= self._last:
            return False
        journal: Journal = {"round": t}
        write_atomically(self._path, to_json(journal))
        self._last = t
        return True

    def _read(self) -> int:
        content = read_json(self._path)
        return -1 if content is None else validated(Journal, content, printable(self._path))["round"]


@dataclass
class ServerRound:
    """A round in progress at the server.

    `y` is the received sum so far, with its noise in it. `secret` says that the noise is exact and nobody can derive
    it. `energy` is the exact total over all signals used: the energy of a single device is not stored, since it would
    tell the norm of its update. `asked` are the devices that each node was asked for, `dropped` counts unusable signals
    by reason, and `used` are the places in `plan.sending` whose signals are in the sum. Where the scheme decodes,
    `decoded` is what was decoded in earlier rounds, and `heard` are the devices that were heard at their turn in each,
    unless an earlier process played that round.
    """

    scheme: Scheme
    draws: Draws
    plan: RoundPlan
    theta: Tensor
    indices: Tensor | None
    y: ReceivedSum
    secret: bool = False
    decoded: Mapping[int, Tensor] = field(default_factory=dict)
    heard: Mapping[int, set[int]] = field(default_factory=dict)
    asked: dict[int, list[int]] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    used: set[int] = field(default_factory=set)
    energy: Fraction = Fraction(0)
    answered: int = 0
    uploaded_bytes: int = 0

    @classmethod
    def begin(
        cls,
        scheme: Scheme,
        draws: Draws,
        plan: RoundPlan,
        theta: Tensor,
        *,
        decoded: Mapping[int, Tensor],
        heard: Mapping[int, set[int]],
        secret: bool = False,
    ) -> Self:
        """Before any reply: the receiver has its own noise only."""
        indices = scheme.indices(draws, theta, plan.round)
        y = received_noise(scheme, draws, plan, indices, secret=secret)
        return cls(scheme, draws, plan, theta, indices, y, secret, decoded, heard)

    @property
    def group(self) -> str:
        """The group id of this round's messages and replies; Flower counts rounds from 1."""
        return str(self.plan.round + 1)

    @property
    def at_turn(self) -> set[int]:
        """The devices that trained in this round and were heard."""
        return {int(self.plan.sending[place]) for place in self.used if place < len(self.plan.training)}

    def add(self, replies: Iterable[Message]) -> None:
        """Superpose the signals in these replies; what cannot be used is dropped and counted."""
        places = {device: place for place, device in enumerate(self.plan.sending.tolist())}
        repeating = set(self.plan.repeating.tolist())
        for reply in replies:
            asked = self.asked.pop(reply.metadata.src_node_id, [])
            if reply.has_error():
                continue
            try:
                if reply.metadata.group_id != self.group:
                    raise UnusableError("for another round")
                refused = left_out(reply.content, "refused", among=asked)
                silent = left_out(reply.content, "silent", among=repeating.intersection(asked) - refused)
                devices = [device for device in asked if device not in silent | refused]
                rows = read_signals(reply.content, devices=len(devices), width=self.y.width)
            except UnusableError as error:
                self.dropped[str(error)] += max(len(asked), 1)
                continue
            for reason, absent in ((FORGOTTEN, silent), (SPENT, refused)):
                if absent:
                    self.dropped[reason] += len(absent)
            self.answered += len(devices)
            self.uploaded_bytes += size(reply)
            for device, x in zip(devices, rows, strict=True):
                self._add_signal(x.unsqueeze(0), places[device])

    def _add_signal(self, x: Tensor, place: int) -> None:
        reason = self._fault(x, place)
        if reason is not None:
            self.dropped[reason] += 1
            return
        try:
            self.y.add(self.plan.arriving(x.double(), slice(place, place + 1)))
        except GuardError:
            self.dropped[TOO_LARGE] += 1
            return
        self.used.add(place)
        if self.plan.air is not None:
            self.energy += Fraction(float(energy(x)[0]))

    def _fault(self, x: Tensor, place: int) -> str | None:
        norm, air = float(norms(x)), self.plan.air
        if not np.isfinite(norm):
            return "not finite"
        if air is not None and norm > air.longest(place, width=self.y.width) * (1 + TOLERANCE):
            return "above its norm bound"
        return None

    def result(self) -> RoundResult:
        """The round's result; devices without a usable signal count as silent."""
        self._replace_missing_noise()
        y, decoded = self.y.total(), None
        if decodes(self.scheme):
            y = decoded = self.scheme.decode(self.plan, y, self._repeated())
        return self._result(self.scheme.receive(self.plan, y, self.indices), decoded=decoded)

    def _repeated(self) -> Mapping[int, Tensor]:
        """What was decoded in earlier rounds, in the share that is repeated in this one.

        A device that was heard at its turn and is missing from its echo, since its node was started again or is away,
        has left its part of that round's sum; taken out in full, the sum would leave its negative in the model.
        """
        if self.plan.echo.turns is None:
            return self.decoded
        found, devices = dict(self.decoded), self.plan.sending.tolist()
        for turn, x in self.decoded.items():
            places, heard = set(np.flatnonzero(self.plan.echo.turns == turn).tolist()), self.heard.get(turn)
            if heard is not None:
                places = {place for place in places if devices[place] in heard}
            if places - self.used:
                found[turn] = x * (len(places & self.used) / len(places))
        return found

    def lost(self) -> RoundResult:
        """The result of a round that an earlier process asked for and did not finish: charged, no step."""
        return self._result(torch.zeros_like(self.theta), lost=True)

    def _result(self, estimate: Tensor, *, decoded: Tensor | None = None, lost: bool = False) -> RoundResult:
        heard = len(self.at_turn)
        return RoundResult(
            estimate=estimate,
            train_loss=None,
            unheard=len(self.plan.training) - heard,
            repeated=len(self.used) - heard,
            decoded=decoded,
            energy=None if self.plan.air is None else float(self.energy),
            replies=self._replies(),
            lost=lost,
        )

    def _replies(self) -> Replies:
        expected, used = len(self.plan.sending), len(self.used)
        return {
            "expected": expected,
            "used": used,
            "short": used < expected,
            "dropped": dict(self.dropped),
            "bytes_per_device": self.uploaded_bytes / self.answered if self.answered else None,
        }

    def _replace_missing_noise(self) -> None:
        """If devices add the noise, add the share of those that were not heard: the figures count on all of it."""
        if adds_noise(self.scheme):
            for place, device in enumerate(self.plan.sending.tolist()):
                if place not in self.used:
                    noise = self._noise(device, self.scheme.noise_std(self.plan, device))
                    self.y.add(self.plan.arriving(noise.unsqueeze(0), slice(place, place + 1)))

    def _noise(self, device: int, std: float) -> Tensor:
        """The noise of one device that was not heard: its own one if the seed decides it."""
        if not self.secret:
            return self.draws.device_noise(self.plan.round, device, width=self.y.width, std=std).double()
        row = torch.zeros(self.y.width, dtype=torch.float64)
        ExactNoise()(row, std)
        return row
