"""The score of every canary: how much what an observer sees looks as if the canary were in."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfels.arrays import DeviceIds, Reals
from pfels.schemes.plan import RoundPlan
from pfels.studies.canaries import PATTERNS, Canaries, Coins

BLOCK = 2**22  # numbers that are worked on at once


@dataclass(frozen=True)
class Scores:
    """The scores of some canaries, their coins, and μ of each as the ledger books it, or 1 where that is not known."""

    values: Reals
    included: NDArray[np.bool_]
    expected: Reals


@dataclass(frozen=True)
class CanarySignals:
    """What the canaries that send in a round send if they are in: aᵢdᵢ, dᵢ being `ways`[i] times the row `signs`[i].

    `places` are theirs among the senders, `costs` what the ledger books for them, and `half` is ½Σ aᵢdᵢ."""

    places: NDArray[np.int64]
    devices: DeviceIds
    costs: Reals
    amplitudes: Reals
    signs: Sequence[Tensor]
    ways: Tensor
    half: Tensor

    @classmethod
    def of(cls, canaries: Canaries, plan: RoundPlan, indices: Tensor | None, *, bound: float) -> "CanarySignals":
        """Those of a plan; `bound` is the norm bound on ideal links, ητC₁."""
        places = canaries.among(plan.sending)
        devices = plan.sending[places]
        levels = np.full(len(plan.sending), bound) if plan.air is None else plan.air.levels * plan.air.bound
        learned = np.full(len(devices), plan.round) if plan.echo.turns is None else plan.echo.turns[places]
        signs = canaries.signs(devices.tolist(), indices)
        width = canaries.dimension if indices is None else len(indices)
        ways, half = canaries.turned(devices, learned) / math.sqrt(width), torch.zeros(width)
        weights = torch.from_numpy(levels[places] / 2).float() * ways
        for block, rows in _blocks(signs):
            half += weights[block] @ rows
        return cls(places, devices, plan.event.server_costs[places], levels[places], signs, ways, half)

    def along(self, seen: Tensor) -> Reals:
        """How long what is seen, less half of all signals, is along each canary's direction; `seen` is one vector for
        all, or one row per sender, of which each has half of its own signal taken off."""
        single, found = seen.dim() > 1, torch.zeros(len(self.places))
        for block, rows in _blocks(self.signs):
            found[block] = (
                (seen[torch.from_numpy(self.places[block])] * rows).sum(1) if single else rows @ (seen - self.half)
            )
        lengths: Reals = (found * self.ways).double().numpy()
        return lengths - self.amplitudes / 2 if single else lengths


def _blocks(signs: Sequence[Tensor]) -> Iterator[tuple[slice, Tensor]]:
    """The rows in blocks, as floats: all of them at once would take more memory than all else."""
    size = max(1, BLOCK // max(len(signs[0]), 1)) if signs else 1
    for start in range(0, len(signs), size):
        block = slice(start, min(start + size, len(signs)))
        yield block, torch.stack(list(signs[block])).float()


@dataclass
class KnownSenders:
    """The scores of an observer who knows who sends, and at what level.

    A score is the log-likelihood ratio of a canary's two coins if the plan is right, Σ aᵢ⟨y − y₀ − ½Σ aⱼdⱼ, dᵢ⟩/σ² over
    the rounds in which it sends: y₀ is what the real devices send, whose data the observer is taken to know, and aⱼdⱼ
    what canary j sends if it is in, as half of them are. Only the weights aᵢ/σ² rest on the plan; y is what was sent.
    """

    first: int
    sums: Reals
    mu_squared: Reals

    @classmethod
    def of(cls, canaries: Canaries) -> "KnownSenders":
        """Before the first round."""
        return cls(canaries.first, np.zeros(canaries.count), np.zeros(canaries.count))

    def add(self, signals: CanarySignals, seen: Tensor) -> None:
        """One more round: `seen` is y − y₀ on the coordinates that were sent, or one row per upload."""
        mine = signals.devices - self.first
        self.sums[mine] += signals.costs / signals.amplitudes * signals.along(seen)
        self.mu_squared[mine] += signals.costs

    def scores(self, coins: Coins) -> Scores:
        """In standard deviations of the noise, of those canaries that have sent."""
        sent = self.mu_squared > 0
        mu = np.sqrt(self.mu_squared[sent])
        return Scores(self.sums[sent] / mu, coins[sent], mu)


@dataclass
class HiddenSenders:
    """The scores of an observer who sees the models and does not know who sends: the same sum over all rounds, with
    nothing taken off. `sums` is that of the rounds, for every way in which canaries turn around."""

    canaries: Canaries
    bound: float
    sums: Tensor
    squares: float = 0.0

    @classmethod
    def of(cls, canaries: Canaries, *, bound: float) -> "HiddenSenders":
        """Before the first round; `bound` is ητC₁."""
        return cls(canaries, bound, torch.zeros(PATTERNS, canaries.dimension, dtype=torch.float64))

    def add(self, plan: RoundPlan, indices: Tensor | None, estimate: Tensor) -> None:
        """One more round, whose estimate is the difference of two models."""
        z, air = plan.event.noise_multiplier, plan.air
        if z == 0 or not math.isfinite(plan.divisor if air is None else plan.divisor * air.beta):
            return  # nobody sent and nothing was added: the model stayed as it was
        width = len(estimate) if indices is None else len(indices)
        on = slice(None) if indices is None else indices.cpu()
        weight = plan.divisor / (z**2 * (self.bound if air is None else air.bound) * math.sqrt(width))
        found = estimate.cpu()[on].double() * weight
        self.sums[:, on] += self.canaries.patterns[:, plan.round].double().outer(found)
        self.squares += 1 / z**2

    def scores(self, coins: Coins) -> Scores:
        """Of all canaries: nobody knows who has sent."""
        devices = range(self.canaries.first, self.canaries.first + self.canaries.count)
        scale = 1 / math.sqrt(self.squares) if self.squares else 0.0
        found = [
            scale * float(self.canaries.signs([device], None)[0].double() @ self.sums[i % PATTERNS])
            for i, device in enumerate(devices)
        ]
        return Scores(np.array(found), coins, np.ones(self.canaries.count))
