"""Momentum SGD of c devices whose first layer is dense, through the Gram matrix of their examples.

A device's examples X (n, features) are the same at every step, and each gradient of the first layer's weights is XᵀG
for some G (n, hidden). So its weights are always W + XᵀA, where A changes by −ηv with v ← mv + G, and the output of
the layer is XW + (XXᵀ)A. Given the Gram matrix XXᵀ, a step takes n·hidden multiplications per example instead of
2·features·hidden, and the momentum updates n·hidden numbers. XW is one product for all devices, since they start from
the same W. The bias is the weight of a feature that is always 1.
"""

from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor

from pfels.runtime.memory import Scratch
from pfels.training.batches import Batch
from pfels.training.layers import Parameter, Tape, linear, stack_views
from pfels.training.networks import Network, Parameters
from pfels.training.sgd import Rule, descend

SMALL = 2**13  # numbers of a product that is sooner copied than multiplied by itself


def pays(network: Network, *, examples: int, epochs: int) -> bool:
    """Whether this takes fewer multiplications than forward and backward passes through the first layer."""
    if network.head is None:
        return False
    features, hidden = network.layers[0].weight
    gram = examples**2 * features + 2 * examples * features * hidden + epochs * examples**2 * hidden
    return gram < 2 * epochs * examples * features * hidden


def train(
    network: Network, theta: Tensor, *, x: Tensor, y: Tensor, batches: Iterable[Batch], rule: Rule, scratch: Scratch
) -> tuple[Tensor, Tensor]:
    """The updates (c, d), stored in `scratch`, and the mean loss of each device over its steps (c,)."""
    head = network.head
    assert head is not None, "only for networks whose first layer is dense"
    x = x.flatten(2)
    c, n, features = x.shape
    weight, bias, *others = network.shapes
    hidden = bias[0]
    shapes = [(n, hidden), *others]
    weights, first = features * hidden, (features + 1) * hidden
    start = linear(x.reshape(-1, features), theta[:weights].view(weight), theta[weights:first])
    start, gram = start.view(c, n, hidden), torch.bmm(x, x.mT).add_(1)

    def forward(parameters: Parameters, batch: Batch, tape: Tape) -> Tensor:
        moved, *rest = parameters
        tape.add(lambda g: _learn_examples(moved, batch.chosen, g))
        return head(rest, torch.baddbmm(batch.of(start), batch.of(gram), moved.value), tape)

    updates = scratch.take(c, len(theta), like=theta)
    rows = scratch.take(c, n * hidden + len(theta) - first, like=theta)
    rows[:, : n * hidden].zero_()
    rows[:, n * hidden :].copy_(theta[first:])
    losses = descend(rows, partial(stack_views, shapes), forward, labels=y, batches=batches, rule=rule, scratch=scratch)
    moved = rows[:, : n * hidden].view(c, n, hidden)
    _multiply(x.mT, moved, out=updates[:, :weights].view(c, *weight))
    torch.sum(moved, 1, out=updates[:, weights:first])
    torch.sub(rows[:, n * hidden :], theta[first:], out=updates[:, first:])
    return updates, losses


def _multiply(a: Tensor, b: Tensor, *, out: Tensor) -> None:
    """Products of a stack of matrices, into the rows of a larger one: small ones by way of a copy, since PyTorch
    multiplies one by one what does not lie together."""
    if out[0].numel() < SMALL:
        out.copy_(torch.bmm(a, b))
    else:
        torch.bmm(a, b, out=out)


def _learn_examples(moved: Parameter, chosen: Tensor | None, g: Tensor) -> None:
    """v ← mv + G, where only the chosen examples have rows in G."""
    if chosen is None:
        moved.learn(g)
    else:
        v = moved.velocity.mul_(moved.momentum) if moved.momentum else moved.velocity.zero_()
        v.scatter_add_(1, chosen.unsqueeze(2).expand_as(g), g)
