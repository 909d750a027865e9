"""The rounds of an audited training: played by the product itself, watched by the server and through the models.

Every round is played four times from the same model: with the canaries that the coins include; the same without noise;
without noise and with all of them emptied; and without noise with one canary alone. What the first receives beyond the
second is noise, beyond the third noise and canaries. What the fourth receives beyond the third is what one device's
data move, exactly.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from pfels.experiment.setup import Experiment
from pfels.schemes.exposure import as_received
from pfels.schemes.memory import Memory
from pfels.schemes.plan import RoundPlan, RoundResult
from pfels.schemes.registry import load_scheme
from pfels.schemes.round import ServerView, play
from pfels.schemes.scheme import Scheme, decodes
from pfels.studies.audited_noise import AuditedNoise, Played
from pfels.studies.canaries import Canaries, CanaryTraining, Coins, QuietDraws
from pfels.studies.canary_scores import CanarySignals, HiddenSenders, KnownSenders
from pfels.studies.round_checks import RoundChecks
from pfels.studies.server_replay import Replay
from pfels.uplink.compression import lift


@dataclass(frozen=True)
class Heard:
    """A round as one world played it: its plan, and what the server saw, without noise: all of it, and as rows on all
    coordinates."""

    plan: RoundPlan
    view: ServerView
    seen: Tensor

    @property
    def sum(self) -> Tensor:
        """What the server received, added up."""
        return self.seen.sum(0) if self.plan.air is None else self.seen


@dataclass
class World:
    """The same training without noise, with other coins: its own scheme and its own memory."""

    scheme: Scheme
    draws: QuietDraws
    coins: Coins
    memory: Memory = field(default_factory=Memory)

    def play(self, theta: Tensor, t: int, training: CanaryTraining) -> Heard:
        """Play round t from the model θ."""
        plan, view = as_received(self.scheme.prepare(self.draws, t), self.draws), ServerView()
        indices = self.scheme.indices(self.draws, theta, plan.round)
        result = play(self.scheme, self.draws, plan, theta, training, memory=self.memory, view=view)
        self.memory = self.memory.after(plan, result)
        return Heard(plan, view, _seen(plan, view, indices, dimension=len(theta)))


@dataclass
class Moved:
    """Of one canary alone: Σ‖what it moves‖²/σ², what the ledger books for it, and how often it sent."""

    device: int
    mu_squared: float = 0.0
    booked: float = 0.0
    times: int = 0

    def add(self, alone: Heard, without: Heard, *, noise_std: float, bound: float) -> None:
        """One more round; over the air σ is that of the channel, on ideal links what the plan says."""
        plan = alone.plan
        here = np.flatnonzero(plan.sending == self.device)
        self.booked += float(plan.event.server_costs[here].sum())
        self.times += len(here)
        if alone.seen.shape != without.seen.shape:
            self.mu_squared = math.inf  # who sends follows the updates
            return
        noise = bound * plan.event.server_noise_multiplier
        if plan.air is not None:
            noise = plan.air.noise_std(noise_std, width=plan.subcarriers)
        moved = float((alone.seen - without.seen).double().norm())
        self.mu_squared += (moved / noise) ** 2 if moved else 0.0


@dataclass
class AuditedRounds:
    """Plays rounds, and adds up every canary's score in both views, and what one canary alone moves."""

    canaries: Canaries
    coins: Coins
    quiet: World
    empty: World
    single: World
    server: KnownSenders
    models: KnownSenders | HiddenSenders
    alone: Moved
    checks: RoundChecks

    @classmethod
    def of(cls, experiment: Experiment, canaries: Canaries, *, alone: int, hidden: bool) -> "AuditedRounds":
        """For a training with these canaries. `alone` is the one that is watched by itself; `hidden`: those who see
        the models do not know who sends."""
        setting, draws = experiment.setting, experiment.draws
        quiet = QuietDraws(setting, draws.seed, draws.device, start=draws.start)
        nobody = np.zeros(canaries.count, np.bool_)
        one = nobody.copy()
        one[alone - canaries.first] = True
        coins, name = canaries.coins(), experiment.config.scheme
        worlds = [World(load_scheme(name, setting), quiet, who) for who in (coins, nobody, one)]
        models = HiddenSenders.of(canaries, bound=setting.bound) if hidden else KnownSenders.of(canaries)
        return cls(
            canaries, coins, worlds[0], worlds[1], worlds[2], KnownSenders.of(canaries), models, Moved(alone),
            RoundChecks(worlds[0].scheme, AuditedNoise(setting), Replay.of(experiment)),
        )  # fmt: skip

    def __call__(self, e: Experiment, plan: RoundPlan, theta: Tensor, memory: Memory) -> RoundResult:
        """Play a round: what the loop asks for."""
        t, setting, view, before = self.checks.rounds, e.setting, ServerView(), theta.clone()
        indices = e.scheme.indices(e.draws, theta, plan.round)
        learned: dict[int, tuple[Tensor, float]] = {}

        def training(coins: Coins) -> CanaryTraining:
            return CanaryTraining(
                **vars(e.training), canaries=self.canaries, included=coins, bound=setting.bound, round=plan.round,
                indices=indices, learned=learned,
            )  # fmt: skip

        result = play(e.scheme, e.draws, plan, theta, training(self.coins), memory=memory, view=view)
        quiet, without, single = (
            world.play(theta, t, training(world.coins)) for world in (self.quiet, self.empty, self.single)
        )
        self._score(e.scheme, plan, indices, _seen(plan, view, indices, dimension=len(theta)), without, result, memory)
        self.alone.add(single, without, noise_std=setting.noise_std, bound=setting.bound)
        self.checks.add(
            Played(t, before, theta, plan, indices, result.estimate, noisy=view, quiet=quiet.view, beside=without.view)
        )
        return result

    def _score(  # noqa: PLR0917
        self,
        scheme: Scheme,
        plan: RoundPlan,
        indices: Tensor | None,
        seen: Tensor,
        without: Heard,
        result: RoundResult,
        memory: Memory,
    ) -> None:
        """Both observers' scores of a round; `seen` is what the server saw, with noise."""
        if isinstance(self.models, HiddenSenders):
            self.models.add(plan, indices, result.estimate)
        signals = CanarySignals.of(self.canaries, plan, indices, bound=self.empty.draws.setting.bound)
        if not len(signals.devices):
            return
        on = slice(None) if indices is None else indices
        beyond = seen - without.seen if seen.shape == without.seen.shape else seen
        self.server.add(signals, beyond[..., on].cpu())
        if isinstance(self.models, KnownSenders):
            undone = _undone(scheme, plan, result.estimate, indices, memory) - without.sum
            self.models.add(signals, undone[on].cpu())


def _seen(plan: RoundPlan, view: ServerView, indices: Tensor | None, *, dimension: int) -> Tensor:
    """What the server saw: the received sum on all coordinates, or one row per upload."""
    if plan.air is not None and view.received is not None:
        return lift(view.received, indices, dimension=dimension)
    rows = torch.cat(view.uploads) if view.uploads else torch.zeros(0, dimension)
    if indices is None or not view.uploads:
        return rows
    full = rows.new_zeros(len(rows), dimension)
    full[:, indices] = rows
    return full


def _undone(scheme: Scheme, plan: RoundPlan, estimate: Tensor, indices: Tensor | None, memory: Memory) -> Tensor:
    """The received sum from the estimate, which is the difference of two models, and from those before.

    What the server does to a sum, it does to each coordinate by itself, as ax + b with public a and b."""
    x = estimate * (plan.divisor * (1.0 if plan.air is None else plan.air.beta))
    if not decodes(scheme):
        return x
    on = slice(None) if indices is None else indices
    zeros = torch.zeros_like(x[on])
    shift = scheme.decode(plan, zeros, memory.decoded)
    slope = scheme.decode(plan, zeros + 1, memory.decoded) - shift
    x[on] = (x[on] - shift) / slope
    return x
