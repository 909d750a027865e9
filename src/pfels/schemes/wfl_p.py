"""WFL-P: the whole update over the air at the level the power limits allow, with no thought of privacy (eq. (36))."""

import math

from pfels.channel import phase_correction, superpose
from pfels.link import Air, Link, Tally
from pfels.power import align, transmit
from pfels.system import System
from pfels.torch_later import Tensor
from pfels.vectors import clip


def prepare(system: System, t: int) -> Link:
    """Who takes part in round t, and at what level β."""
    cohort = system.cohort(t)
    h, P = system.gains(t, cohort), system.powers(cohort)
    beta, limit = align(h, P, bound=system.bound, share=1.0, privacy_limit=math.inf)  # eq. (36)
    air = Air(h, P, beta, limit, bound=system.bound, share=1.0)
    return system.air_link(cohort, air, width=system.dimension, claimed=False)


def play(system: System, link: Link, theta: Tensor, t: int, tally: Tally) -> Tensor:
    """The server's estimate of the cohort's mean update, from the superposed whole updates."""
    air = link.on_air
    y = system.receiver_noise(t, system.dimension)
    for part in system.local_updates(theta, t, link.cohort, tally):
        h, P = air.gains[part.places], air.powers[part.places]
        delta = clip(part.updates, bound=air.bound)
        x = transmit(delta, h, P, beta=air.beta, bound=air.bound, share=air.share)
        y += superpose(x, h, correction=phase_correction(h))
        tally.sent(x)
    return system.superposed(y) / (system.cohort_size * air.beta)
