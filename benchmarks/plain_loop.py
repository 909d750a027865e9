"""FedAvg as a plain PyTorch loop: one nn.Module, one torch.optim.SGD, one device after the other."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from work import LEARNING_RATE, MOMENTUM, STEPS, Work, examples


def model_for(work: Work) -> nn.Module:
    """The network, made of PyTorch's modules."""
    channels, height, width = work.shape
    if work.model == "mlp":
        features = channels * height * width
        return nn.Sequential(
            nn.Flatten(), nn.Linear(features, work.hidden), nn.ReLU(), nn.Linear(work.hidden, work.classes)
        )
    if work.model == "cnn":
        return nn.Sequential(
            nn.Conv2d(channels, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * (height // 4) * (width // 4), work.hidden), nn.ReLU(),
            nn.Linear(work.hidden, work.classes),
        )  # fmt: skip
    layers: list[nn.Module] = []
    for width_in, width_out, pooled in (
        (channels, 64, True), (64, 128, True), (128, 256, False), (256, 256, True),
        (256, 512, False), (512, 512, True), (512, 512, False), (512, 512, True),
    ):  # fmt: skip
        layers += [nn.Conv2d(width_in, width_out, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if pooled else []
    layers += [nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(512, work.classes))


def train_device(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """Full-batch steps of momentum SGD, in the usual way."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()


def rounds(work: Work, path: Path, cohort: int) -> Iterator[None]:
    """Endless rounds of FedAvg; each `next` plays one."""
    x, y = examples(work, path)
    model, draw = model_for(work), np.random.default_rng(1)
    current = {name: value.clone() for name, value in model.state_dict().items()}
    while True:
        total = {name: torch.zeros_like(value) for name, value in current.items()}
        for device in draw.choice(work.devices, size=cohort, replace=False):
            model.load_state_dict(current)
            train_device(model, x[device], y[device])
            for name, value in model.state_dict().items():
                total[name] += value - current[name]
        current = {name: value + total[name] / cohort for name, value in current.items()}
        yield
