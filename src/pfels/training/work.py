"""What local training computes, in floating-point operations, without PyTorch."""

import math

from pfels.training.architectures import RESNET_BLOCKS, VGG_WIDTHS

FLOPS_PER_PARAMETER_USE = 6  # a multiplication and an addition, forward and twice that backward


def training_flops(
    name: str, *, shape: tuple[int, ...], classes: int, hidden: int, examples: float, epochs: int
) -> float:
    """Floating-point operations of `epochs` passes over so many examples: 3 × forward, 2 per multiply-add.

    >>> training_flops("linear", shape=(60,), classes=10, hidden=1, examples=50, epochs=5)
    900000.0
    """
    macs = multiply_adds(name, shape=shape, classes=classes, hidden=hidden)
    return float(FLOPS_PER_PARAMETER_USE * macs * examples * epochs)


def multiply_adds(name: str, *, shape: tuple[int, ...], classes: int, hidden: int) -> int:
    """Multiply-adds of the named network's layers for one example: biases, activations and pooling are left out."""
    inputs = math.prod(shape)
    if name == "linear":
        return inputs * classes
    if name == "mlp":
        return inputs * hidden + hidden * classes
    channels, height, width = shape
    if name == "cnn":
        convolutions = 25 * channels * 16 * height * width + 25 * 16 * 32 * (height // 2) * (width // 2)
        return convolutions + 32 * (height // 4) * (width // 4) * hidden + hidden * classes
    return (_vgg11 if name == "vgg11" else _resnet18)(channels, height, width, classes)


def _vgg11(channels: int, height: int, width: int, classes: int) -> int:
    total, inputs = 0, channels
    for i, outputs in enumerate(VGG_WIDTHS):
        total += 9 * inputs * outputs * height * width
        inputs = outputs
        if i in (0, 1, 3, 5, 7):  # pooling halves the image
            height, width = height // 2, width // 2
    return total + 512 * height * width * 512 + 512 * 512 + 512 * classes


def _resnet18(channels: int, height: int, width: int, classes: int) -> int:
    height, width = _half(height), _half(width)
    total = 49 * channels * 64 * height * width
    height, width = _half(height), _half(width)  # pooling
    for inputs, outputs, stride in RESNET_BLOCKS:
        if stride == 2:
            height, width = _half(height), _half(width)
        shortcut = inputs * outputs if stride == 2 else 0
        total += (9 * inputs * outputs + 9 * outputs * outputs + shortcut) * height * width
    return total + 512 * classes


def _half(side: int) -> int:
    return (side + 1) // 2
