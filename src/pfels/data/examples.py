"""Examples with labels, and data sets of them."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class Examples:
    """Examples of shape (features,) or (channels, height, width), as stored, with int64 labels from 0.

    Pixels are stored as bytes, a quarter of the memory, and features of images in float16. `take` returns float32:
    bytes are scaled to [0, 1], then all values to (x − centre)/spread, with constants fixed per data set, the same on
    all devices.
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
        """The examples and labels with these indices, which may have any shape."""
        flat = rows.reshape(-1)  # whole examples are copied at a time, which `x[rows]` does not
        chosen = self.x.index_select(0, flat).view(*rows.shape, *self.shape)
        return self._floats(chosen), self.y.index_select(0, flat).view(rows.shape)

    def between(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """The examples and labels from `start` up to `stop`."""
        x = self.x[start:stop]  # never a view: where it begins in memory would change the last bits of products
        return self._floats(x.clone() if x.dtype == torch.float32 else x), self.y[start:stop]

    def _floats(self, x: Tensor) -> Tensor:
        """Numbers for a network from a copy of stored ones, which may be overwritten."""
        scaled = x.float().div_(255) if x.dtype == torch.uint8 else x.float()
        return scaled if (self.centre, self.spread) == (0.0, 1.0) else scaled.sub_(self.centre).div_(self.spread)


@dataclass(frozen=True)
class Dataset:
    """Training and test examples; without `test`, every device holds out a share of its own for the test.

    `writers` identifies the writer of each training example, if known.
    """

    train: Examples
    test: Examples | None
    classes: int
    writers: NDArray[np.generic] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.train.shape
