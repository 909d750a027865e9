"""Error feedback: what a device could not send in a round is added to its next update."""

from pfels.arrays import DeviceIds
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.memory import Memory
from pfels.training.updates import LocalUpdates
from pfels.uplink.clipping import clip


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
