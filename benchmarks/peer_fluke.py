"""The same FedAvg work on fluke: its FedAvg, its clients and its in-memory channel.

python peer_fluke.py WORK DATA [--lean]

The first is its usual use: examples shuffled at each epoch, PyTorch's threads. `--lean`, examples in their order and
one thread, is the fastest we found on small networks; on large ones it is faster with PyTorch's threads. Its parallel
clients need GPUs. Its clients keep nothing from round to round here: elsewhere too, momentum begins anew in each.
"""

import sys
from pathlib import Path

import torch
from fluke import FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader
from fluke.utils import FederationObserver

from plain_loop import model_for
from round_timer import RoundTimer
from work import LEARNING_RATE, MOMENTUM, STEPS, WORKS, examples


class Timing(FederationObserver):  # type: ignore[misc]
    """Times each round."""

    def __init__(self) -> None:
        self.timer = RoundTimer()

    def end_round(self, round: int) -> None:
        """End the round."""
        self.timer.next_round()


def main() -> None:
    """Run rounds until the timer exits."""
    work, lean = WORKS[sys.argv[1]], "--lean" in sys.argv
    if lean:
        torch.set_num_threads(1)
    x, y = examples(work, Path(sys.argv[2]))
    loaders = [
        FastDataLoader(*device, num_labels=work.classes, batch_size=work.examples, shuffle=not lean)
        for device in zip(x, y, strict=True)
    ]
    no_tests = [None] * work.devices
    settings = {
        "model": model_for(work),
        "client": {
            "batch_size": work.examples,
            "local_epochs": STEPS,
            "loss": "CrossEntropyLoss",
            "optimizer": {"name": "SGD", "lr": LEARNING_RATE, "momentum": MOMENTUM},
            "scheduler": {"name": "StepLR", "step_size": 1, "gamma": 1.0},
            "persistency": False,
        },
        "server": {"weighted": False},
    }
    FlukeENV().set_eval_cfg(server=False)
    data = DataSplitter(DummyDataContainer(loaders, no_tests, None, num_classes=work.classes))
    algorithm = FedAVG(work.devices, data, settings)
    algorithm.set_callbacks(Timing())
    algorithm.run(10**6, work.cohort / work.devices)


if __name__ == "__main__":
    main()
