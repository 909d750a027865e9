"""FedAvg: the mean of the cohort's updates over ideal links, with no clipping, no noise and no privacy (eq. (4))."""

from dataclasses import dataclass

from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.draws import Draws
from pfels.schemes.plan import RoundPlan
from pfels.schemes.setting import Setting
from pfels.training.updates import LocalUpdates


@dataclass(frozen=True)
class FedAvg:
    """Whole updates over ideal links, as they are."""

    setting: Setting

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """Who takes part in round t."""
        return RoundPlan.ideal(self.setting, t, draws.cohort(t), z=0.0, cohort_dependent=False)

    def indices(self, draws: Draws, theta: Tensor, t: int) -> None:
        """Every coordinate is sent."""

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """The updates as they are."""
        return part.updates

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """The mean of the cohort's updates, from their sum."""
        return y / self.setting.cohort_size
