"""WFL-P: the whole update over the air at the level the power limits allow, with no thought of privacy (eq. (36))."""

import math
from typing import TYPE_CHECKING

from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.plan import Air, Link, Tally
from pfels.schemes.system import System
from pfels.uplink.clipping import clip
from pfels.uplink.power import align, transmit

if TYPE_CHECKING:
    from pfels.training.local import LocalUpdates


def prepare(system: System, t: int) -> Link:
    """Who takes part in round t, and at what level β."""
    cohort = system.cohort(t)
    h, P = system.gains(t, cohort), system.powers(cohort)
    beta, limit = align(h, P, bound=system.bound, share=1.0, privacy_limit=math.inf)  # eq. (36)
    air = Air(h, P, beta, limit, bound=system.bound, share=1.0)
    return system.air_link(t, cohort, air, width=system.dimension, claimed=False)


def indices(system: System, theta: Tensor, t: int) -> None:
    """Every coordinate is sent."""


def send(system: System, link: Link, part: "LocalUpdates", A: None, tally: Tally) -> Tensor:
    """The signals of devices that have trained: their whole updates, clipped and scaled."""
    air = link.on_air
    h, P = air.gains[part.places], air.powers[part.places]
    delta = clip(part.updates, bound=air.bound)
    return transmit(delta, h, P, beta=air.beta, bound=air.bound, share=air.share)


def receive(system: System, link: Link, y: Tensor, A: None) -> Tensor:
    """The server's estimate of the cohort's mean update."""
    return y / (system.cohort_size * link.on_air.beta)
