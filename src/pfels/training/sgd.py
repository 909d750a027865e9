"""Momentum SGD of c devices at once, for any network: v ← mv + g, θ ← θ − ηv."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from pfels.runtime.memory import Scratch
from pfels.training.batches import Batch
from pfels.training.layers import Tape, cross_entropy
from pfels.training.networks import Network


@dataclass(frozen=True)
class Rule:
    """The step size η, the momentum m, and the type to which factors of large products are rounded, if any."""

    learning_rate: float
    momentum: float
    factors: torch.dtype | None = None


def train(
    network: Network, theta: Tensor, *, x: Tensor, y: Tensor, batches: Iterable[Batch], rule: Rule, scratch: Scratch
) -> tuple[Tensor, Tensor]:
    """The updates (c, d), stored in `scratch`, and the mean loss of each device over its steps (c,)."""
    rows = scratch.take(len(x), len(theta), like=theta).copy_(theta.expand(len(x), -1))
    velocity = scratch.take(*rows.shape, like=rows)
    mark = scratch.mark
    fresh = network.stacked(rows, velocity, 0.0)
    views = cache(lambda keep: [replace(each, momentum=keep) for each in fresh])
    tape = Tape(scratch, keep=True, factors=rule.factors)
    loss_sum = rows.new_zeros(len(rows))
    steps: float | Tensor = 0.0  # of each device, or of all
    for step, batch in enumerate(batches):
        keep = rule.momentum if step else 0.0
        if batch.active is not None:  # a device without examples in this batch keeps its velocity unchanged
            slow_down([velocity], batch.active, rule.momentum if step else None)
            keep = 1.0
        logits = network.forward(views(keep), batch.of(x), tape)
        # Devices do not interact, so one backward pass from all losses gives every device's own gradient.
        losses, gradient = cross_entropy(logits, batch.of(y), batch.weights)
        tape.back(gradient)
        scratch.give_back(mark)
        move([rows], [velocity], batch.active, rule)
        loss_sum += losses
        steps = steps + (1 if batch.active is None else batch.active)
    return rows.sub_(theta), loss_sum / steps


def slow_down(velocities: Iterable[Tensor], active: Tensor, momentum: float | None) -> None:
    """v ← mv for the devices that are active; all v ← 0 without a momentum, where nothing was learned before."""
    for velocity in velocities:
        if momentum is None:
            velocity.zero_()
        else:
            velocity.mul_(_by_device(1 - (1 - momentum) * active, velocity))


def move(values: Iterable[Tensor], velocities: Iterable[Tensor], active: Tensor | None, rule: Rule) -> None:
    """θ ← θ − ηv, of the devices that are active; None: all are."""
    for value, velocity in zip(values, velocities, strict=True):
        if active is None:
            value.sub_(velocity, alpha=rule.learning_rate)
        else:
            value.addcmul_(velocity, _by_device(active, velocity), value=-rule.learning_rate)


def _by_device(numbers: Tensor, like: Tensor) -> Tensor:
    return numbers.view(-1, *[1] * (like.dim() - 1))
