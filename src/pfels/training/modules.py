"""The networks as ordinary modules of PyTorch, and a flat parameter vector as their weights by name.

linear, mlp, cnn and vgg11 are a `torch.nn.Sequential`. resnet18 has torchvision's names, so that its weights fit
`torchvision.models.resnet18(norm_layer=…)` as well.
"""

import itertools
import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from pfels.errors import InputError
from pfels.training import architectures
from pfels.training.architectures import VGG_WIDTHS, Layer

POOLED = {0, 1, 3, 5, 7}  # convolutions of vgg11 that a pooling follows


def state_dict(name: str, theta: Tensor, *, shape: tuple[int, ...], classes: int, hidden: int) -> dict[str, Tensor]:
    """The flat parameter vector θ of the named network as tensors by name, in the layout of its module."""
    layers = architectures.layers(name, shape=shape, classes=classes, hidden=hidden)
    d = architectures.dimension(layers)
    if theta.shape != (d,):
        raise InputError(f"parameters: {tuple(theta.shape)} numbers; a {name} for this data has {d}")
    with torch.device("meta"):  # names and shapes alone: nothing is stored, and nothing drawn
        wanted = build(name, shape=shape, classes=classes, hidden=hidden).state_dict()
    pieces = torch.split(theta, [math.prod(each) for layer in layers for each in layer.shapes])
    stored = [(layer, is_bias) for layer in layers for is_bias in range(len(layer.shapes))]
    return {
        key: (piece if is_bias else _as_in_pytorch(layer, piece))
        .reshape(like.shape)
        .clone(memory_format=torch.contiguous_format)
        for (key, like), piece, (layer, is_bias) in zip(wanted.items(), pieces, stored, strict=True)
    }


def _as_in_pytorch(layer: Layer, weight: Tensor) -> Tensor:
    """A flat weight with its axes in PyTorch's order: outputs, inputs, height, width."""
    return weight if layer.axes is None else weight.view(layer.axes).permute(3, 2, 0, 1)


def module(name: str, weights: Mapping[str, Tensor], *, shape: tuple[int, ...], classes: int, hidden: int) -> nn.Module:
    """The named network with these weights, ready to be evaluated."""
    with torch.device("meta"):
        built = build(name, shape=shape, classes=classes, hidden=hidden)
    built.load_state_dict(dict(weights), strict=True, assign=True)
    return built.eval()


def build(name: str, *, shape: tuple[int, ...], classes: int, hidden: int) -> nn.Module:
    """The named network, untrained. It takes examples (n, …) of this shape and gives logits (n, classes)."""
    inputs = math.prod(shape)
    if name == "linear":
        return nn.Sequential(nn.Flatten(), nn.Linear(inputs, classes))
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))
    if name == "cnn":
        return _cnn(shape, hidden, classes)
    return _vgg11(shape, classes) if name == "vgg11" else ResNet18(shape[0], classes)


def _cnn(shape: tuple[int, ...], hidden: int, classes: int) -> nn.Module:
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * (height // 4) * (width // 4), hidden), nn.ReLU(), nn.Linear(hidden, classes),
    )  # fmt: skip


def _vgg11(shape: tuple[int, ...], classes: int) -> nn.Module:
    channels, height, width = shape
    parts: list[nn.Module] = []
    for i, (inputs, outputs) in enumerate(itertools.pairwise((channels, *VGG_WIDTHS))):
        parts += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), *([nn.MaxPool2d(2)] if i in POOLED else [])]
    features = 512 * (height // 32) * (width // 32)
    dense = [nn.Flatten(), nn.Linear(features, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()]
    return nn.Sequential(*parts, *dense, nn.Linear(512, classes))


class ResNet18(nn.Module):
    """ResNet-18 whose normalisation is over 32 groups of channels, without parameters."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
        self.layer1 = nn.Sequential(Block(64, 64, 1), Block(64, 64, 1))
        self.layer2 = nn.Sequential(Block(64, 128, 2), Block(128, 128, 1))
        self.layer3 = nn.Sequential(Block(128, 256, 2), Block(256, 256, 1))
        self.layer4 = nn.Sequential(Block(256, 512, 2), Block(512, 512, 1))
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of images (n, channels, height, width)."""
        x = nn.functional.max_pool2d(_normalised(self.conv1(x)).relu(), 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Two 3×3 convolutions with a shortcut, which is a 1×1 convolution if the stride is not 1."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.downsample = None if stride == 1 else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        """The block's images."""
        y = _normalised(self.conv2(_normalised(self.conv1(x)).relu()))
        return (y + (x if self.downsample is None else _normalised(self.downsample(x)))).relu()


def _normalised(x: Tensor) -> Tensor:
    return nn.functional.group_norm(x, 32)
