"""data.examples"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class Examples:
    """Examples of shape (features,) or (channels, height, width) with int64 labels from 0, as they are stored.

    Pixels stay bytes until they are asked for, a quarter of the memory: `take` gives float32, bytes
    scaled to [0, 1] and then to (x − centre)/spread. The constants are fixed for a data set, the same on all devices.
    """

    x: Tensor
    y: Tensor
    centre: float = 0.0
    spread: float = 1.0

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return tuple(self.x.shape[1:])

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The examples and labels of these rows, in the rows' own shape."""
        return self._floats(self.x[rows]), self.y[rows]

    def _floats(self, x: Tensor) -> Tensor:
        scaled = x.float().div_(255) if x.dtype == torch.uint8 else x
        return scaled if (self.centre, self.spread) == (0.0, 1.0) else (scaled - self.centre) / self.spread


@dataclass(frozen=True)
class Dataset:
    """Examples to train on and to test with; without `test`, every device keeps a share of its own for the test.

    `writers` names who wrote each training example, where the data say so.
    """

    train: Examples
    test: Examples | None
    classes: int
    writers: NDArray[np.generic] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.train.shape
