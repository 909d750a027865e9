"""The rounds of an audited training: played by the product itself, watched by the server and through the models.

Every round is played three times from the same model: with the canaries that the coins include; without noise and with
all of them emptied; and without noise with one canary alone. What the first receives beyond the second is noise and
canaries. What the third receives beyond the second is what one device's data move, exactly.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfels.arrays import Reals
from pfels.experiment.setup import Experiment
from pfels.schemes.memory import Memory
from pfels.schemes.plan import RoundPlan, RoundResult
from pfels.schemes.registry import load_scheme
from pfels.schemes.round import ServerView, play
from pfels.schemes.scheme import Scheme
from pfels.studies.canaries import PATTERNS, Canaries, CanaryTraining, Coins, QuietDraws
from pfels.uplink.compression import lift


@dataclass(frozen=True)
class Heard:
    """A round as one world played it: its plan, its index set, and what the server received, without noise."""

    plan: RoundPlan
    indices: Tensor | None
    seen: Tensor


@dataclass
class World:
    """The same training without noise, with other coins: its own scheme and its own memory."""

    scheme: Scheme
    draws: QuietDraws
    coins: Coins
    memory: Memory = field(default_factory=Memory)

    def play(self, theta: Tensor, t: int, training: CanaryTraining) -> Heard:
        """Play round t from the model θ."""
        plan, view = self.scheme.prepare(self.draws, t), ServerView()
        indices = self.scheme.indices(self.draws, theta, t)
        result = play(self.scheme, self.draws, plan, theta, training, memory=self.memory, view=view)
        self.memory = self.memory.after(plan, result)
        return Heard(plan, indices, _seen(view, plan, indices, dimension=self.draws.setting.dimension))


@dataclass
class AuditedRounds:
    """Plays rounds, and adds up every canary's score in both views.

    The server's score is the log-likelihood ratio of a canary's two coins if the plan is right, Σ aᵢ⟨y − y₀ − ½Σ aⱼdⱼ,
    dᵢ⟩/σ² over the rounds in which it sends: y₀ is what the real devices send, which the server is taken to know, and
    aⱼdⱼ what canary j sends if it is in, as half of them are. Where devices upload one by one, y is the canary's own
    upload. The score of the models is the same sum over all rounds, for those who do not know who sends and take
    nothing off. Only the weights rest on what the plan says; the signals are those that were sent.
    """

    canaries: Canaries
    coins: Coins
    empty: World
    alone: World
    mu_squared: Reals
    server: Reals
    models: Tensor
    models_squared: float = 0.0
    alone_moved: float = 0.0
    alone_booked: float = 0.0
    alone_times: int = 0

    @classmethod
    def of(cls, experiment: Experiment, canaries: Canaries, *, alone: int) -> "AuditedRounds":
        """For a training with these canaries; `alone` is the one that is watched by itself."""
        setting, draws = experiment.setting, experiment.draws
        quiet = QuietDraws(setting, draws.seed, draws.noise_seed, draws.device, start=draws.start)
        nobody = np.zeros(canaries.count, np.bool_)
        one = nobody.copy()
        one[alone - canaries.first] = True
        empty, single = (World(load_scheme(experiment.config.scheme, setting), quiet, coins) for coins in (nobody, one))
        zeros = np.zeros(canaries.count)
        models = torch.zeros(PATTERNS, setting.dimension, dtype=torch.float64)
        return cls(canaries, canaries.coins(), empty, single, zeros, zeros.copy(), models)

    def __call__(self, e: Experiment, plan: RoundPlan, theta: Tensor, memory: Memory) -> RoundResult:
        """Play a round: what the loop asks for."""
        t, view = plan.round, ServerView()
        indices = e.scheme.indices(e.draws, theta, t)
        learned: dict[int, tuple[Tensor, float]] = {}

        def training(coins: Coins) -> CanaryTraining:
            bound = e.setting.bound
            return CanaryTraining(
                **vars(e.training),
                canaries=self.canaries,
                included=coins,
                bound=bound,
                round=t,
                indices=indices,
                learned=learned,
            )

        result = play(e.scheme, e.draws, plan, theta, training(self.coins), memory=memory, view=view)
        without = self.empty.play(theta, t, training(self.empty.coins))
        alone = self.alone.play(theta, t, training(self.alone.coins))
        seen = _seen(view, plan, indices, dimension=e.setting.dimension)
        self._score_server(plan, indices, seen, without)
        self._score_models(plan, indices, result.estimate)
        self._add_alone(alone, without)
        return result

    def _score_server(self, plan: RoundPlan, indices: Tensor | None, seen: Tensor, without: Heard) -> None:
        places = self.canaries.among(plan.sending)
        if not len(places):
            return
        who, cost = plan.sending[places], plan.event.server_costs[places]
        learned = np.full(len(who), plan.round) if plan.turns is None else plan.turns[places]
        directions = self.canaries.directions(who.tolist(), indices) * self.canaries.turned(who, learned).unsqueeze(1)
        amplitudes = _amplitudes(plan, self.empty.draws.setting.bound)[places]
        halves = torch.from_numpy(amplitudes / 2).float()
        if plan.air is None:
            found = (seen[torch.from_numpy(places)].cpu() * directions).sum(1) - halves
        else:
            rest = (seen - without.seen if seen.shape == without.seen.shape else seen).cpu()
            rest = rest if indices is None else rest[indices.cpu()]
            found = directions @ (rest - halves @ directions)
        mine = who - self.canaries.first
        self.server[mine] += cost / amplitudes * found.double().numpy()
        self.mu_squared[mine] += cost

    def _score_models(self, plan: RoundPlan, indices: Tensor | None, estimate: Tensor) -> None:
        z = plan.event.noise_multiplier
        level = 1.0 if plan.air is None else plan.air.beta
        bound = self.empty.draws.setting.bound if plan.air is None else plan.air.bound
        if z == 0 or not math.isfinite(level * plan.divisor):
            return  # nobody sent and nothing was added: the model stayed as it was
        width = len(estimate) if indices is None else len(indices)
        on = slice(None) if indices is None else indices.cpu()
        found = estimate.cpu()[on].double() * (plan.divisor / (z**2 * bound * math.sqrt(width)))
        self.models[:, on] += self.canaries.patterns[:, plan.round].double().outer(found)
        self.models_squared += 1 / z**2

    def _add_alone(self, alone: Heard, without: Heard) -> None:
        """What one canary's data move in units of the noise, and what the ledger books for it."""
        plan, first = alone.plan, self.canaries.first
        setting, device = self.alone.draws.setting, first + int(np.flatnonzero(self.alone.coins)[0])
        here = np.flatnonzero(plan.sending == device)
        self.alone_booked += float(plan.event.server_costs[here].sum())
        self.alone_times += len(here)
        if alone.seen.shape != without.seen.shape:
            self.alone_moved = math.inf  # who sends follows the updates
            return
        noise = setting.bound * plan.event.server_noise_multiplier
        if plan.air is not None:
            noise = plan.air.noise_std(setting.noise_std, width=plan.subcarriers)
        moved = float((alone.seen - without.seen).double().norm())
        self.alone_moved += 0.0 if moved == 0 else (moved / noise) ** 2

    def model_scores(self) -> Reals:
        """Every canary's score from the released models."""
        if self.models_squared == 0:
            return np.zeros(self.canaries.count)
        scale = math.sqrt(self.canaries.dimension / self.models_squared)
        found = [
            float(self.canaries.directions([self.canaries.first + i], None)[0].double() @ self.models[i % PATTERNS])
            for i in range(self.canaries.count)
        ]
        return scale * np.array(found)

    def server_scores(self) -> Reals:
        """Every canary's score from the server's view, in standard deviations of the noise; 0 if it never sent."""
        mu = np.sqrt(self.mu_squared)
        return np.divide(self.server, mu, out=np.zeros_like(mu), where=mu > 0)


def _amplitudes(plan: RoundPlan, bound: float) -> NDArray[np.float64]:
    """The norm with which each sender's update arrives if it is at its bound."""
    return np.full(len(plan.sending), bound) if plan.air is None else plan.air.levels * plan.air.bound


def _seen(view: ServerView, plan: RoundPlan, indices: Tensor | None, *, dimension: int) -> Tensor:
    """What the server saw: the received sum on all coordinates, or one row per upload."""
    if view.received is not None:
        return lift(view.received, indices, dimension=dimension)
    return torch.cat(view.uploads) if view.uploads else torch.zeros(0, dimension)
