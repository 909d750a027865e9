"""A training's rounds without the training: every round planned by the scheme itself, totals kept as they go by."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from pfels.config.tree import Config
from pfels.experiment.ledger import Ledger
from pfels.experiment.link import Link, frame_of, link_of
from pfels.privacy.accountant import ServerLedger
from pfels.privacy.spent import Tally
from pfels.schemes.draws import CachedDraws, DrawCache
from pfels.schemes.exposure import plan_round
from pfels.schemes.plan import RoundPlan
from pfels.schemes.setting import Setting
from pfels.uplink.frame import Frame

KEPT_GAINS = 2**21  # 32 MB: some schemes look at all rounds before the first one
Observer = Callable[[str, RoundPlan, CachedDraws], None]


@dataclass
class Forecast:
    """What a scheme's rounds will use: β, noise multipliers, limits, and all that a ledger holds.

    Where nobody sends and nothing limits β, it is infinite, and no limit is counted. `noise_powers` is E‖noise‖² in the
    server's estimate of each round, before any decoding, in units of (ητC₁)²; `sent_shares` is the sum over the rounds
    of the share of the coordinates that is sent.
    """

    setting: Setting
    betas: list[float] = field(default_factory=list)
    noise_multipliers: list[float] = field(default_factory=list)
    noise_powers: list[float] = field(default_factory=list)
    sent_shares: float = 0.0
    limits: Counter[str] = field(default_factory=Counter)
    energies: list[float] = field(default_factory=list)
    subcarriers: int = 0
    slots: int = 0
    silent: int = 0
    cohort_dependent: bool = False
    claimed_epsilon: float | None = None

    def __post_init__(self) -> None:
        devices = self.setting.devices
        self._mu_squared, self._participations = np.zeros(devices), np.zeros(devices, np.int64)

    def add(self, plan: RoundPlan, *, frame: Frame) -> None:
        """Add one more round, sent in slots of this frame."""
        event = plan.event
        if plan.air is not None:
            self.betas.append(plan.air.beta)
            self.limits[plan.air.limit] += math.isfinite(plan.air.beta)
            self.energies.append(math.fsum(plan.air.energy_bounds.tolist()))
        self._add_noise(plan)
        if event.participants or event.noise_multiplier > 0:
            self.noise_multipliers.append(event.noise_multiplier)
        if event.participants:
            self._mu_squared[plan.sending] += event.server_costs
            self._participations[plan.sending] += 1
        self.subcarriers += plan.subcarriers
        self.slots += frame.slots(plan.subcarriers)
        self.silent += len(plan.cohort) - len(plan.training)
        self.cohort_dependent = self.cohort_dependent or event.cohort_dependent
        self.claimed_epsilon = plan.claimed_epsilon

    def _add_noise(self, plan: RoundPlan) -> None:
        """Noise of standard deviation zs/n on each coordinate sent, where the server divides by n, and by the share of
        the subcarriers that fading leaves."""
        d, bound = self.setting.dimension, self.setting.bound
        width, s, divisor = d, bound, plan.divisor
        if plan.air is not None:
            width, s, divisor = plan.subcarriers, plan.air.bound, plan.divisor * plan.air.used_share
        self.noise_powers.append(width * (plan.event.noise_multiplier * s / (divisor * bound)) ** 2)
        self.sent_shares += width / d

    def ledger(self) -> Ledger:
        """The ledger of a run of these rounds, without the energy spent, which only a training can tell."""
        ids = np.flatnonzero(self._participations)
        return Ledger(
            server=ServerLedger(self.setting.devices, ids, self._mu_squared[ids], self._participations[ids]),
            noise_multipliers=Tally(dict(Counter(self.noise_multipliers))),
            energy_bound=math.fsum(self.energies) if self.energies else None,
            subcarriers=self.subcarriers,
            slots=self.slots,
            silent=self.silent,
            privacy_limited_rounds=self.limits["privacy"],
            cohort_dependent=self.cohort_dependent,
            claimed_epsilon=self.claimed_epsilon,
        )


def cached_draws(links: Mapping[str, Link]) -> dict[str, CachedDraws]:
    """The draws of each link. Links that differ in nothing that is drawn share what they draw."""
    caches: dict[tuple[object, ...], DrawCache] = {}
    cached: dict[str, CachedDraws] = {}
    for name, link in links.items():
        draws = CachedDraws(link.setting, link.draws.seed, cache=DrawCache(max(3, KEPT_GAINS // link.setting.devices)))
        cached[name] = replace(draws, cache=caches.setdefault(draws.law, draws.cache))
    return cached


def forecast(
    links: Mapping[str, Link],
    *,
    rounds: int,
    frame: Frame,
    draws: Mapping[str, CachedDraws] | None = None,
    observe: Observer = lambda name, plan, draws: None,
) -> dict[str, Forecast]:
    """The forecast of each link: all rounds prepared as a run would, with nobody training.

    `draws` are those of each link. `observe` sees every plan, with its link's name and draws.
    """
    cached = cached_draws(links) if draws is None else draws
    forecasts = {name: Forecast(link.setting) for name, link in links.items()}
    for t in range(rounds):
        for name, link in links.items():
            plan = plan_round(link.scheme, cached[name], t)
            forecasts[name].add(plan, frame=frame)
            observe(name, plan, cached[name])
    return forecasts


def forecast_run(config: Config) -> tuple[Setting, Ledger]:
    """The setting of a config, and the ledger that its run will end with, without the energy spent."""
    link = link_of(config)
    found = forecast({config.scheme: link}, rounds=config.rounds, frame=frame_of(config))
    return link.setting, found[config.scheme].ledger()
