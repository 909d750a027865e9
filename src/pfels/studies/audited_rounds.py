"""The rounds of an audited training: played by the product itself, watched by the server and through the models.

Every round is played five times from the same model: with the canaries that the coins include; the same without noise;
without noise and with all canaries emptied; without noise with one canary alone; and like the second with one real
device emptied. What the first receives beyond the second is noise, beyond the third noise and canaries. What the fourth
receives beyond the third, and the second beyond the fifth, is what one device's data move, exactly.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pfels.experiment.setup import Experiment
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
from pfels.studies.worlds import Emptied, Heard, Moved, World, as_rows


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
    emptied: Emptied
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
        worlds = [World(load_scheme(name, setting), quiet, who) for who in (coins, nobody, one, coins)]
        models = HiddenSenders.of(canaries, bound=setting.bound) if hidden else KnownSenders.of(canaries)
        return cls(
            canaries, coins, worlds[0], worlds[1], worlds[2], KnownSenders.of(canaries), models, Moved(alone),
            Emptied(worlds[3]), RoundChecks(worlds[0].scheme, AuditedNoise(setting), Replay.of(experiment)),
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
        remembered = self.quiet.memory
        quiet, without, single = (
            world.play(theta, t, training(world.coins)) for world in (self.quiet, self.empty, self.single)
        )
        self.emptied.add(t, theta, training(self.coins), remembered, quiet)
        self._score(
            e.scheme, plan, indices, as_rows(plan, view, indices, dimension=len(theta)), without, result, memory
        )
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
