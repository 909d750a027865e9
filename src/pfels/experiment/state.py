"""The state of a run between two rounds, and how a checkpoint keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from pfels.experiment.directory import Checkpoint
from pfels.experiment.ledger import Ledger
from pfels.experiment.log import LogMark
from pfels.experiment.setup import Experiment
from pfels.schemes.plan import Memory
from pfels.seeding import Purpose, generator


@dataclass(frozen=True)
class RunState:
    """The state after `round` rounds. One is replaced by the next in a single assignment."""

    round: int
    theta: Tensor
    velocity: Tensor | None
    memory: Memory
    ledger: Ledger
    mark: LogMark

    @classmethod
    def fresh(cls, experiment: Experiment) -> Self:
        """Before the first round."""
        theta = experiment.network.initial(generator(experiment.config.seed, Purpose.MODEL))
        ledger = Ledger.empty(devices=experiment.config.data.devices)
        return cls(0, theta.to(experiment.ranks.device), None, {}, ledger, LogMark())

    def checkpoint(self) -> Checkpoint:
        """The state as it is saved."""
        tensors = {"theta": self.theta.cpu(), **self.ledger.tensors()}
        if self.velocity is not None:
            tensors["velocity"] = self.velocity.cpu()
        if self.memory:
            tensors["memory.ids"] = torch.tensor(sorted(self.memory))
            tensors["memory"] = torch.stack([self.memory[device].cpu() for device in sorted(self.memory)])
        return Checkpoint(self.round, tensors, self.ledger.totals(), self.mark)

    def restored(self, checkpoint: Checkpoint, experiment: Experiment) -> Self:
        """The state that a checkpoint holds."""
        ledger = Ledger.restore(checkpoint.tensors, checkpoint.totals, devices=experiment.config.data.devices)
        state = self.with_tensors(checkpoint.tensors, experiment.ranks.device)
        return replace(state, round=checkpoint.round, ledger=ledger, mark=checkpoint.mark)

    def with_tensors(self, tensors: Mapping[str, Tensor], device: str) -> Self:
        """The state with the model, the velocity and the devices' memory that a checkpoint holds."""
        ids = tensors["memory.ids"].tolist() if "memory" in tensors else []
        memory = {i: row.to(device) for i, row in zip(ids, tensors.get("memory", ()), strict=True)}
        velocity = tensors["velocity"].to(device) if "velocity" in tensors else None
        return replace(self, theta=tensors["theta"].to(device), velocity=velocity, memory=memory)
