"""The rounds of a training played otherwise: without noise, and with other data."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from pfels.schemes.exposure import plan_round
from pfels.schemes.memory import Memory
from pfels.schemes.plan import RoundPlan, RoundResult
from pfels.schemes.round import ServerView, play
from pfels.schemes.scheme import Scheme
from pfels.seeding import Purpose, generator
from pfels.studies.canaries import CanaryTraining, Coins, QuietDraws
from pfels.uplink.compression import lift

_EMPTIED = 6  # the round of the address of who is emptied


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
        heard, result = self.hear(theta, t, training, self.memory)
        self.memory = self.memory.after(heard.plan, result)
        return heard

    def hear(self, theta: Tensor, t: int, training: CanaryTraining, memory: Memory) -> tuple[Heard, RoundResult]:
        """Play it with this memory, and remember nothing."""
        plan, view = plan_round(self.scheme, self.draws, t), ServerView()
        indices = self.scheme.indices(self.draws, theta, plan.round)
        result = play(self.scheme, self.draws, plan, theta, training, memory=memory, view=view)
        return Heard(plan, view, as_rows(plan, view, indices, dimension=len(theta))), result


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
        self.mu_squared += apart(alone, without, noise_std=noise_std, bound=bound)


@dataclass
class Emptied:
    """One real device after the other, each in one round, with its data and without: by how much that moves what is
    received at most, over what the ledger books for that round. `ratio` is of two μ."""

    world: World
    rounds: int = 0
    ratio: float = 0.0
    device: int | None = None
    round: int | None = None

    def add(self, t: int, theta: Tensor, training: CanaryTraining, memory: Memory, quiet: Heard) -> None:
        """One more round, which `quiet` has played from this memory with all data."""
        among = np.flatnonzero(quiet.plan.training < training.canaries.first)
        if not len(among):
            return
        place = int(generator(self.world.draws.seed, Purpose.CANARY, round=_EMPTIED, device=t).choice(among))
        device, setting = int(quiet.plan.training[place]), self.world.draws.setting
        nothing = replace(training, learned={**training.learned, device: (torch.zeros_like(theta), 0.0)})
        kept = memory.devices.get(device)
        if kept is not None and kept.used_until is None:  # what it could not send before was of its data too
            memory = replace(memory, devices={i: each for i, each in memory.devices.items() if i != device})
        without, _ = self.world.hear(theta, t, nothing, memory)
        moved = apart(quiet, without, noise_std=setting.noise_std, bound=setting.bound)
        booked = float(quiet.plan.event.server_costs[place])
        ratio = math.sqrt(moved / booked) if booked else (math.inf if moved else 0.0)
        self.rounds += 1
        if ratio > self.ratio:
            self.ratio, self.device, self.round = ratio, device, t


def apart(one: Heard, other: Heard, *, noise_std: float, bound: float) -> float:
    """How far two plays of a round are apart, squared, over the variance of the noise: over the air that of the
    channel, on ideal links what the plan says. Infinite where who sends differs."""
    plan = one.plan
    if one.seen.shape != other.seen.shape:
        return math.inf
    noise = bound * plan.event.server_noise_multiplier
    if plan.air is not None:
        noise = plan.air.noise_std(noise_std, width=plan.subcarriers)
    moved = float((one.seen - other.seen).double().norm())
    return (moved / noise) ** 2 if moved else 0.0


def as_rows(plan: RoundPlan, view: ServerView, indices: Tensor | None, *, dimension: int) -> Tensor:
    """What the server saw: the received sum on all coordinates, or one row per upload."""
    if plan.air is not None and view.received is not None:
        return lift(view.received, indices, dimension=dimension)
    rows = torch.cat(view.uploads) if view.uploads else torch.zeros(0, dimension)
    if indices is None or not view.uploads:
        return rows
    full = rows.new_zeros(len(rows), dimension)
    full[:, indices] = rows
    return full
