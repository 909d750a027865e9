"""PFELS: Algorithm 2 of the paper with the power control of Theorem 5, its lines cited on the right.

Line 16, θ ← θ + Δ̂, belongs to the experiment.
"""

from dataclasses import dataclass

from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.draws import Draws
from pfels.schemes.plan import AirLink, RoundPlan
from pfels.schemes.setting import Setting
from pfels.training.updates import LocalUpdates
from pfels.uplink.clipping import clip
from pfels.uplink.compression import lift, project
from pfels.uplink.power import align


@dataclass(frozen=True)
class Pfels:
    """Rand-k sparsified updates over the air, at the level that the cohort's power and privacy limits allow."""

    setting: Setting

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """Who takes part in round t, and at what level β: all that is settled before anyone trains."""
        C, p, cohort = self.setting.bound, self.setting.share, draws.cohort(t)  # ητC₁, k/d; line 2
        h, P = draws.gains(t, cohort), draws.powers(cohort)
        beta, limit = align(h, P, bound=C, share=p, privacy_limit=self.setting.privacy_limit)  # Thm 5, eq. (35)
        air = AirLink(h, P, beta, limit, bound=C, share=p)
        return RoundPlan.over_air(self.setting, t, cohort, air, width=self.setting.kept, claimed=True)

    def indices(self, draws: Draws, theta: Tensor, t: int) -> Tensor:
        """The index set Aᵗ, from the shared seed: it is never sent."""
        return draws.rand_k(t)  # line 3

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """The signals xᵢ of devices that have trained (lines 5–11)."""
        delta = clip(part.updates, bound=self.setting.bound)  # Assumption 1, which Lemma 2 rests on
        return plan.transmit(project(delta, A), part.places)  # line 12

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """The server's estimate Δ̂ of the cohort's mean update, from y = Σᵢ|hᵢ|xᵢ + zᵗ (line 14)."""
        return lift(y, A, dimension=self.setting.dimension) / (self.setting.cohort_size * plan.beta)  # line 15
