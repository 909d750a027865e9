"""A training's links without the training: every round settled by the scheme itself, totals kept as rounds go by."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from pfels.accountant import ServerLedger
from pfels.channel import Gains, Reals, slots
from pfels.cohort import Ids
from pfels.fading import Fading, observe
from pfels.ledger import Ledger
from pfels.link import Link
from pfels.schemes import load_scheme
from pfels.system import System

T = TypeVar("T")


@dataclass(frozen=True)
class SharedDraws(System):
    """A system that keeps the draws of the round it was last asked about, so that many schemes cost one drawing."""

    @classmethod
    def of(cls, system: System) -> "SharedDraws":
        """The same system, with that memory."""
        return cls(**{each.name: getattr(system, each.name) for each in fields(system)})

    @cached_property
    def _kept(self) -> dict[str, tuple[int, Ids | None, Any]]:
        return {}

    def _once(self, what: str, t: int, devices: Ids | None, draw: Callable[[], T]) -> T:
        last = self._kept.get(what)
        if last is None or last[0] != t or last[1] is not devices:
            last = self._kept[what] = (t, devices, draw())
        drawn: T = last[2]
        return drawn

    def cohort(self, t: int) -> Ids:
        """The devices drawn for round t."""
        return self._once("cohort", t, None, lambda: System.cohort(self, t))

    def gains(self, t: int, devices: Ids) -> Gains:
        """The complex channel of each device in round t."""
        return self._once("gains", t, devices, lambda: System.gains(self, t, devices))

    def powers(self, devices: Ids) -> Reals:
        """The power limit of each device."""
        return self._once("powers", 0, devices, lambda: System.powers(self, devices))


@dataclass
class Outlook:
    """What a scheme's rounds will use up: β, noise multipliers, limits, and all that a ledger holds."""

    devices: int
    betas: list[float] = field(default_factory=list)
    noise_multipliers: list[float] = field(default_factory=list)
    limits: Counter[str] = field(default_factory=Counter)
    energies: list[float] = field(default_factory=list)
    subcarriers: int = 0
    slots: int = 0
    cohort_dependent: bool = False
    claimed_epsilon: float | None = None

    def __post_init__(self) -> None:
        self._mu_squared, self._participations = np.zeros(self.devices), np.zeros(self.devices, np.int64)

    def add(self, link: Link, *, subcarriers: int) -> None:
        """Count one more round, sent in slots of so many subcarriers."""
        event = link.event
        if link.air is not None:
            if math.isfinite(link.air.beta):
                self.betas.append(link.air.beta)
                self.limits[link.air.limit] += 1
            self.energies.append(math.fsum(link.air.energy_bounds))
        if event.participants:
            who, seen = np.array(event.participants), event.server_noise_multiplier
            self.noise_multipliers.append(event.noise_multiplier)
            self._mu_squared[who] += math.inf if seen == 0 else seen**-2
            self._participations[who] += 1
        self.subcarriers += link.subcarriers
        self.slots += slots(link.subcarriers, subcarriers=subcarriers)
        self.cohort_dependent = self.cohort_dependent or event.cohort_dependent
        self.claimed_epsilon = link.claimed_epsilon

    def ledger(self) -> Ledger:
        """The ledger of a run of these rounds, but for the energy that only a training can tell."""
        ids = np.flatnonzero(self._participations)
        return Ledger(
            server=ServerLedger(self.devices, ids, self._mu_squared[ids], self._participations[ids]),
            noise_multipliers=Counter(self.noise_multipliers),
            energy_bound=math.fsum(self.energies) if self.energies else None,
            subcarriers=self.subcarriers,
            slots=self.slots,
            privacy_limited_rounds=self.limits["privacy"],
            cohort_dependent=self.cohort_dependent,
            claimed_epsilon=self.claimed_epsilon,
        )


@dataclass(frozen=True)
class Foresight:
    """The outlook of each scheme, and what the channel deals all of them."""

    outlooks: Mapping[str, Outlook]
    fading: Fading


def foresee(system: System, schemes: Sequence[str], *, rounds: int, subcarriers: int) -> Foresight:
    """All rounds of these schemes on one system, prepared as a run would prepare them, with nobody training."""
    shared = SharedDraws.of(system)
    loaded = {name: load_scheme(name) for name in schemes}
    outlooks = {name: Outlook(system.devices) for name in schemes}
    dealt = []
    for t in range(rounds):
        for name, scheme in loaded.items():
            outlooks[name].add(scheme.prepare(shared, t), subcarriers=subcarriers)
        dealt.append(observe(shared, t))
    return Foresight(outlooks, Fading.of(dealt))
