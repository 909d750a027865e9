"""What a node's devices send once they have been charged. Nothing here ends with an error that depends on their data.

A device whose update has diverged, or whose training or sending raised anything, sends what a device sends that has
learned nothing: zeros, with its noise where it adds some. Each device is trained by itself, so that nothing it holds
changes what another sends. What happened is in the node's log alone.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from pfels.arrays import DeviceIds
from pfels.experiment.setup import Experiment
from pfels.flower.messages import TrainRequest
from pfels.schemes.memory import Kept, Memory
from pfels.schemes.plan import RoundPlan
from pfels.schemes.round import AddNoise, Transmissions, transmissions
from pfels.schemes.scheme import KeepsUnsent, keeps_unsent
from pfels.training.updates import LocalUpdates
from pfels.uplink.clipping import silence_non_finite

LOG = logging.getLogger("pfels.node")


@dataclass
class Sent:
    """The signals of a node's devices, one row per device in the order of the request, the devices that have nothing to
    repeat, and what devices remember."""

    signals: Tensor
    silent: list[int] = field(default_factory=list)
    kept: dict[int, Kept] = field(default_factory=dict)


@dataclass(frozen=True)
class Sending:
    """A round on a node. `empty` are the devices without data; `add_noise` adds a device's own noise."""

    experiment: Experiment
    plan: RoundPlan
    request: TrainRequest
    memory: Memory
    empty: set[int]
    add_noise: AddNoise | None

    def send(self) -> Sent:
        """What the requested devices send, and what those who wait keep."""
        scheme, draws, plan, request = self.experiment.scheme, self.experiment.draws, self.plan, self.request
        A = scheme.indices(draws, request.theta, request.round)  # noqa: N806
        width = self.experiment.setting.dimension if A is None else len(A)
        fresh = set(plan.training.tolist())
        rows, kept = dict[int, Tensor](), dict[int, Kept]()
        for device, part in self._updates([d for d in request.devices if d in fresh], plan.training):
            sent = self._transmitted(device, part, A, width)
            rows[device] = sent.signals.clone()
            kept |= sent.kept
        rows |= self._repeated([device for device in request.devices if device not in fresh], width)
        if keeps_unsent(scheme):
            for device, part in self._updates(request.waiting, plan.waiting):
                kept[device] = Kept(self._unsent(scheme, device, part))
        signals = [rows[device] for device in request.devices if device in rows]
        silent = [device for device in request.devices if device not in rows]
        return Sent(torch.cat(signals) if signals else torch.empty(0, width), silent, kept)

    def _updates(self, devices: Sequence[int], drawn: DeviceIds) -> Iterator[tuple[int, LocalUpdates]]:
        """The update of each device, at its place among `drawn`; zero for one that has learned nothing."""
        places = {device: place for place, device in enumerate(drawn.tolist())}
        theta, t = self.request.theta, self.plan.round
        training, draws = self.experiment.training, self.experiment.draws
        learned = training.each(theta, devices, lambda device: draws.batch_order(t, device))
        for device, found in zip(devices, learned, strict=True):
            blank = _blank(places[device], theta)
            if isinstance(found, Exception):
                LOG.error("device %d sends zeros, since its training failed", device, exc_info=found)
                yield device, blank
                continue
            part = found.one(0, at=places[device])
            if not bool(silence_non_finite(part.updates).all()):
                LOG.warning("device %d sends zeros, since its update diverged", device)
            yield device, blank if device in self.empty else part

    def _transmitted(self, device: int, part: LocalUpdates, A: Tensor | None, width: int) -> Transmissions:  # noqa: N803
        """What a device sends of its update; of none, if that fails. What then fails as well depends on no data."""
        scheme, draws, plan, memory = self.experiment.scheme, self.experiment.draws, self.plan, self.memory
        try:
            sent = transmissions(scheme, draws, plan, part, A, memory=memory, add_noise=self.add_noise)
            if sent.signals.shape == (1, width) and bool(torch.isfinite(sent.signals).all()):
                return sent
            LOG.error("device %d sends zeros, since its signal is not %d numbers", device, width)
        except Exception:
            LOG.exception("device %d sends zeros, since sending failed", device)
        blank = _blank(part.places.start, self.request.theta)
        return transmissions(scheme, draws, plan, blank, A, memory=Memory(), add_noise=self.add_noise)

    def _unsent(self, scheme: KeepsUnsent, device: int, part: LocalUpdates) -> Tensor:
        """What a device keeps that was drawn and does not send."""
        try:
            return scheme.keep(self.plan, part, self.memory)[0].clone()
        except Exception:
            LOG.exception("device %d keeps zeros, since keeping its update failed", device)
            return torch.zeros_like(self.request.theta)

    def _repeated(self, devices: Sequence[int], width: int) -> dict[int, Tensor]:
        """What these devices send again, at their levels of this round: what they kept at the turn that the plan means.
        Those who kept nothing of it, since their node was started again, are left out."""
        plan, rows = self.plan, dict[int, Tensor]()
        places, ends = {device: place for place, device in enumerate(plan.sending.tolist())}, plan.ends
        for device in devices:
            kept, place = self.memory.devices.get(device), places[device]
            if kept is None or ends is None or kept.used_until != ends[place]:
                continue
            rows[device] = torch.zeros(1, width)
            try:
                rows[device] = plan.transmit(kept.row.unsqueeze(0), slice(place, place + 1)).view(1, width)
            except Exception:
                LOG.exception("device %d repeats zeros, since sending failed", device)
        return rows


def _blank(place: int, theta: Tensor) -> LocalUpdates:
    """The update of a device at this place that has learned nothing."""
    return LocalUpdates(slice(place, place + 1), torch.zeros(1, len(theta)), np.zeros(1))
