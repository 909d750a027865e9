"""The same FedAvg work on pfl: its simulated backend, its FedAvg and its PyTorch model.

python peer_pfl.py WORK DATA
torchrun --nproc-per-node 2 peer_pfl.py WORK DATA

The first is its usual use. The second, one process with one thread per core, is the fastest we found.
"""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import nn

from plain_loop import model_for
from round_timer import RoundTimer
from work import LEARNING_RATE, MOMENTUM, STEPS, WORKS, examples


class Learner(nn.Module):
    """The plain network with the two functions that pfl requires."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def loss(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> torch.Tensor:
        """The mean cross-entropy."""
        return nn.functional.cross_entropy(self.network(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> dict[str, Any]:
        """Nothing is measured."""
        return {}


class Timing(TrainingProcessCallback):  # type: ignore[misc]
    """Times each central iteration, in the first of its processes."""

    def __init__(self) -> None:
        self.timer = RoundTimer() if os.environ.get("RANK", "0") == "0" else None

    def after_central_iteration(self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int) -> Any:
        """End the round."""
        if self.timer is not None:
            self.timer.next_round()
        return False, Metrics()


def main() -> None:
    """Run central iterations until the timer exits."""
    work = WORKS[sys.argv[1]]
    x, y = examples(work, Path(sys.argv[2]))
    draw = np.random.default_rng(1)
    data = FederatedDataset(
        lambda device: PyTorchTensorDataset(tensors=[x[device], y[device]]), lambda: int(draw.integers(work.devices))
    )
    learner = Learner(model_for(work))
    model = PyTorchModel(
        model=learner,
        local_optimizer_create=partial(torch.optim.SGD, momentum=MOMENTUM),
        central_optimizer=torch.optim.SGD(learner.parameters(), lr=1.0),
    )
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=10**6,
            evaluation_frequency=10**6,
            train_cohort_size=work.cohort,
            val_cohort_size=None,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_batch_size=None, local_num_epochs=STEPS, local_learning_rate=LEARNING_RATE
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=None),
        callbacks=[Timing()],
    )


if __name__ == "__main__":
    main()
