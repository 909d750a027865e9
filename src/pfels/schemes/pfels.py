"""PFELS: Algorithm 2 of the paper with the power control of Theorem 5, its lines cited on the right.

Line 16, θ ← θ + Δ̂, belongs to the experiment.
"""

from pfels.channel import phase_correction, superpose
from pfels.link import Air, Link, Tally
from pfels.power import align, transmit
from pfels.sparsify import lift, project
from pfels.system import System
from pfels.torch_later import Tensor
from pfels.vectors import clip


def prepare(system: System, t: int) -> Link:
    """Who takes part in round t, and at what level β: all that is settled before anyone trains."""
    C, p = system.bound, system.kept / system.dimension  # ητC₁ and k/d
    cohort = system.cohort(t)  # line 2
    h, P = system.gains(t, cohort), system.powers(cohort)
    beta, limit = align(h, P, bound=C, share=p, privacy_limit=system.privacy_limit)  # Thm 5, eq. (35)
    return system.air_link(cohort, Air(h, P, beta, limit, bound=C, share=p), width=system.kept, claimed=True)


def play(system: System, link: Link, theta: Tensor, t: int, tally: Tally) -> Tensor:
    """The server's estimate Δ̂ of the cohort's mean update."""
    air, A = link.on_air, system.rand_k(t)  # line 3, from the shared seed: A is never sent
    y = system.receiver_noise(t, len(A))  # zᵗ of line 14
    for part in system.local_updates(theta, t, link.cohort, tally):  # lines 5–11
        h, P = air.gains[part.places], air.powers[part.places]
        delta = clip(part.updates, bound=air.bound)  # Assumption 1, which Lemma 2 rests on
        x = transmit(project(delta, A), h, P, beta=air.beta, bound=air.bound, share=air.share)  # line 12
        y += superpose(x, h, correction=phase_correction(h))  # line 14
        tally.sent(x)
    y = system.superposed(y)  # over all ranks
    return lift(y, A, dimension=system.dimension) / (system.cohort_size * air.beta)  # line 15
