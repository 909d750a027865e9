"""The networks by name, each written for many devices at once.

Parameters and inputs have a leading axis of devices: x is (c, n, …), the logits are (c, n, classes). With c = 1 the
same code is the ordinary network.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pfels.runtime.memory import Scratch
from pfels.training import architectures
from pfels.training.architectures import RESNET_BLOCKS, Layer
from pfels.training.layers import (
    Parameter,
    Tape,
    bias_relu,
    channels_last,
    convolve,
    dense,
    flatten,
    group_norm,
    max_pool,
    mean_pool,
    relu,
    residual,
    stack_views,
)
from pfels.training.winograd import convolve_3x3

Parameters = Sequence[Parameter]


@dataclass(frozen=True)
class Network:
    """A network's parameter shapes and its forward pass over stacked parameters.

    `dense` says that it has one or two layers, both dense, with a ReLU between them.
    """

    layers: tuple[Layer, ...]
    forward: Callable[[Parameters, Tensor, Tape], Tensor]
    dense: bool = False

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Weight and bias shapes in the order of the flat vector."""
        return [shape for layer in self.layers for shape in layer.shapes]

    @property
    def dimension(self) -> int:
        """The number d of parameters."""
        return architectures.dimension(self.layers)

    def initial(self, generator: np.random.Generator) -> Tensor:
        """Initial parameters as one flat vector."""
        theta, start = torch.empty(self.dimension), 0
        for layer in self.layers:
            for shape, limit in ((layer.weight, layer.limit), (layer.bias, layer.bias_limit)):
                if shape is not None:
                    size = math.prod(shape)
                    theta[start : start + size] = torch.from_numpy(generator.uniform(-limit, limit, size))
                    start += size
        return theta

    def stacked(self, rows: Tensor, velocity: Tensor, momentum: float) -> list[Parameter]:
        """c flat rows and their velocities, both (c, d), as the parameters of c devices."""
        return stack_views(self.shapes, rows, velocity, momentum)

    def logits(self, theta: Tensor, x: Tensor, scratch: Scratch) -> Tensor:
        """The logits (n, classes) of the model θ for the examples (n, …)."""
        rows = theta.unsqueeze(0)
        return self.forward(self.stacked(rows, rows, 0.0), x.unsqueeze(0), Tape(scratch, keep=False))[0]


def build(name: str, *, shape: tuple[int, ...], classes: int, hidden: int) -> Network:
    """The named network for examples of this shape; `hidden` is the width of the hidden layer of mlp and cnn."""
    layers = architectures.layers(name, shape=shape, classes=classes, hidden=hidden)
    return {"linear": _linear, "mlp": _mlp, "cnn": _cnn, "vgg11": _vgg11, "resnet18": _resnet18}[name](layers)


def _linear(layers: tuple[Layer, ...]) -> Network:
    """Softmax regression: one dense layer, and nothing after it."""

    def forward(parameters: Parameters, x: Tensor, tape: Tape) -> Tensor:
        weight, bias = parameters
        return dense(tape, x.flatten(2), weight, bias, first=True)

    return Network(layers, forward, dense=True)


def _mlp(layers: tuple[Layer, ...]) -> Network:
    """One hidden layer with ReLU."""

    def forward(parameters: Parameters, x: Tensor, tape: Tape) -> Tensor:
        w1, b1, w2, b2 = parameters
        return dense(tape, relu(tape, dense(tape, x.flatten(2), w1, b1, first=True)), w2, b2)

    return Network(layers, forward, dense=True)


def _cnn(layers: tuple[Layer, ...]) -> Network:
    """Two 5×5 convolutions, of 16 and 32 channels, each with 2×2 pooling and ReLU, then a hidden layer."""

    def forward(parameters: Parameters, x: Tensor, tape: Tape) -> Tensor:
        w1, b1, w2, b2, w3, b3, w4, b4 = parameters
        x = convolve(tape, channels_last(x), w1, padding=2, first=True)
        x = bias_relu(tape, max_pool(tape, x), b1)
        x = bias_relu(tape, max_pool(tape, convolve(tape, x, w2, padding=2)), b2)
        return dense(tape, relu(tape, dense(tape, flatten(tape, x), w3, b3)), w4, b4)

    return Network(layers, forward)


def _vgg11(layers: tuple[Layer, ...]) -> Network:
    """VGG-11 without batch norm: eight 3×3 convolutions with ReLU, five poolings, then 512 → 512 → 512 → classes."""
    pooled = {0, 1, 3, 5, 7}

    def forward(parameters: Parameters, x: Tensor, tape: Tape) -> Tensor:
        x = convolve(tape, channels_last(x), parameters[0], padding=1, first=True)
        for i in range(8):
            x = convolve_3x3(tape, x, parameters[2 * i]) if i else x
            # Pooling before bias and ReLU gives the same values at a quarter of the cost.
            x = bias_relu(tape, max_pool(tape, x) if i in pooled else x, parameters[2 * i + 1])
        x = flatten(tape, x)
        for i in (16, 18):
            x = relu(tape, dense(tape, x, parameters[i], parameters[i + 1]))
        return dense(tape, x, parameters[20], parameters[21])

    return Network(layers, forward)


def _resnet18(layers: tuple[Layer, ...]) -> Network:
    """ResNet-18 with group norm without parameters."""

    def forward(parameters: Parameters, x: Tensor, tape: Tape) -> Tensor:
        given = iter(parameters)
        x = convolve(tape, channels_last(x), next(given), stride=2, padding=3, first=True)
        x = max_pool(tape, relu(tape, group_norm(tape, x)), size=3, stride=2, padding=1)
        for _, _, stride in RESNET_BLOCKS:
            x = _block(tape, x, [next(given) for _ in range(2 if stride == 1 else 3)], stride)
        return dense(tape, mean_pool(tape, x), next(given), next(given))

    return Network(layers, forward)


def _block(tape: Tape, x: Tensor, weights: Parameters, stride: int) -> Tensor:
    """Two 3×3 convolutions with a shortcut, which is a 1×1 convolution if the stride is not 1."""

    def branch(tape: Tape, x: Tensor) -> Tensor:
        one, two = weights[:2]
        x = convolve_3x3(tape, x, one) if stride == 1 else convolve(tape, x, one, stride=stride, padding=1)
        return group_norm(tape, convolve_3x3(tape, relu(tape, group_norm(tape, x)), two))

    def shortcut(tape: Tape, x: Tensor) -> Tensor:
        return x if stride == 1 else group_norm(tape, convolve(tape, x, weights[2], stride=stride, padding=0))

    return relu(tape, residual(tape, x, branch, shortcut))
