"""The layers of the networks with their backward passes, for c devices at once.

Activations are (c, n, …): devices, then examples; images have their channels last. Each layer records its backward
step on a tape. The gradient of a parameter is not stored separately: the product that computes it adds it directly to
the velocity, v ← mv + g, which saves a pass over all parameters and a copy of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pfels.runtime.memory import Scratch
from pfels.training.products import product

aten = torch.ops.aten
Step = Callable[[Tensor], Tensor | None]
SMALLEST_LOG = -60.0  # of a probability in a gradient: smaller ones change no sum, and denormal numbers are slow
LARGE = 2**15  # weights of a dense layer that is worth rounding


@dataclass(frozen=True)
class Parameter:
    """A parameter tensor of c devices (c, …) and, in training, the velocity that accumulates its gradient.

    With momentum 0 the previous velocity is ignored, even if it is NaN.
    """

    value: Tensor
    velocity: Tensor
    momentum: float

    def learn(self, gradient: Tensor) -> None:
        """v ← mv + g."""
        if self.momentum == 0:
            self.velocity.copy_(gradient)
        else:
            torch.add(gradient, self.velocity, alpha=self.momentum, out=self.velocity)

    def learn_product(self, a: Tensor, b: Tensor) -> None:
        """v ← mv + ab, for a stack of matrices a (c, ·, ·) and b (c, ·, ·)."""
        if len(a) == 1 and a.dtype == self.velocity.dtype:
            self.velocity.view(1, a.shape[1], b.shape[2]).baddbmm_(a, b, beta=self.momentum)
        else:  # rows of a larger stack are not contiguous, and PyTorch would multiply them one by one
            found, shape = product(a, b), self.velocity.shape
            self.learn(found if found.shape == shape else found.reshape(shape))


def stack_views(shapes: Sequence[tuple[int, ...]], rows: Tensor, velocity: Tensor, momentum: float) -> list[Parameter]:
    """Views of c flat rows and of their velocities, both (c, d), as parameters of these shapes."""
    sizes = [math.prod(shape) for shape in shapes]
    pieces = zip(shapes, torch.split(rows, sizes, 1), torch.split(velocity, sizes, 1), strict=True)
    return [Parameter(r.view(-1, *shape), v.view(-1, *shape), momentum) for shape, r, v in pieces]


class Tape:
    """The backward steps of a network, run last to first. With keep=False nothing is recorded, for evaluation.

    `factors` is the type to which the factors of large products and convolutions are rounded; None: as they are.
    Parameters, velocities and everything between two products keep theirs.
    """

    def __init__(self, scratch: Scratch, *, keep: bool, factors: torch.dtype | None = None) -> None:
        self.scratch, self.keep, self.factors = scratch, keep, factors
        self._steps: list[Step] = []

    def rounded(self, x: Tensor, *, large: bool = True) -> Tensor:
        """x as a factor of a product, rounded if that one is large."""
        return x if self.factors is None or not large else x.to(self.factors)

    def add(self, step: Step) -> None:
        """Record the backward step of a layer: from the gradient of its output to that of its input."""
        if self.keep:
            self._steps.append(step)

    def back(self, gradient: Tensor | None) -> Tensor | None:
        """Run all backward steps and release each one after use. None: the gradient of the data was not computed."""
        while self._steps:
            assert gradient is not None, "only the first layer may skip the gradient of its input"
            gradient = self._steps.pop()(gradient)
        return gradient


def dense(tape: Tape, x: Tensor, weight: Parameter, bias: Parameter, *, first: bool = False) -> Tensor:
    """x·W + b."""
    large = tape.factors is not None and weight.value[0].numel() >= LARGE
    factor, w = tape.rounded(x, large=large), tape.rounded(weight.value, large=large)

    def back(g: Tensor) -> Tensor | None:
        by_output = tape.rounded(g, large=large)
        weight.learn_product(factor.mT, by_output)
        bias.learn(g.sum(1))
        if first:
            return None
        by_input = torch.bmm(by_output, w.mT)
        return by_input.to(g.dtype) if large else by_input

    tape.add(back)
    y = product(factor, w)
    return (y.to(x.dtype) if large else y).add_(bias.value.unsqueeze(1))


def relu(tape: Tape, x: Tensor) -> Tensor:
    """max(x, 0), in place."""
    y = x.relu_()
    tape.add(lambda g: _where_positive(g, y))
    return y


def bias_relu(tape: Tape, x: Tensor, bias: Parameter) -> Tensor:
    """max(x + b, 0), in place, with one b per channel."""
    c, channels = bias.value.shape
    y = x.add_(bias.value.view(c, *[1] * (x.dim() - 2), channels)).relu_()

    def back(g: Tensor) -> Tensor:
        g = _where_positive(g, y)
        bias.learn(g.view(c, -1, channels).sum(1))
        return g

    tape.add(back)
    return y


def _where_positive(g: Tensor, y: Tensor) -> Tensor:
    g = g.contiguous()
    return aten.threshold_backward.grad_input(g, y, 0, grad_input=g)  # type: ignore[no-any-return]


def convolve(tape: Tape, x: Tensor, weight: Parameter, *, stride: int = 1, padding: int, first: bool = False) -> Tensor:
    """A convolution of every device's images with its own kernels (c, out, in, size, size), without bias.

    One call per device: a grouped convolution over all devices is several times slower. The first one is never
    rounded: with few channels that gains nothing.
    """
    around = ([stride, stride], [padding, padding], [1, 1])
    images = [_channels_first(image) for image in tape.rounded(x, large=not first)]
    kernels = tape.rounded(weight.value, large=not first).unbind()

    def back(g: Tensor) -> Tensor | None:
        how = (None, *around, False, [0, 0], 1, [not first, True, False])
        by_output = [_channels_first(each) for each in tape.rounded(g, large=not first)]
        found = [aten.convolution_backward(*one, *how) for one in zip(by_output, images, kernels, strict=True)]
        weight.learn(_stack([w for _, w, _ in found]))
        return None if first else _stack([_channels_last(image) for image, _, _ in found]).to(g.dtype)

    tape.add(back)
    pairs = zip(images, kernels, strict=True)
    return _stack([_channels_last(F.conv2d(image, w, None, *around)) for image, w in pairs]).to(x.dtype)


def channels_last(x: Tensor) -> Tensor:
    """Images (c, n, channels, height, width) in the layout of the layers, channels last."""
    # Always a copy: with one channel, only new strides tell PyTorch the memory order.
    return x.permute(0, 1, 3, 4, 2).clone(memory_format=torch.contiguous_format)


def flatten(tape: Tape, x: Tensor) -> Tensor:
    """(c, n, …) as (c, n, features)."""
    tape.add(lambda g: g.view(x.shape))
    return x.flatten(2)


def max_pool(tape: Tape, x: Tensor, *, size: int = 2, stride: int = 2, padding: int = 0) -> Tensor:
    """The maximum of each window; in ties the first, as in PyTorch."""
    flat, how = _channels_first(x.flatten(0, 1)), ([size] * 2, [stride] * 2, [padding] * 2)
    if not tape.keep:
        return _unflatten(F.max_pool2d(flat, *how), x)
    y, where = F.max_pool2d(flat, *how, return_indices=True)

    def back(g: Tensor) -> Tensor:
        dense = _channels_first(g.flatten(0, 1))
        out = aten.max_pool2d_with_indices_backward(dense, flat, *how, [1, 1], False, where)
        return _unflatten(out, x)

    tape.add(back)
    return _unflatten(y, x)


def mean_pool(tape: Tape, x: Tensor) -> Tensor:
    """The mean of each channel over the whole image, (c, n, channels)."""
    height, width = x.shape[2:4]
    tape.add(lambda g: (g / (height * width))[:, :, None, None].expand_as(x))
    return x.mean((2, 3))


def group_norm(tape: Tape, x: Tensor, *, groups: int = 32) -> Tensor:
    """Each image normalised over groups of channels, without parameters or running statistics."""
    flat = _channels_first(x.flatten(0, 1))
    about = (len(flat), flat.shape[1], flat.shape[2] * flat.shape[3], groups)
    y, mean, scale = aten.native_group_norm(flat, None, None, *about, 1e-5)

    def back(g: Tensor) -> Tensor:
        dense = _channels_first(g.flatten(0, 1)).contiguous(memory_format=torch.channels_last)
        out, _, _ = aten.native_group_norm_backward(dense, flat, mean, scale, None, *about, [True, False, False])
        return _unflatten(out, x)

    tape.add(back)
    return _unflatten(y, x)


def residual(
    tape: Tape, x: Tensor, branch: Callable[[Tape, Tensor], Tensor], shortcut: Callable[[Tape, Tensor], Tensor]
) -> Tensor:
    """branch(x) + shortcut(x)."""
    through, around = (Tape(tape.scratch, keep=tape.keep, factors=tape.factors) for _ in range(2))
    y = branch(through, x) + shortcut(around, x)

    def back(g: Tensor) -> Tensor:
        short, long = around.back(g.clone()), through.back(g)  # in reverse order of their use of scratch memory
        assert short is not None
        assert long is not None
        return short + long

    tape.add(back)
    return y


def cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Each device's loss (c,), the mean over its examples or their weighted sum, and its gradient by the logits, which
    lies in memory as the logits do."""
    axis = 1 if logits.mT.is_contiguous() else 2  # few logits lie class by class (`product`)
    logits = logits.mT if axis == 1 else logits
    losses, gradient = softmax_loss(logits, targets(labels, weights, like=logits, axis=axis), axis=axis)
    return losses, gradient.mT if axis == 1 else gradient


