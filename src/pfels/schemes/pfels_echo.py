"""PFELS-echo: the matrix mechanism over the air (docs/echo.md has the proof).

Devices send in turns. What a device learns at its turn it sends again in later rounds with falling weights (its echo),
and the server takes the echoes out of what it receives. The receiver's noise is then negatively correlated over the
rounds, so that the models carry less of it, at the same privacy against the server and the same energy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from pfels.arrays import DeviceIds, Gains, Reals
from pfels.documents.studies import EchoPlan
from pfels.privacy.accountant import IN_TURNS, server_loss
from pfels.privacy.calibration import RequiredNoise
from pfels.privacy.events import Adversary, turns_per_device
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.draws import Draws
from pfels.schemes.echo_level import EchoLevel, echo_level, echo_plan, worst_cost
from pfels.schemes.memory import Memory
from pfels.schemes.plan import AirLink, Echo, RoundPlan
from pfels.schemes.setting import Setting
from pfels.training.updates import LocalUpdates
from pfels.uplink.clipping import clip
from pfels.uplink.compression import lift, project
from pfels.uplink.power import can_transmit


def create(setting: Setting) -> "PfelsEcho":
    """PFELS-echo for a setting: its public level is found here, once."""
    return PfelsEcho(setting, echo_level(setting))


@dataclass
class HeardAtTurn:
    """Which devices of earlier groups were heard at their turn, by round: a function of the draws, kept as long as they
    are the same."""

    devices: dict[int, DeviceIds] = field(default_factory=dict)
    draws: Draws | None = None


@dataclass(frozen=True)
class PfelsEcho:
    """PFELS-echo at its public level."""

    setting: Setting
    level: EchoLevel
    heard: HeardAtTurn = field(default_factory=HeardAtTurn)

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """Who has a turn in round t, whose echo is on the air, and who of them can send."""
        level, m = self.level, self.level.blocks
        turns = [self._heard(draws, t - j * m) for j in range(min(level.bands, t // m + 1))]
        ids = np.concatenate(turns)
        sizes = [len(turn) for turn in turns]
        weights = np.repeat(level.weights[: len(turns)], sizes)
        learned = np.repeat(t - m * np.arange(len(turns)), sizes)
        h, P = draws.gains(t, ids), draws.powers(ids)
        on = self._able(h, P, weights)
        air = AirLink(h[on], P[on], level.beta, level.limit, bound=level.bound, share=1.0, weights=weights[on])
        return RoundPlan.over_air(
            self.setting, t, draws.cohort(t), air, width=self._width(t), sending=ids[on], cohort_dependent=False,
            divisor=self.expected_transmitters, echo=Echo(len(turns[0]), t + (level.bands - 1) * m, learned[on]),
        )  # fmt: skip

    def indices(self, draws: Draws, theta: Tensor, t: int) -> Tensor | None:
        """The block of coordinates whose round it is."""
        return draws.block(t, self.level.blocks)

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """The signals of devices that have trained: clipped, cut to the block, clipped again, scaled."""
        return plan.transmit(self._learned(part, A), part.places)

    def send_and_keep(
        self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None, memory: Memory
    ) -> tuple[Tensor, Tensor]:
        """The signals, and v, which the devices will repeat."""
        v = self._learned(part, A)
        return plan.transmit(v, part.places), v

    def decode(self, plan: RoundPlan, y: Tensor, decoded: Mapping[int, Tensor]) -> Tensor:
        """The turn's own sum at level β: x(t) = (y(t) − Σⱼ cⱼqⱼ·x(t − jm))/c₀, with qⱼ the share expected at lag j."""
        level, x = self.level, y.clone()
        for j in range(1, level.bands):
            earlier = decoded.get(plan.round - j * level.blocks)
            if earlier is not None:  # before the first round there was nothing, and a round may have been lost
                x.sub_(earlier, alpha=float(level.weights[j] * level.heard[j]))
        return x.div_(float(level.weights[0]))

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """The server's estimate of the mean update, from the decoded sum."""
        return lift(y, A, dimension=self.setting.dimension) / (plan.divisor * self.level.beta)

    @property
    def expected_transmitters(self) -> float:
        """The expected number of devices heard at their turn: the public divisor."""
        return max(self.setting.devices / self.setting.groups * self.level.carried, 1.0)

    def echo_plan(self) -> EchoPlan:
        """How devices repeat, what that does to the noise, and what a simulation must keep."""
        return echo_plan(self.level, self.setting)

    def required_noise(self) -> RequiredNoise:
        """The noise at the public level, and its privacy loss: less than the budget where power limits the level."""
        s, z = self.setting, self.level.noise_multiplier
        turns = turns_per_device(devices=s.devices, cohort=s.cohort_size, rounds=s.rounds)
        cost = s.cell.exposure_bound * worst_cost(self.level, s) / z**2
        loss = server_loss(mu_squared=cost, participations=turns, delta=s.delta)
        if s.budget.adversary is not Adversary.SERVER:  # in turns nobody is hidden from anybody
            loss = replace(loss, adversary=s.budget.adversary, why=IN_TURNS)
        return RequiredNoise(z, self.level.beta, loss)

    def _learned(self, part: LocalUpdates, A: Tensor | None) -> Tensor:
        delta = clip(part.updates, bound=self.setting.bound)
        if A is None:  # one block, whose bound s = C/√1 is the one just kept to
            return delta
        return clip(project(delta, A), bound=self.level.bound)

    def _heard(self, draws: Draws, t: int) -> DeviceIds:
        """The devices whose turn is round t and whose channel of that round carries their signal."""
        if self.heard.draws is not draws:
            self.heard.devices, self.heard.draws = {}, draws
        if t not in self.heard.devices:
            cohort = draws.cohort(t)
            able = self._able(draws.gains(t, cohort), draws.powers(cohort), self.level.weights[:1])
            self.heard.devices[t] = cohort[able]
        return self.heard.devices[t]

    def _able(self, h: Gains, P: Reals, weights: Reals) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        able = can_transmit(h, P, beta=self.level.beta * weights, bound=self.level.bound)
        return able & (np.abs(h) >= self.setting.cell.silent_below)

    def _width(self, t: int) -> int:
        """How many coordinates the block of round t has: the first blocks have one more where they are not even."""
        d, m = self.setting.dimension, self.level.blocks
        return d // m + (t % m < d % m)
