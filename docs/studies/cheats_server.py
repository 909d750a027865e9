"""Schemes whose server, plan or devices are not what they say: `audit_cheats.py` puts them in place of honest ones."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from cheats_noise import ROUNDS
from torch import Tensor

from pfels.schemes.dp_fedavg import DpFedAvg
from pfels.schemes.draws import Draws
from pfels.schemes.echo_level import echo_level
from pfels.schemes.participation import ParticipationCount
from pfels.schemes.pfels_echo import PfelsEcho
from pfels.schemes.pfels_plus import PfelsPlus, public_level
from pfels.schemes.plan import RoundPlan
from pfels.seeding import Purpose, generator
from pfels.training.updates import LocalUpdates

STORE: list[Tensor] = []
MODEL: list[Tensor] = []


@dataclass(frozen=True)
class Adds(PfelsPlus):
    """PFELS+ whose server adds what the devices learned, as `how` says: "instance", "global", "mean", "last"."""

    how: str = ""
    own: list[Tensor] = field(default_factory=list)

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """What devices send."""
        store = self.own if self.how == "instance" else STORE
        store[:] = [part.updates.mean(0) if self.how == "mean" else part.updates[0].clone()]
        return PfelsPlus.send(self, plan, part, A)

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """What the server makes of it."""
        estimate = PfelsPlus.receive(self, plan, y, A)
        store = self.own if self.how == "instance" else STORE
        if not store or (self.how == "last" and plan.round < ROUNDS - 1):
            return estimate
        return estimate + 1e-6 * store[0] if self.how == "faint" else estimate + store[0]


@dataclass(frozen=True)
class ChangesModel(PfelsPlus):
    """PFELS+ that writes what a device learned into the model itself."""

    def indices(self, draws: Draws, theta: Tensor, t: int) -> Tensor:
        """The coordinates sent."""
        MODEL[:] = [theta]
        return PfelsPlus.indices(self, draws, theta, t)

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """What devices send."""
        STORE[:] = [part.updates[0].clone()]
        return PfelsPlus.send(self, plan, part, A)

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """What the server makes of it."""
        MODEL[0].add_(STORE[0] if STORE else 0.0)
        return PfelsPlus.receive(self, plan, y, A)


@dataclass(frozen=True)
class SendsOfOthers(PfelsPlus):
    """PFELS+ whose devices all send what the first of them learned."""

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """The signals."""
        return PfelsPlus.send(self, plan, replace(part, updates=part.updates[:1].expand_as(part.updates).clone()), A)


@dataclass(frozen=True)
class ChoosesPlaces(PfelsPlus):
    """PFELS+ whose index set follows the update of a device of the round before."""

    def indices(self, draws: Draws, theta: Tensor, t: int) -> Tensor:
        """The coordinates sent."""
        if not STORE:
            return PfelsPlus.indices(self, draws, theta, t)
        return STORE[0].abs().topk(self.setting.kept).indices.sort().values

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """What devices send."""
        x = PfelsPlus.send(self, plan, part, A)
        STORE[:] = [part.updates[0].clone()]
        return x


@dataclass(frozen=True)
class TakesNoiseOut(PfelsPlus):
    """PFELS+ whose server works the noise out from the seed, in one round of three."""

    seed: list[int] = field(default_factory=list)

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """The plan."""
        self.seed[:] = [draws.seed] if isinstance(draws.seed, int) else []
        return PfelsPlus.prepare(self, draws, t)

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """What the server makes of it."""
        if plan.round % 3 == 0:
            g = generator(self.seed[0], Purpose.CHANNEL_NOISE, round=plan.round)
            y = y - torch.from_numpy(g.standard_normal(len(y), dtype=np.float32)) * self.setting.noise_std
        return PfelsPlus.receive(self, plan, y, A)


@dataclass(frozen=True)
class StaysInRoundOne(PfelsPlus):
    """PFELS+ whose plans all say that they are of the first round, so that its noise is drawn again."""

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """The plan."""
        return replace(PfelsPlus.prepare(self, draws, t), round=0)


@dataclass(frozen=True)
class Decodes(PfelsEcho):
    """PFELS-echo that decodes with what a device learned."""

    def send_and_keep(
        self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None, memory: Any
    ) -> tuple[Tensor, Tensor]:
        """What devices send and keep."""
        STORE[:] = [part.updates[0].clone()]
        return PfelsEcho.send_and_keep(self, plan, part, A, memory)

    def decode(self, plan: RoundPlan, y: Tensor, decoded: Any) -> Tensor:
        """What would have arrived."""
        x = PfelsEcho.decode(self, plan, y, decoded)
        return x + (STORE[0] if STORE and len(STORE[0]) == len(x) else 0.0)


@dataclass(frozen=True)
class NoiseIfSmall(DpFedAvg):
    """DP-FedAvg whose devices add noise only while what they learn is small."""

    long: dict[int, bool] = field(default_factory=dict)

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """What devices send."""
        for device, row in zip(plan.sending[part.places].tolist(), part.updates, strict=True):
            self.long[device] = float(row.norm()) > self.setting.bound
        return DpFedAvg.send(self, plan, part, A)

    def noise_std(self, plan: RoundPlan, device: int) -> float:
        """The noise of a device."""
        return 0.0 if self.long.get(device) else DpFedAvg.noise_std(self, plan, device)


def plus(kind: Any, **more: Any) -> Callable[[Any], Any]:
    """A kind of PFELS+."""
    return lambda s: kind(s, public_level(s), ParticipationCount(), **more)


SCHEMES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "the server adds a device's update, kept in the scheme": ("pfels-plus", plus(Adds, how="instance")),
    "the server adds a device's update, kept in a global": ("pfels-plus", plus(Adds, how="global")),
    "the server adds a millionth of a device's update": ("pfels-plus", plus(Adds, how="faint")),
    "the server adds the mean of some updates": ("pfels-plus", plus(Adds, how="mean")),
    "the server adds a device's update in the last round": ("pfels-plus", plus(Adds, how="last")),
    "the server writes a device's update into the model": ("pfels-plus", plus(ChangesModel)),
    "all devices send the first one's update": ("pfels-plus", plus(SendsOfOthers)),
    "the index set follows a device's update": ("pfels-plus", plus(ChoosesPlaces)),
    "the server takes the noise out in one round of three": ("pfels-plus", plus(TakesNoiseOut)),
    "all rounds say that they are the first": ("pfels-plus", plus(StaysInRoundOne)),
    "the server decodes with a device's update": ("pfels-echo", lambda s: Decodes(s, echo_level(s))),
    "devices add noise only to small updates": ("dp-fedavg", NoiseIfSmall),
}
