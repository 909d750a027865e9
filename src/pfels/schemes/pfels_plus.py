"""PFELS+: the paper's idea with its gaps closed (docs/pfels-plus.md says why each step is sound).

Poisson cohorts; a second clip after the projection, to s = √p·ητC₁; one public level β from a budget for the whole
training; a device whose channel cannot carry it, or is too weak to be worth its energy, stays silent; and a divisor
that everybody knows beforehand.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr

from pfels.arrays import DeviceIds, Gains, Reals
from pfels.privacy.accountant import blind_server_loss, outsider_loss, server_loss
from pfels.privacy.calibration import RequiredNoise, calibrate, participation_cap
from pfels.privacy.events import Adversary, Sampling, beta_at, noise_multiplier_at
from pfels.privacy.gaussian import mu_squared
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.carried import carried_shares
from pfels.schemes.draws import Draws
from pfels.schemes.feedback import unsent, with_memory
from pfels.schemes.memory import Memory
from pfels.schemes.participation import ParticipationCount
from pfels.schemes.plan import AirLink, RoundPlan
from pfels.schemes.setting import Setting
from pfels.training.updates import LocalUpdates
from pfels.uplink.clipping import clip
from pfels.uplink.compression import lift, project
from pfels.uplink.power import best_carried_level, can_transmit


@dataclass(frozen=True)
class PublicLevel:
    """What everybody knows before the first round: the level β and the limit that set it, the noise multiplier, the
    norm bound s of what is sent, the share of devices whose channel carries β, and how often a device may send (None:
    no cap)."""

    beta: float
    limit: str
    noise_multiplier: float
    bound: float
    carried: float
    cap: int | None


def public_level(setting: Setting) -> PublicLevel:
    """The level of a whole training, from the budget and the laws of the channel alone: it depends on nobody."""
    s = math.sqrt(setting.share) * setting.bound
    z, cap = _noise_and_cap(setting)
    strongest = s * setting.cell.margin  # what a device whose gain is underestimated may arrive with, at β = 1

    def carried(beta: float) -> float:
        return float(carried_shares(setting, beta * s).mean())

    allowed = beta_at(noise_multiplier=z, bound=strongest, noise_std=setting.noise_std)
    beta = best_carried_level(beta=allowed, carried=carried)
    limit = "privacy" if beta == allowed else "power"
    multiplier = noise_multiplier_at(beta=beta, bound=strongest, noise_std=setting.noise_std)
    return PublicLevel(beta, limit, multiplier, s, carried(beta), cap)


def _noise_and_cap(setting: Setting) -> tuple[float, int | None]:
    """The minimum noise multiplier that meets the budget, and how often a device may send for it to be met."""
    budget, cap = setting.budget, None
    if budget.adversary is Adversary.SERVER:
        cap = participation_cap(rounds=setting.rounds, rate=setting.cohort_size / setting.devices)
    found = calibrate(
        adversary=budget.adversary, epsilon=budget.epsilon, delta=setting.delta, rounds=setting.rounds,
        devices=setting.devices, cohort=setting.cohort_size, sampling=Sampling.POISSON, participations=cap,
        exposure=1.0 if budget.adversary is Adversary.OUTSIDER else setting.cell.exposure_bound,
    )  # fmt: skip
    return found.noise_multiplier * (1 + 1e-9), cap  # so that the rounding of a running sum spends no more


def create(setting: Setting) -> "PfelsPlus":
    """PFELS+ for a setting: its public level is found here, once."""
    kind = PfelsPlusWithFeedback if setting.error_feedback else PfelsPlus
    return kind(setting, public_level(setting), ParticipationCount())


@dataclass(frozen=True)
class PfelsPlus:
    """PFELS+ at its public level; `sent` counts how often each device has sent."""

    setting: Setting
    level: PublicLevel
    sent: ParticipationCount

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """Who is drawn for round t and who of them sends, at the one level of the whole training."""
        level, (sending, h, P) = self.level, self._able(draws, t)
        if level.cap is not None:
            below = self.sent.below(level.cap, t, sending, lambda u: self._able(draws, u)[0], draws=draws)
            sending, h, P = sending[below], h[below], P[below]
        # share = 1: every single transmission stays within its power limit, not only the average one
        air = AirLink(h, P, level.beta, level.limit, bound=level.bound, share=1.0)
        return RoundPlan.over_air(
            self.setting, t, draws.cohort(t), air, width=self.setting.kept, sending=sending,
            divisor=self.expected_transmitters(t), cohort_dependent=False,
        )  # fmt: skip

    def indices(self, draws: Draws, theta: Tensor, t: int) -> Tensor:
        """The index set of round t, from the shared seed and, with public-top-k, the models already released."""
        return draws.index_set(t, theta)

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """The signals of devices that have trained: clipped, projected, clipped again, scaled."""
        delta = clip(part.updates, bound=self.setting.bound)
        return plan.transmit(clip(project(delta, A), bound=self.level.bound), part.places)

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """The server's estimate of the mean update."""
        return lift(y, A, dimension=self.setting.dimension) / (plan.divisor * self.level.beta)

    def expected_transmitters(self, t: int) -> float:
        """The expected number of senders in round t: the public divisor."""
        s, level = self.setting, self.level
        rate = s.cohort_size / s.devices * level.carried
        left = 1.0
        if level.cap is not None and t >= level.cap:  # before, nobody can have sent so often
            left = float(bdtr(level.cap - 1, t, rate))  # the binomial distribution function
        return max(s.devices * rate * left, 1.0)

    def required_noise(self) -> RequiredNoise:
        """The noise at the public level, and its privacy loss: less than the budget where power limits the level."""
        s, z, times = self.setting, self.level.noise_multiplier, self.level.cap or self.setting.rounds
        cost = s.cell.exposure_bound * mu_squared(z, times=times)
        loss = server_loss(mu_squared=cost, participations=times, delta=s.delta)
        if s.budget.adversary is not Adversary.SERVER:
            loss = outsider_loss(
                {z: s.rounds}, devices=s.devices, cohort=s.cohort_size, sampling=s.sampling, delta=s.delta
            )
        if s.budget.adversary is Adversary.BLIND_SERVER:
            loss = blind_server_loss(loss, sampling=s.sampling, on_air=True, antennas=s.cell.antennas)
        return RequiredNoise(z, self.level.beta, loss)

    def _able(self, draws: Draws, t: int) -> tuple[DeviceIds, Gains, Reals]:
        """Devices drawn in round t whose channel carries β, with their gains and power limits."""
        cohort = draws.cohort(t)
        h, P = draws.gains(t, cohort), draws.powers(cohort)
        able = can_transmit(h, P, beta=self.level.beta, bound=self.level.bound)
        able &= np.abs(h) >= self.setting.cell.silent_below
        return cohort[able], h[able], P[able]


@dataclass(frozen=True)
class PfelsPlusWithFeedback(PfelsPlus):
    """PFELS+ with error feedback: what projection or silence held back is added to the device's next update."""

    def send_and_keep(
        self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None, memory: Memory
    ) -> tuple[Tensor, Tensor]:
        """The signals, and what projection left out."""
        delta = with_memory(part, plan.sending, memory, bound=self.setting.bound)
        signals = plan.transmit(clip(project(delta, A), bound=self.level.bound), part.places)
        return signals, unsent(delta, A)

    def keep(self, plan: RoundPlan, part: LocalUpdates, memory: Memory) -> Tensor:
        """Devices that were drawn and stay silent keep their whole update."""
        return with_memory(part, plan.waiting, memory, bound=self.setting.bound)
