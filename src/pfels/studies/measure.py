"""How long one device trains, measured on this machine."""

import statistics
import time

import torch

from pfels.config.tree import Config
from pfels.experiment.setup import build
from pfels.runtime.threads import one_thread_each
from pfels.seeding import Purpose, generator

REPETITIONS = 5


def measured_training_s(config: Config) -> float:
    """CPU seconds of one device's local training in one round: the median of a few, after one to warm up.

    Never the same twice: everything else in a plan follows from the config.
    """
    with one_thread_each():
        experiment = build(config, workers=1)
        theta = experiment.network.initial(generator(config.seed, Purpose.MODEL)).to(experiment.draws.device)

        def train() -> float:
            began = time.process_time()
            for part in experiment.training.cohort(theta, [0], lambda device: experiment.draws.batch_order(0, device)):
                assert torch.isfinite(part.updates).any()
            return time.process_time() - began

        train()
        return statistics.median(train() for _ in range(REPETITIONS))
