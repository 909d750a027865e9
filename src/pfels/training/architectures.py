"""The layers of every network by name: parameter shapes and initial ranges, without PyTorch."""

import itertools
import math
from dataclasses import dataclass

from pfels.errors import InputError

MINIMUM_SIDE = {"cnn": 4, "vgg11": 32, "resnet18": 1}  # minimum image height and width in pixels

RESNET_BLOCKS = tuple(
    block
    for inputs, outputs, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
    for block in ((inputs, outputs, stride), (outputs, outputs, 1))
)

VGG_WIDTHS = (64, 128, 256, 256, 512, 512, 512, 512)


@dataclass(frozen=True)
class Layer:
    """A weight and an optional bias, with initial values uniform in ±limit and ±bias_limit.

    `axes` are those of a weight that is not stored as PyTorch stores it: height, width, inputs, outputs. A dense layer
    is a kernel over the whole image, or over 1×1.
    """

    weight: tuple[int, ...]
    bias: tuple[int, ...] | None
    limit: float
    bias_limit: float = 0.0
    axes: tuple[int, int, int, int] | None = None

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of the weight and, if present, of the bias."""
        return [self.weight] if self.bias is None else [self.weight, self.bias]


def layers(name: str, *, shape: tuple[int, ...], classes: int, hidden: int) -> tuple[Layer, ...]:
    """The layers of the named network for examples of this shape, in the order of the flat parameter vector.

    `hidden` is the width of the hidden layer of mlp and cnn; the others do not use it.
    """
    if name == "linear":
        return (_dense_layer(math.prod(shape), classes),)
    if name == "mlp":
        return (_dense_layer(math.prod(shape), hidden), _dense_layer(hidden, classes))
    if len(shape) != 3:
        raise InputError(f"model.name = {name!r}: needs images, but an example has shape {shape}; use mlp or linear")
    side = MINIMUM_SIDE[name]
    if min(shape[1:]) < side:
        size = f"{shape[1]}×{shape[2]}"
        raise InputError(f'model.name = "{name}": needs images of at least {side}×{side}, but they are {size}')
    if name == "cnn":
        return _cnn(shape, hidden, classes)
    return _vgg11(shape, classes) if name == "vgg11" else _resnet18(shape, classes)


def dimension(network: tuple[Layer, ...]) -> int:
    """The number d of parameters."""
    return sum(math.prod(shape) for layer in network for shape in layer.shapes)


def _cnn(shape: tuple[int, ...], hidden: int, classes: int) -> tuple[Layer, ...]:
    channels, height, width = shape
    return (
        _small_conv_layer(channels, 16),
        _small_conv_layer(16, 32),
        _dense_layer(32 * (height // 4) * (width // 4), hidden, image=(height // 4, width // 4)),
        _dense_layer(hidden, classes),
    )


def _vgg11(shape: tuple[int, ...], classes: int) -> tuple[Layer, ...]:
    channels, height, width = shape
    tall, wide = height // 32, width // 32
    return (
        _he_layer((64, channels, 3, 3), 64, fan_in=9 * channels),
        *(_he_layer((3, 3, i, o), o, fan_in=9 * i, axes=(3, 3, i, o)) for i, o in itertools.pairwise(VGG_WIDTHS)),
        _he_layer((512 * tall * wide, 512), 512, fan_in=512 * tall * wide, axes=(tall, wide, 512, 512)),
        _he_layer((512, 512), 512, fan_in=512, axes=(1, 1, 512, 512)),
        _dense_layer(512, classes),
    )


def _resnet18(shape: tuple[int, ...], classes: int) -> tuple[Layer, ...]:
    convolutions = [_he_layer((64, shape[0], 7, 7), None, fan_in=49 * shape[0])]
    for i, o, stride in RESNET_BLOCKS:
        same = (3, 3, i, o)
        if stride == 1:
            convolutions.append(_he_layer(same, None, fan_in=9 * i, axes=same))
        else:
            convolutions.append(_he_layer((o, i, 3, 3), None, fan_in=9 * i))
        convolutions.append(_he_layer((3, 3, o, o), None, fan_in=9 * o, axes=(3, 3, o, o)))
        if stride > 1:
            convolutions.append(_he_layer((o, i, 1, 1), None, fan_in=i))
    return (*convolutions, _dense_layer(512, classes))


def _dense_layer(inputs: int, outputs: int, *, image: tuple[int, int] = (1, 1)) -> Layer:
    """PyTorch's default initialisation of a dense layer: weights and biases in ±1/√inputs. What it sees may be the
    pixels of an `image`, channels last."""
    height, width = image
    axes = (height, width, inputs // (height * width), outputs)
    return Layer((inputs, outputs), (outputs,), inputs**-0.5, inputs**-0.5, axes)


def _small_conv_layer(inputs: int, outputs: int, size: int = 5) -> Layer:
    limit = (inputs * size**2) ** -0.5
    return Layer((outputs, inputs, size, size), (outputs,), limit, limit)


def _he_layer(
    weight: tuple[int, ...], bias: int | None, *, fan_in: int, axes: tuple[int, int, int, int] | None = None
) -> Layer:
    """He initialisation, which keeps the variance through many ReLU layers: weights in ±√(6/inputs), biases zero."""
    return Layer(weight, None if bias is None else (bias,), (6 / fan_in) ** 0.5, axes=axes)
