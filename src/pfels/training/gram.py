"""Momentum SGD of c devices with a network of dense layers, through the Gram matrix of their examples.

A device's examples X (n, features) are the same at every step, and each gradient of the first layer's weights is XᵀG
for some G (n, width). So its weights are always W + XᵀA, where A changes by −ηv with v ← mv + G, and the output of
the layer is XW + (XXᵀ)A. Given the Gram matrix XXᵀ, a step takes n·width multiplications per example instead of
2·features·width, and the momentum updates n·width numbers. XW is one product for all devices, since they start from
the same W. The bias is the weight of a feature that is always 1.

Forward and backward passes are written out, since small networks spend most of their time between operations.
"""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from pfels.runtime.memory import Scratch
from pfels.training.batches import Batch
from pfels.training.layers import aten, softmax_loss, targets
from pfels.training.networks import Network
from pfels.training.products import linear
from pfels.training.sgd import Rule, move, slow_down

SMALL = 2**13  # numbers of a product that is sooner copied than multiplied by itself


def pays(network: Network, *, examples: int, epochs: int) -> bool:
    """Whether this takes fewer multiplications than forward and backward passes through the first layer."""
    if not network.dense:
        return False
    features, width = network.layers[0].weight
    gram = examples**2 * features + 2 * examples * features * width + epochs * examples**2 * width
    return gram < 2 * epochs * examples * features * width


def train(
    network: Network, theta: Tensor, *, x: Tensor, y: Tensor, batches: Iterable[Batch], rule: Rule, scratch: Scratch
) -> tuple[Tensor, Tensor]:
    """The updates (c, d), stored in `scratch`, and the mean loss of each device over its steps (c,)."""
    x = x.flatten(2)
    c, n, features = x.shape
    weight, bias, *others = network.shapes
    weights, first = features * bias[0], (features + 1) * bias[0]
    start = linear(x.reshape(-1, features), theta[:weights].view(weight), theta[weights:first]).view(c, n, -1)
    gram = torch.bmm(x, x.mT).add_(1)
    # A (c, n, width) and, of a layer after it, weights (c, classes, width) and biases (c, classes, 1)
    shapes = [(c, n, bias[0]), *((c, o[-1], o[0] if len(o) > 1 else 1) for o in others)]
    values, velocity = (_Stack(shapes, like=theta) for _ in range(2))
    values.parts[0].zero_()
    after = torch.split(theta[first:], [math.prod(o) for o in others])
    for part, given, shape in zip(values.parts[1:], after, others, strict=True):
        part.copy_(given.view(shape).mT if len(shape) > 1 else given.unsqueeze(1))
    losses = _descend(start, gram, values, velocity, labels=y, batches=batches, rule=rule)
    moved, *output = values.parts
    updates = scratch.take(c, len(theta), like=theta)
    _multiply(x.mT, moved, out=updates[:, :weights].view(c, *weight))
    torch.sum(moved, 1, out=updates[:, weights:first])
    if output:
        torch.sub(torch.cat([part.mT.flatten(1) for part in output], 1), theta[first:], out=updates[:, first:])
    return updates, losses


class _Stack:
    """Parameters of all devices, or their velocities, one tensor after the other in one piece of memory."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], *, like: Tensor) -> None:
        sizes = [math.prod(shape) for shape in shapes]
        self.whole = torch.empty(sum(sizes), dtype=like.dtype, device=like.device)
        self.parts = [part.view(shape) for part, shape in zip(torch.split(self.whole, sizes), shapes, strict=True)]


def _descend(
    start: Tensor, gram: Tensor, values: _Stack, velocity: _Stack, *, labels: Tensor, batches: Iterable[Batch],
    rule: Rule,
) -> Tensor:  # fmt: skip
    """Run SGD on the values, in place; returns each device's mean loss over its steps (c,)."""
    moved, *output = values.parts
    loss_sum, ones = start.new_zeros(len(start)), start.new_ones(len(start), start.shape[1], 1)
    steps: float | Tensor = 0.0  # of each device, or of all
    before, wanted = None, start
    for step, batch in enumerate(batches):
        keep = rule.momentum if step else 0.0
        if batch.active is not None:  # a device without examples in this batch keeps its velocity unchanged
            slow_down(velocity.parts, batch.active, rule.momentum if step else None)
            keep = 1.0
        reached = torch.baddbmm(batch.of(start), batch.of(gram), moved)
        axis, logits = 2, reached
        if output:
            axis, logits = 1, torch.baddbmm(output[1], output[0], reached.relu_().mT)  # (c, classes, examples)
        if batch is not before:
            before, wanted = batch, targets(batch.of(labels), batch.weights, like=logits, axis=axis)
        losses, gradient = softmax_loss(logits, wanted, axis=axis)
        if output:
            by_logits, gradient = gradient, torch.bmm(gradient.mT, output[0])
            velocity.parts[1].baddbmm_(by_logits, reached, beta=keep)  # with β = 0, whatever was there is ignored
            velocity.parts[2].baddbmm_(by_logits, ones[:, : reached.shape[1]], beta=keep)
            aten.threshold_backward.grad_input(gradient, reached, 0, grad_input=gradient)
        _learn(velocity.parts[0], gradient, batch.chosen, keep)
        if batch.active is None:
            values.whole.sub_(velocity.whole, alpha=rule.learning_rate)
        else:
            move(values.parts, velocity.parts, batch.active, rule)
        loss_sum += losses
        steps = steps + (1 if batch.active is None else batch.active)
    return loss_sum / steps


def _learn(velocity: Tensor, gradient: Tensor, chosen: Tensor | None, keep: float) -> None:
    """v ← mv + G, where only the chosen examples have rows in G. With m = 0 the previous v is ignored, even if it is
    NaN."""
    if chosen is not None:
        kept = velocity.mul_(keep) if keep else velocity.zero_()
        kept.scatter_add_(1, chosen.unsqueeze(2).expand_as(gradient), gradient)
    elif keep:
        torch.add(gradient, velocity, alpha=keep, out=velocity)
    else:
        velocity.copy_(gradient)


def _multiply(a: Tensor, b: Tensor, *, out: Tensor) -> None:
    """Products of a stack of matrices, into the rows of a larger one: small ones by way of a copy, since PyTorch
    multiplies one by one what does not lie together."""
    if out[0].numel() < SMALL:
        out.copy_(torch.bmm(a, b))
    else:
        torch.bmm(a, b, out=out)
