"""The state of a run between two rounds, and how a checkpoint keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from pfels.experiment.checkpoint import Checkpoint
from pfels.experiment.ledger import Ledger
from pfels.experiment.log import LogMark
from pfels.experiment.setup import Experiment
from pfels.schemes.memory import Memory
from pfels.seeding import Purpose, generator


@dataclass(frozen=True)
class RunState:
    """The state after `round` rounds. One is replaced by the next in a single assignment."""

    round: int
    theta: Tensor
    velocity: Tensor | None
    average: Tensor | None
    memory: Memory
    ledger: Ledger
    mark: LogMark

    @classmethod
    def fresh(cls, experiment: Experiment) -> Self:
        """Before the first round."""
        theta = experiment.network.initial(generator(experiment.draws.seed, Purpose.MODEL))
        ledger = Ledger.empty(devices=experiment.config.data.devices)
        return cls(0, theta.to(experiment.ranks.device), None, None, Memory(), ledger, LogMark())

    @property
    def delivered(self) -> Tensor:
        """The model that a run delivers if it ends here: the average of the models, or the last one."""
        return self.theta if self.average is None else self.average

    def checkpoint(self) -> Checkpoint:
        """The state as it is saved."""
        tensors = {"theta": self.theta.cpu(), **self.ledger.tensors(), **self.memory.tensors()}
        if self.velocity is not None:
            tensors["velocity"] = self.velocity.cpu()
        if self.average is not None:
            tensors["average"] = self.average.cpu()
        return Checkpoint(self.round, tensors, self.ledger.totals(), self.mark)

    def restored(self, checkpoint: Checkpoint, experiment: Experiment) -> Self:
        """The state that a checkpoint of this experiment holds."""
        ledger = Ledger.restore(checkpoint.tensors, checkpoint.totals, devices=experiment.config.data.devices)
        state = self.with_tensors(checkpoint.tensors, experiment.ranks.device)
        return replace(state, round=checkpoint.round, ledger=ledger, mark=checkpoint.mark)

    def with_tensors(self, tensors: Mapping[str, Tensor], device: str) -> Self:
        """The state with the models, the velocity and the memory that a checkpoint holds."""
        velocity, average = (tensors[name].to(device) if name in tensors else None for name in ("velocity", "average"))
        memory = Memory.restore(tensors, device)
        return replace(self, theta=tensors["theta"].to(device), velocity=velocity, average=average, memory=memory)


def delivered(tensors: Mapping[str, Tensor]) -> Tensor:
    """The model that a finished run delivers, out of its last checkpoint."""
    return tensors["average" if "average" in tensors else "theta"]
