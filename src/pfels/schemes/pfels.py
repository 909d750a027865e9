"""PFELS: Algorithm 2 of the paper with the power control of Theorem 5, its lines cited on the right.

Line 16, θ ← θ + Δ̂, belongs to the experiment.
"""

from typing import TYPE_CHECKING

from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.plan import Air, Link, Tally
from pfels.schemes.system import System
from pfels.uplink.clipping import clip
from pfels.uplink.compression import lift, project
from pfels.uplink.power import align, transmit

if TYPE_CHECKING:
    from pfels.training.local import LocalUpdates


def prepare(system: System, t: int) -> Link:
    """Who takes part in round t, and at what level β: all that is settled before anyone trains."""
    C, p = system.bound, system.kept / system.dimension  # ητC₁ and k/d
    cohort = system.cohort(t)  # line 2
    h, P = system.gains(t, cohort), system.powers(cohort)
    beta, limit = align(h, P, bound=C, share=p, privacy_limit=system.privacy_limit)  # Thm 5, eq. (35)
    return system.air_link(t, cohort, Air(h, P, beta, limit, bound=C, share=p), width=system.kept, claimed=True)


def indices(system: System, theta: Tensor, t: int) -> Tensor:
    """The index set Aᵗ, from the shared seed: it is never sent."""
    return system.rand_k(t)  # line 3


def send(system: System, link: Link, part: "LocalUpdates", A: Tensor, tally: Tally) -> Tensor:
    """The signals xᵢ of devices that have trained (lines 5–11)."""
    air = link.on_air
    h, P = air.gains[part.places], air.powers[part.places]
    delta = clip(part.updates, bound=air.bound)  # Assumption 1, which Lemma 2 rests on
    return transmit(project(delta, A), h, P, beta=air.beta, bound=air.bound, share=air.share)  # line 12


def receive(system: System, link: Link, y: Tensor, A: Tensor) -> Tensor:
    """The server's estimate Δ̂ of the cohort's mean update, from y = Σᵢ|hᵢ|xᵢ + zᵗ (line 14)."""
    return lift(y, A, dimension=system.dimension) / (system.cohort_size * link.on_air.beta)  # line 15
