"""FedAvg: the mean of the cohort's updates over ideal links, with no clipping, no noise and no privacy (eq. (4))."""

from pfels.link import Link, Tally
from pfels.system import System
from pfels.torch_later import Tensor, torch


def prepare(system: System, t: int) -> Link:
    """Who takes part in round t."""
    cohort = system.cohort(t)
    return system.link(
        cohort,
        subcarriers=len(cohort) * system.dimension,
        noise_multiplier=0.0,
        cohort_dependent=False,
        claimed=False,
    )


def play(system: System, link: Link, theta: Tensor, t: int, tally: Tally) -> Tensor:
    """The mean of the cohort's updates."""
    total = torch.zeros_like(theta)
    for part in system.local_updates(theta, t, link.cohort, tally):
        total += part.updates.sum(0)
    return system.superposed(total) / system.cohort_size
