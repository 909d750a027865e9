"""The score of every canary: how much what an observer sees looks as if the canary were in."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfels.arrays import Reals
from pfels.schemes.plan import RoundPlan
from pfels.studies.canaries import PATTERNS, Canaries, Coins


@dataclass(frozen=True)
class Scores:
    """The scores of some canaries, their coins, and μ of each as the ledger books it, or 1 where that is not known."""

    values: Reals
    included: NDArray[np.bool_]
    expected: Reals


@dataclass
class KnownSenders:
    """The scores of an observer who knows who sends, and at what level.

    A score is the log-likelihood ratio of a canary's two coins if the plan is right, Σ aᵢ⟨y − y₀ − ½Σ aⱼdⱼ, dᵢ⟩/σ² over
    the rounds in which it sends: y₀ is what the real devices send, whose data the observer is taken to know, and aⱼdⱼ
    what canary j sends if it is in, as half of them are. Only the weights aᵢ/σ² rest on the plan; y is what was sent.
    """

    canaries: Canaries
    bound: float
    sums: Reals
    mu_squared: Reals

    @classmethod
    def of(cls, canaries: Canaries, *, bound: float) -> "KnownSenders":
        """Before the first round; `bound` is ητC₁."""
        return cls(canaries, bound, np.zeros(canaries.count), np.zeros(canaries.count))

    def add(self, plan: RoundPlan, indices: Tensor | None, seen: Tensor) -> None:
        """One more round: `seen` is y − y₀ on all coordinates, or one row per upload where each is seen by itself."""
        places = self.canaries.among(plan.sending)
        if not len(places):
            return
        who, cost, amplitudes = plan.sending[places], plan.event.server_costs[places], self._amplitudes(plan)[places]
        learned = np.full(len(who), plan.round) if plan.turns is None else plan.turns[places]
        directions = self.canaries.directions(who.tolist(), indices) * self.canaries.turned(who, learned).unsqueeze(1)
        halves = torch.from_numpy(amplitudes / 2).float()
        rest = seen.cpu() if indices is None else seen.cpu()[..., indices.cpu()]
        if rest.dim() == 1:
            found = directions @ (rest - halves @ directions)
        else:
            found = (rest[torch.from_numpy(places)] * directions).sum(1) - halves
        mine = who - self.canaries.first
        self.sums[mine] += cost / amplitudes * found.double().numpy()
        self.mu_squared[mine] += cost

    def scores(self, coins: Coins) -> Scores:
        """In standard deviations of the noise, of those canaries that have sent."""
        sent = self.mu_squared > 0
        mu = np.sqrt(self.mu_squared[sent])
        return Scores(self.sums[sent] / mu, coins[sent], mu)

    def _amplitudes(self, plan: RoundPlan) -> Reals:
        """The norm with which each sender's update arrives if it is at its bound."""
        return np.full(len(plan.sending), self.bound) if plan.air is None else plan.air.levels * plan.air.bound


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
        scale = math.sqrt(self.canaries.dimension / self.squares) if self.squares else 0.0
        found = [
            scale * float(self.canaries.directions([device], None)[0].double() @ self.sums[i % PATTERNS])
            for i, device in enumerate(devices)
        ]
        return Scores(np.array(found), coins, np.ones(self.canaries.count))
