"""The work that is timed: a round's operations, and random data of the right shape.

All sides of a comparison do the same: in each round, 32 of 1000 devices train 5 full-batch steps of momentum SGD on 50
examples each from the same model, and the mean of their updates is added to it.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

LEARNING_RATE, MOMENTUM, STEPS = 0.05, 0.9, 5


@dataclass(frozen=True)
class Work:
    """One model on images of one shape, and the numbers of devices and examples."""

    model: str
    shape: tuple[int, int, int]
    hidden: int = 64
    devices: int = 1000
    examples: int = 50
    cohort: int = 32
    classes: int = 10

    @property
    def flops(self) -> float:
        """Operations per round with every layer computed directly: twice the multiplications, forward and backward.

        The gradients by a layer's weights and by its input cost as much as the forward pass each; the first layer
        needs no gradient by its input. An engine may need fewer operations; the count stays the same.
        """
        first, *others = self._multiplications()
        return 2 * (2 * first + 3 * sum(others)) * self.examples * STEPS * self.cohort

    def _multiplications(self) -> list[int]:
        """Multiplications of each layer in the forward pass of one example."""
        channels, height, width = self.shape
        if self.model == "mlp":
            return [math.prod(self.shape) * self.hidden, self.hidden * self.classes]
        if self.model == "cnn":
            maps = [height * width * 25 * channels * 16, height * width // 4 * 25 * 16 * 32]
            return [*maps, height * width // 16 * 32 * self.hidden, self.hidden * self.classes]
        widths, sizes = (channels, 64, 128, 256, 256, 512, 512, 512, 512), (32, 16, 8, 8, 4, 4, 2, 2)
        maps = [9 * i * o * s * s for i, o, s in zip(widths, widths[1:], sizes, strict=False)]
        return [*maps, 512 * 512, 512 * 512, 512 * self.classes]


WORKS = {
    "demo": Work("mlp", (1, 8, 8), hidden=32, devices=100, examples=14, cohort=20),
    "mlp": Work("mlp", (1, 28, 28)),
    "cnn": Work("cnn", (1, 28, 28)),
    "vgg11": Work("vgg11", (3, 32, 32)),
}


def write_data(work: Work, path: Path) -> None:
    """Random images and labels as an .npz: bytes for VGG-11, as in CIFAR-10, and floats for the others."""
    draw, count = np.random.default_rng(0), work.devices * work.examples
    x = draw.integers(0, 256, (count, *work.shape), dtype=np.uint8)
    scaled = x if work.model == "vgg11" else x.astype(np.float32) / 255
    y = draw.integers(0, work.classes, count)
    np.savez(path, x_train=scaled, y_train=y, x_test=scaled[:100], y_test=np.arange(100) % work.classes)


def examples(work: Work, path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """The same data by device: x (devices, examples, …) in float32 and y (devices, examples)."""
    with np.load(path) as archive:
        x, y = torch.from_numpy(archive["x_train"]), torch.from_numpy(archive["y_train"])
    x = x.float() / 255 if x.dtype == torch.uint8 else x
    return x.view(work.devices, work.examples, *work.shape), y.view(work.devices, work.examples)
