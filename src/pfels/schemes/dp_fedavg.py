"""DP-FedAvg: Algorithm 1 of the paper. Every device has an ideal link of its own and adds its share of the noise."""

import math
from dataclasses import dataclass

from pfels.privacy.claim import claimed_noise_multiplier
from pfels.privacy.events import Sampling
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.draws import Draws
from pfels.schemes.plan import RoundPlan
from pfels.schemes.setting import Setting
from pfels.training.updates import LocalUpdates
from pfels.uplink.clipping import clip


@dataclass(frozen=True)
class DpFedAvg:
    """Whole updates over ideal links, with Gaussian noise added on the devices."""

    setting: Setting

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """Who takes part in round t, and the noise multiplier σ that the others' claim of (ε, δ) would need."""
        s, cohort, r = self.setting, draws.cohort(t), self.setting.cohort_size  # line 2
        sigma = claimed_noise_multiplier(epsilon=s.epsilon, delta=s.delta, devices=s.devices, cohort=r)
        # The sum carries the noise of everyone who sends, so its level follows the cohort's size. The
        # server sees each noisy update by itself, with a share 1/r of the variance.
        of_the_sum, fixed = sigma * math.sqrt(len(cohort) / r), s.sampling is Sampling.WITHOUT_REPLACEMENT
        return RoundPlan.ideal(
            s, t, cohort, z=of_the_sum, upload_z=sigma / math.sqrt(r), claimed=True, cohort_dependent=not fixed
        )

    def indices(self, draws: Draws, theta: Tensor, t: int) -> None:
        """Every coordinate is sent."""

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """The updates of devices that have trained (lines 4–10), each clipped."""
        return clip(part.updates, bound=self.setting.bound)

    def noise_std(self, plan: RoundPlan, device: int) -> float:
        """A device's share of the noise has standard deviation Cσ/√r (line 11)."""
        return self.setting.bound * plan.event.server_noise_multiplier

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """The mean of the cohort's noisy updates, from their sum (line 13)."""
        return y / self.setting.cohort_size
