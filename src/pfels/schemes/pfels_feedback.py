"""PFELS with error feedback, which the paper suggests and does not try (`compression.error_feedback`)."""

from dataclasses import dataclass

from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.feedback import unsent, with_memory
from pfels.schemes.memory import Memory
from pfels.schemes.pfels import Pfels
from pfels.schemes.plan import RoundPlan
from pfels.schemes.setting import Setting
from pfels.training.updates import LocalUpdates
from pfels.uplink.compression import project


def create(setting: Setting) -> Pfels:
    """PFELS, with error feedback where it is asked for."""
    return PfelsWithFeedback(setting) if setting.error_feedback else Pfels(setting)


@dataclass(frozen=True)
class PfelsWithFeedback(Pfels):
    """PFELS whose devices add what rand-k left out to their next update; clipped as before, so that every figure and
    every limit stays as it is."""

    def send_and_keep(
        self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None, memory: Memory
    ) -> tuple[Tensor, Tensor]:
        """The signals, and the coordinates of each update that were not sent."""
        delta = with_memory(part, plan.sending, memory, bound=self.setting.bound)
        signals = plan.transmit(project(delta, A), part.places)
        return signals, unsent(delta, A)
