"""Momentum SGD of c devices at once, for any network: v ← mv + g, θ ← θ − ηv."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from pfels.runtime.memory import Scratch
from pfels.training.batches import Batch
from pfels.training.layers import Tape, cross_entropy
from pfels.training.networks import Network, Parameters


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

    def forward(parameters: Parameters, batch: Batch, tape: Tape) -> Tensor:
        return network.forward(parameters, batch.of(x), tape)

    losses = descend(rows, network.stacked, forward, labels=y, batches=batches, rule=rule, scratch=scratch)
    return rows.sub_(theta), losses


def descend(
    rows: Tensor,
    stacked: Callable[[Tensor, Tensor, float], Parameters],
    forward: Callable[[Parameters, Batch, Tape], Tensor],
    *,
    labels: Tensor,
    batches: Iterable[Batch],
    rule: Rule,
    scratch: Scratch,
) -> Tensor:
    """Run SGD on the devices' parameter rows, in place; returns each device's mean loss over its steps (c,)."""
    velocity = scratch.take(*rows.shape, like=rows)
    mark = scratch.mark
    fresh = stacked(rows, velocity, 0.0)
    views = cache(lambda keep: [replace(each, momentum=keep) for each in fresh])
    tape = Tape(scratch, keep=True, factors=rule.factors)
    loss_sum = rows.new_zeros(len(rows))
    steps: float | Tensor = 0.0  # of each device, or of all
    for step, batch in enumerate(batches):
        keep = rule.momentum if step else 0.0
        if batch.active is not None:  # a device without examples in this batch keeps its velocity unchanged
            if step:
                velocity.mul_(1 - (1 - rule.momentum) * batch.active.unsqueeze(1))
            else:
                velocity.zero_()
            keep = 1.0
        logits = forward(views(keep), batch, tape)
        # Devices do not interact, so one backward pass from all losses gives every device's own gradient.
        losses, gradient = cross_entropy(logits, batch.of(labels), batch.weights)
        tape.back(gradient)
        scratch.give_back(mark)
        if batch.active is None:
            rows.sub_(velocity, alpha=rule.learning_rate)
            loss_sum += losses
            steps += 1
        else:
            rows.addcmul_(velocity, batch.active.unsqueeze(1), value=-rule.learning_rate)
            loss_sum += losses * batch.active
            steps = steps + batch.active
    return loss_sum / steps
