"""Backoff: WFL-PDP at a fraction of the level that power and privacy allow, which saves energy and adds privacy."""

from dataclasses import dataclass

from pydantic import Field

from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.draws import Draws
from pfels.schemes.plan import AirLink, RoundPlan
from pfels.schemes.registry import AIR, BudgetBy, SchemeEntry
from pfels.schemes.scheme import OwnSettings
from pfels.schemes.setting import Setting
from pfels.training.updates import LocalUpdates
from pfels.uplink.clipping import clip
from pfels.uplink.power import align


class BackoffSettings(OwnSettings):
    """The table `[backoff]`."""

    fraction: float = Field(default=0.5, gt=0, le=1)


@dataclass(frozen=True)
class Backoff:
    """Whole updates over the air, at `fraction` of the level that the limits allow."""

    setting: Setting

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """Who takes part in round t, and at what level β."""
        s, own, cohort = self.setting, self.setting.own, draws.cohort(t)
        assert isinstance(own, BackoffSettings)
        h, P = draws.gains(t, cohort), draws.powers(cohort)
        beta, limit = align(h, P, bound=s.bound, share=1.0, privacy_limit=s.privacy_limit)
        air = AirLink(h, P, own.fraction * beta, limit, bound=s.bound, share=1.0)
        return RoundPlan.over_air(s, t, cohort, air, width=s.dimension, claimed=True)

    def indices(self, draws: Draws, theta: Tensor, t: int) -> None:
        """Every coordinate is sent."""

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """The signals of devices that have trained: their updates, clipped and scaled."""
        return plan.transmit(clip(part.updates, bound=self.setting.bound), part.places)

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """The server's estimate of the cohort's mean update."""
        return y / (self.setting.cohort_size * plan.beta)


ENTRY = SchemeEntry(
    Backoff,
    uses=AIR | {"clip", "claim"},
    claims=True,
    budget=BudgetBy.CLAIM,
    settings=BackoffSettings,
)