def targets(labels: Tensor, weights: Tensor | None, *, like: Tensor, axis: int) -> Tensor:
    """What `softmax_loss` is to reach: −w at the label of each example and 0 elsewhere, in the shape of the logits
    `like` with the classes along `axis`. The weights w (c, n) average over a device's examples; None: all alike."""
    wanted, n = labels.unsqueeze(axis), labels.shape[1]
    if weights is None:
        return torch.zeros_like(like).scatter_(axis, wanted, -1 / n)
    return torch.zeros_like(like).scatter_(axis, wanted, -weights.unsqueeze(axis))


def softmax_loss(logits: Tensor, wanted: Tensor, *, axis: int) -> tuple[Tensor, Tensor]:
    """The cross-entropy of each device (c,) and its gradient by the logits.

    With few classes a softmax is several times as fast along axis 1, with the logits of one class next to each other.
    """
    log, c = torch.log_softmax(logits, axis), len(logits)
    losses = torch.bmm(log.view(c, 1, -1), wanted.view(c, -1, 1)).view(c)
    return losses, torch._log_softmax_backward_data(wanted, log.clamp_(min=SMALLEST_LOG), axis, log.dtype)


def _channels_first(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def _channels_last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1)


def _unflatten(images: Tensor, like: Tensor) -> Tensor:
    """Images (c·n, channels, height, width) as those of c devices, channels last."""
    last = _channels_last(images).contiguous()
    return last.view(*like.shape[:2], *last.shape[1:])


def _stack(parts: list[Tensor]) -> Tensor:
    """The parts as one tensor; a single part is not copied."""
    return parts[0].unsqueeze(0) if len(parts) == 1 else torch.stack(parts)
