"""DP-FedAvg: Algorithm 1 of the paper. Every device has an ideal link of its own and adds its share of the noise."""

import math
from typing import TYPE_CHECKING

from pfels.privacy.claim import claimed_noise_multiplier
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.fedavg import indices, receive
from pfels.schemes.plan import Link, Tally
from pfels.schemes.system import System
from pfels.uplink.clipping import check_sensitivity, clip

if TYPE_CHECKING:
    from pfels.training.local import LocalUpdates


__all__ = ["indices", "noise", "prepare", "receive", "send"]


def prepare(system: System, t: int) -> Link:
    """Who takes part in round t, and the noise multiplier σ that the others' claim of (ε, δ) would need."""
    cohort, r = system.cohort(t), system.cohort_size  # line 2
    sigma = claimed_noise_multiplier(epsilon=system.epsilon, delta=system.delta, devices=system.devices, cohort=r)
    # The sum carries the noise of everyone who sends, so its level follows the size of a Poisson cohort. The
    # server sees each noisy update by itself, with a share 1/r of the variance.
    return system.link(
        t,
        cohort,
        subcarriers=len(cohort) * system.dimension,
        noise_multiplier=sigma * math.sqrt(len(cohort) / r),
        alone=sigma / math.sqrt(r),
        cohort_dependent=system.sampling.value == "poisson",
        claimed=True,
    )


def send(system: System, link: Link, part: "LocalUpdates", A: None, tally: Tally) -> Tensor:
    """The updates of devices that have trained (lines 4–10), each clipped and with noise of its own."""
    clipped = check_sensitivity(clip(part.updates, bound=system.bound), bound=system.bound)
    for row, device in zip(clipped, link.sending[part.places].tolist(), strict=True):
        row.add_(noise(system, link, device))  # line 11
    return clipped


def noise(system: System, link: Link, device: int) -> Tensor:
    """A device's share of the noise."""
    return system.device_noise(link.round, device, std=system.bound * link.event.server_noise_multiplier)  # Cσ/√r
