"""Error feedback: what a device could not send in a round is added to its next update. The paper suggests it for PFELS
and does not try it (`compression.error_feedback`)."""

from dataclasses import dataclass

from pfels.arrays import DeviceIds
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.memory import Memory
from pfels.schemes.pfels import Pfels
from pfels.schemes.plan import RoundPlan
from pfels.schemes.setting import Setting
from pfels.training.updates import LocalUpdates
from pfels.uplink.clipping import clip
from pfels.uplink.compression import project


def create(setting: Setting) -> Pfels:
    """PFELS, with error feedback where it is asked for."""
    return PfelsWithFeedback(setting) if setting.error_feedback else Pfels(setting)


@dataclass(frozen=True)
class PfelsWithFeedback(Pfels):
    """PFELS whose devices add what rand-k left out to their next update; clipped as before, so that every figure and
    every limit stays as it is."""

    def send_and_keep(
        self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None, memory: Memory
    ) -> tuple[Tensor, Tensor]:
        """The signals, and the coordinates of each update that were not sent."""
        delta = with_memory(part, plan.sending, memory, bound=self.setting.bound)
        signals = plan.transmit(project(delta, A), part.places)
        return signals, unsent(delta, A)


def with_memory(part: LocalUpdates, devices: DeviceIds, memory: Memory, *, bound: float) -> Tensor:
    """Each update plus what its device kept in earlier rounds, clipped to `bound`; `devices` are those of the plan."""
    for row, device in enumerate(devices[part.places].tolist()):
        if device in memory.devices:
            part.updates[row] += memory.devices[device].row
    return clip(part.updates, bound=bound)


def unsent(delta: Tensor, A: Tensor | None) -> Tensor:
    """What projection leaves out, in place. What a clip cuts off is not kept: a device may never be able to send as
    much as would pile up."""
    if A is None:
        return delta.zero_()
    delta[:, A] = 0
    return delta
