"""The networks, by name, each written for many devices at once.

A parameter tensor carries a leading axis of devices, and so does the input: x is (c, n, …), the logits are
(c, n, classes). With c = 1 the same code is the ordinary network.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pfels.errors import InputError
from pfels.layers import (
    Parameter,
    Scratch,
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
from pfels.winograd import convolve_3x3

Parameters = Sequence[Parameter]


@dataclass(frozen=True)
class Layer:
    """One weight and the bias that may go with it, which start uniform in ±limit and in ±bias_limit."""

    weight: tuple[int, ...]
    bias: tuple[int, ...] | None
    limit: float
    bias_limit: float = 0.0


@dataclass(frozen=True)
class Network:
    """A network's parameter shapes and its forward pass over stacked parameters.

    `head` is what comes after the first layer, in a network whose first layer is dense.
    """

    layers: tuple[Layer, ...]
    forward: Callable[[Parameters, Tensor, Tape], Tensor]
    head: Callable[[Parameters, Tensor, Tape], Tensor] | None = None

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Weight and bias shapes in the order of the flat vector."""
        return [shape for layer in self.layers for shape in (layer.weight, layer.bias) if shape is not None]

    @property
    def dimension(self) -> int:
        """The number d of parameters."""
        return sum(math.prod(shape) for shape in self.shapes)

    def initial(self, generator: np.random.Generator) -> Tensor:
        """Start values as one flat vector."""
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
        """What the model θ makes of the examples (n, …)."""
        rows = theta.unsqueeze(0)
        return self.forward(self.stacked(rows, rows, 0.0), x.unsqueeze(0), Tape(scratch, keep=False))[0]


def build(name: str, *, shape: tuple[int, ...], classes: int, hidden: int) -> Network:
    """The network of that name for examples of this shape; `hidden` is the width of mlp's and cnn's hidden layer."""
    if name == "mlp":
        return _mlp(math.prod(shape), hidden, classes)
    if len(shape) != 3:
        raise InputError(f"model.name = {name!r}: needs images, but an example has shape {shape}; use mlp")
    least = {"cnn": 4, "vgg11": 32, "resnet18": 1}[name]
    if min(shape[1:]) < least:
        size = f"{shape[1]}×{shape[2]}"
        raise InputError(f'model.name = "{name}": needs images of at least {least}×{least}, but they are {size}')
    if name == "cnn":
        return _cnn(shape, hidden, classes)
    return _vgg11(shape, classes) if name == "vgg11" else _resnet18(shape, classes)


def _mlp(features: int, hidden: int, classes: int) -> Network:
    """One hidden layer with ReLU."""

    def head(parameters: Parameters, x: Tensor, tape: Tape) -> Tensor:
        weight, bias = parameters
        return dense(tape, relu(tape, x), weight, bias)

    def forward(parameters: Parameters, x: Tensor, tape: Tape) -> Tensor:
        weight, bias, *rest = parameters
        return head(rest, dense(tape, x.flatten(2), weight, bias, first=True), tape)

    return Network((_dense_layer(features, hidden), _dense_layer(hidden, classes)), forward, head)


