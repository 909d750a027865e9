"""FedAvg: the mean of the cohort's updates over ideal links, with no clipping, no noise and no privacy (eq. (4))."""

from typing import TYPE_CHECKING

from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.plan import Link, Tally
from pfels.schemes.system import System

if TYPE_CHECKING:
    from pfels.training.local import LocalUpdates


def prepare(system: System, t: int) -> Link:
    """Who takes part in round t."""
    cohort = system.cohort(t)
    return system.link(
        t,
        cohort,
        subcarriers=len(cohort) * system.dimension,
        noise_multiplier=0.0,
        cohort_dependent=False,
        claimed=False,
    )


def indices(system: System, theta: Tensor, t: int) -> None:
    """Every coordinate is sent."""


def send(system: System, link: Link, part: "LocalUpdates", A: None, tally: Tally) -> Tensor:
    """The updates as they are."""
    return part.updates


def receive(system: System, link: Link, y: Tensor, A: None) -> Tensor:
    """The mean of the cohort's updates, from their sum."""
    return y / system.cohort_size
