"""The networks, by name, each written for many devices at once.

A parameter tensor carries a leading axis of devices, and so does the input: x is (r, n, …), the logits are
(r, n, classes). With r = 1 the same code is the ordinary network.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pfels.errors import InputError

Parameters = Sequence[Tensor]


@dataclass(frozen=True)
class Layer:
    """One weight and its bias; `fan_in` sets the scale of the start values."""

    weight: tuple[int, ...]
    bias: tuple[int, ...]
    fan_in: int


@dataclass(frozen=True)
class Network:
    """A network's parameter shapes and its forward pass over stacked parameters."""

    layers: tuple[Layer, ...]
    forward: Callable[[Parameters, Tensor], Tensor]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Weight and bias shapes in the order of the flat vector."""
        return [shape for layer in self.layers for shape in (layer.weight, layer.bias)]

    @property
    def dimension(self) -> int:
        """The number d of parameters."""
        return sum(math.prod(shape) for shape in self.shapes)

    def initial(self, generator: np.random.Generator) -> Tensor:
        """Start values as one flat vector: uniform in ±1/√fan_in, weights and biases alike."""
        parts = []
        for layer in self.layers:
            limit = 1 / math.sqrt(layer.fan_in)
            parts += [generator.uniform(-limit, limit, math.prod(s)) for s in (layer.weight, layer.bias)]
        return torch.from_numpy(np.concatenate(parts).astype(np.float32))

    def unflatten(self, rows: Tensor) -> list[Tensor]:
        """Views of (r, d) flat rows as stacked parameter tensors."""
        sizes = [math.prod(shape) for shape in self.shapes]
        pieces = torch.split(rows, sizes, dim=-1)
        return [piece.view(len(rows), *shape) for piece, shape in zip(pieces, self.shapes, strict=True)]


def build(name: str, *, shape: tuple[int, ...], classes: int, hidden: int) -> Network:
    """The network of that name for examples of this shape."""
    if name == "mlp":
        return _mlp(math.prod(shape), hidden, classes)
    if len(shape) != 3:
        raise InputError(f"model.name = {name!r}: needs images, but an example has shape {shape}; use mlp")
    return _cnn(shape, hidden, classes)


def _mlp(features: int, hidden: int, classes: int) -> Network:
    """One hidden layer with ReLU."""

    def forward(parameters: Parameters, x: Tensor) -> Tensor:
        w1, b1, w2, b2 = parameters
        return _dense(torch.relu(_dense(x.flatten(2), w1, b1)), w2, b2)

    return Network((_dense_layer(features, hidden), _dense_layer(hidden, classes)), forward)


def _cnn(shape: tuple[int, ...], hidden: int, classes: int) -> Network:
    """Two 5×5 convolutions, of 16 and 32 channels, each with ReLU and 2×2 pooling, then a hidden layer."""
    channels, height, width = shape
    features = 32 * (height // 4) * (width // 4)
    if features == 0:
        raise InputError(f'model.name = "cnn": needs images of at least 4×4, but they are {height}×{width}')

    def forward(parameters: Parameters, x: Tensor) -> Tensor:
        w1, b1, w2, b2, w3, b3, w4, b4 = parameters
        x = _pool(torch.relu(_convolve(x, w1, b1)))
        x = _pool(torch.relu(_convolve(x, w2, b2)))
        return _dense(torch.relu(_dense(x.flatten(2), w3, b3)), w4, b4)

    layers = (
        _conv_layer(channels, 16),
        _conv_layer(16, 32),
        _dense_layer(features, hidden),
        _dense_layer(hidden, classes),
    )
    return Network(layers, forward)


def _dense_layer(inputs: int, outputs: int) -> Layer:
    return Layer((inputs, outputs), (outputs,), inputs)


def _conv_layer(inputs: int, outputs: int, size: int = 5) -> Layer:
    return Layer((outputs, inputs, size, size), (outputs,), inputs * size**2)


def _dense(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.baddbmm(bias.unsqueeze(1), x, weight)


def _convolve(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A same-size convolution of every device's images with its own kernels: one grouped convolution for all."""
    r, n = x.shape[:2]
    images = x.transpose(0, 1).flatten(1, 2)
    out = F.conv2d(images, weight.flatten(0, 1), bias.flatten(), padding="same", groups=r)
    return out.view(n, r, -1, *x.shape[3:]).transpose(0, 1)


def _pool(x: Tensor) -> Tensor:
    pooled: Tensor = F.max_pool2d(x.flatten(0, 1), 2)
    return pooled.view(*x.shape[:2], *pooled.shape[1:])
