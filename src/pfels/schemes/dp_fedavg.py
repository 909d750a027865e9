"""DP-FedAvg: Algorithm 1 of the paper. Every device has an ideal link of its own and adds its share of the noise."""

import math

from pfels.link import Link, Tally
from pfels.privacy import claimed_noise_multiplier
from pfels.system import System
from pfels.torch_later import Tensor, torch
from pfels.vectors import check_sensitivity, clip


def prepare(system: System, t: int) -> Link:
    """Who takes part in round t, and the noise multiplier σ that the others' claim of (ε, δ) would need."""
    cohort, r = system.cohort(t), system.cohort_size  # line 2
    sigma = claimed_noise_multiplier(epsilon=system.epsilon, delta=system.delta, devices=system.devices, cohort=r)
    # The sum carries the noise of everyone who sends, so its level follows the size of a Poisson cohort. The
    # server sees each noisy update by itself, with a share 1/r of the variance.
    return system.link(
        cohort,
        subcarriers=len(cohort) * system.dimension,
        noise_multiplier=sigma * math.sqrt(len(cohort) / r),
        alone=sigma / math.sqrt(r),
        cohort_dependent=system.sampling.value == "poisson",
        claimed=True,
    )


def play(system: System, link: Link, theta: Tensor, t: int, tally: Tally) -> Tensor:
    """The mean of the cohort's clipped and noisy updates."""
    C, r = system.bound, system.cohort_size
    std = C * link.event.server_noise_multiplier  # Cσ/√r
    total = torch.zeros_like(theta)
    for part in system.local_updates(theta, t, link.cohort, tally):  # lines 4–10
        clipped = check_sensitivity(clip(part.updates, bound=C), bound=C)
        for row, device in zip(clipped, link.cohort[part.places].tolist(), strict=True):
            total += row.add_(system.device_noise(t, device, std=std))  # line 11
    return system.superposed(total) / r  # line 13