def _cnn(shape: tuple[int, ...], hidden: int, classes: int) -> Network:
    """Two 5×5 convolutions, of 16 and 32 channels, each with 2×2 pooling and ReLU, then a hidden layer."""
    channels, height, width = shape

    def forward(parameters: Parameters, x: Tensor, tape: Tape) -> Tensor:
        w1, b1, w2, b2, w3, b3, w4, b4 = parameters
        x = convolve(tape, channels_last(x), w1, padding=2, first=True)
        x = bias_relu(tape, max_pool(tape, x), b1)
        x = bias_relu(tape, max_pool(tape, convolve(tape, x, w2, padding=2)), b2)
        return dense(tape, relu(tape, dense(tape, flatten(tape, x), w3, b3)), w4, b4)

    layers = (
        _small_conv_layer(channels, 16),
        _small_conv_layer(16, 32),
        _dense_layer(32 * (height // 4) * (width // 4), hidden),
        _dense_layer(hidden, classes),
    )
    return Network(layers, forward)


def _vgg11(shape: tuple[int, ...], classes: int) -> Network:
    """VGG-11 without batch norm: eight 3×3 convolutions with ReLU, five poolings, then 512 → 512 → 512 → classes."""
    channels, height, width = shape
    widths = (64, 128, 256, 256, 512, 512, 512, 512)
    pooled = {0, 1, 3, 5, 7}

    def forward(parameters: Parameters, x: Tensor, tape: Tape) -> Tensor:
        x = convolve(tape, channels_last(x), parameters[0], padding=1, first=True)
        for i in range(8):
            x = convolve_3x3(tape, x, parameters[2 * i]) if i else x
            # Pooling before the bias and ReLU gives the same values for a quarter of the work.
            x = bias_relu(tape, max_pool(tape, x) if i in pooled else x, parameters[2 * i + 1])
        x = flatten(tape, x)
        for i in (16, 18):
            x = relu(tape, dense(tape, x, parameters[i], parameters[i + 1]))
        return dense(tape, x, parameters[20], parameters[21])

    features = 512 * (height // 32) * (width // 32)
    layers = (
        _he_layer((64, channels, 3, 3), 64, fan_in=9 * channels),
        *(_he_layer((3, 3, i, o), o, fan_in=9 * i) for i, o in itertools.pairwise(widths)),
        _he_layer((features, 512), 512, fan_in=features),
        _he_layer((512, 512), 512, fan_in=512),
        _dense_layer(512, classes),
    )
    return Network(layers, forward)


def _resnet18(shape: tuple[int, ...], classes: int) -> Network:
    """ResNet-18 with a group norm that has no parameters."""
    blocks = [
        b for i, o, s in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)) for b in ((i, o, s), (o, o, 1))
    ]

    def forward(parameters: Parameters, x: Tensor, tape: Tape) -> Tensor:
        given = iter(parameters)
        x = convolve(tape, channels_last(x), next(given), stride=2, padding=3, first=True)
        x = max_pool(tape, relu(tape, group_norm(tape, x)), size=3, stride=2, padding=1)
        for _, _, stride in blocks:
            x = _block(tape, x, [next(given) for _ in range(2 if stride == 1 else 3)], stride)
        return dense(tape, mean_pool(tape, x), next(given), next(given))

    layers = [_he_layer((64, shape[0], 7, 7), None, fan_in=49 * shape[0])]
    for i, o, stride in blocks:
        layers.append(_he_layer((3, 3, i, o) if stride == 1 else (o, i, 3, 3), None, fan_in=9 * i))
        layers.append(_he_layer((3, 3, o, o), None, fan_in=9 * o))
        if stride > 1:
            layers.append(_he_layer((o, i, 1, 1), None, fan_in=i))
    return Network((*layers, _dense_layer(512, classes)), forward)


def _block(tape: Tape, x: Tensor, weights: Parameters, stride: int) -> Tensor:
    """Two 3×3 convolutions around which the input passes, through a 1×1 convolution where the stride is not 1."""

    def branch(tape: Tape, x: Tensor) -> Tensor:
        one, two = weights[:2]
        x = convolve_3x3(tape, x, one) if stride == 1 else convolve(tape, x, one, stride=stride, padding=1)
        return group_norm(tape, convolve_3x3(tape, relu(tape, group_norm(tape, x)), two))

    def shortcut(tape: Tape, x: Tensor) -> Tensor:
        return x if stride == 1 else group_norm(tape, convolve(tape, x, weights[2], stride=stride, padding=0))

    return relu(tape, residual(tape, x, branch, shortcut))


def _dense_layer(inputs: int, outputs: int) -> Layer:
    """PyTorch's own start for a dense layer: weights and biases in ±1/√inputs."""
    return Layer((inputs, outputs), (outputs,), inputs**-0.5, inputs**-0.5)


def _small_conv_layer(inputs: int, outputs: int, size: int = 5) -> Layer:
    limit = (inputs * size**2) ** -0.5
    return Layer((outputs, inputs, size, size), (outputs,), limit, limit)


def _he_layer(weight: tuple[int, ...], bias: int | None, *, fan_in: int) -> Layer:
    """He's start, which keeps a signal's variance through many layers of ReLU: weights in ±√(6/inputs), no bias."""
    return Layer(weight, None if bias is None else (bias,), (6 / fan_in) ** 0.5)
