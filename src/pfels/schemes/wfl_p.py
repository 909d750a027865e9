"""WFL-P: the whole update over the air at the level the power limits allow, without a privacy limit (eq. (36))."""

import math
from dataclasses import dataclass

from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.draws import Draws
from pfels.schemes.plan import AirLink, RoundPlan
from pfels.schemes.setting import Setting
from pfels.training.updates import LocalUpdates
from pfels.uplink.clipping import clip
from pfels.uplink.power import align


@dataclass(frozen=True)
class WflP:
    """Whole updates over the air, limited by power alone."""

    setting: Setting

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """Who takes part in round t, and at what level β."""
        return whole_updates(self.setting, draws, t, privacy_limit=math.inf, claimed=False)  # eq. (36)

    def indices(self, draws: Draws, theta: Tensor, t: int) -> None:
        """Every coordinate is sent."""

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """The signals of devices that have trained: their whole updates, clipped and scaled."""
        return plan.transmit(clip(part.updates, bound=self.setting.bound), part.places)

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """The server's estimate of the cohort's mean update."""
        return y / (self.setting.cohort_size * plan.beta)


def whole_updates(setting: Setting, draws: Draws, t: int, *, privacy_limit: float, claimed: bool) -> RoundPlan:
    """The plan of a round in which every coordinate is sent over the air."""
    cohort = draws.cohort(t)
    h, P = draws.gains(t, cohort), draws.powers(cohort)
    beta, limit = align(h, P, bound=setting.bound, share=1.0, privacy_limit=privacy_limit)
    air = AirLink(h, P, beta, limit, bound=setting.bound, share=1.0)
    return RoundPlan.over_air(setting, t, cohort, air, width=setting.dimension, claimed=claimed)
