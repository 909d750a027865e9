"""A training's links without the training: every round settled by the scheme itself, totals kept as rounds go by."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import Gains, Ids, Reals
from pfels.experiment.ledger import Ledger
from pfels.privacy.accountant import ServerLedger
from pfels.schemes.plan import Link
from pfels.schemes.registry import load_scheme
from pfels.schemes.system import System
from pfels.seeding import BLOCK
from pfels.uplink.channel import slots

T = TypeVar("T")
D = TypeVar("D", bound=np.generic)


class Draws:
    """The draws of systems that draw alike, so that many schemes cost one drawing.

    Gains and powers are kept by blocks of devices, as the seed tree deals them. Powers never change and stay; what
    belongs to a round goes after two more.
    """

    def __init__(self) -> None:
        self._rounds: dict[int, dict[Any, Any]] = {}
        self._always: dict[Any, Any] = {}

    def once(self, t: int | None, key: Any, draw: Callable[[], T]) -> T:
        """What was drawn by that key in round t, or once and for all, or what `draw` draws now."""
        kept = self._always if t is None else self._rounds.setdefault(t, {})
        if key not in kept:
            kept[key] = draw()
        if len(self._rounds) > 3:
            del self._rounds[next(iter(self._rounds))]
        drawn: T = kept[key]
        return drawn


@dataclass(frozen=True)
class SharedDraws(System):
    """A system that takes its cohorts, gains and powers from draws that it shares with others."""

    draws: Draws = field(default_factory=Draws)

    @classmethod
    def of(cls, system: System, draws: Draws) -> "SharedDraws":
        """The same system on these draws."""
        return cls(**{each.name: getattr(system, each.name) for each in fields(system)}, draws=draws)

    def cohort(self, t: int) -> Ids:
        """The devices drawn for round t."""
        return self.draws.once(t, self.sampling, lambda: System.cohort(self, t))

    def gains(self, t: int, devices: Ids) -> Gains:
        """The complex channel of each device in round t."""
        return self._by_block(t, "gains", devices, lambda block: System.gains(self, t, block))

    def powers(self, devices: Ids) -> Reals:
        """The power limit of each device."""
        return self._by_block(None, "powers", devices, lambda block: System.powers(self, block))

    def _by_block(self, t: int | None, what: str, devices: Ids, draw: Callable[[Ids], NDArray[D]]) -> NDArray[D]:
        if self.devices <= BLOCK:
            return self._block(t, what, 0, draw)[devices]
        drawn = np.resize(draw(devices[:0]), len(devices))
        for i in np.unique(devices // BLOCK).tolist():
            inside = devices // BLOCK == i
            drawn[inside] = self._block(t, what, i, draw)[devices[inside] - i * BLOCK]
        return drawn

    def _block(self, t: int | None, what: str, i: int, draw: Callable[[Ids], NDArray[D]]) -> NDArray[D]:
        last = min((i + 1) * BLOCK, self.devices)
        return self.draws.once(t, (what, i), lambda: draw(np.arange(i * BLOCK, last)))


def _law(system: System) -> tuple[Any, ...]:
    """All that the draws depend on, but for the sampling, by which cohorts are told apart."""
    names = ("seed", "devices", "cohort_size", "dimension", "noise_std", "gain_law", "snr_law")
    return tuple(getattr(system, name) for name in names)


@dataclass
class Outlook:
    """What a scheme's rounds will use up: β, noise multipliers, limits, and all that a ledger holds.

    Where nobody sends and nothing limits β, it is infinite, and no limit is counted.
    """

    devices: int
    betas: list[float] = field(default_factory=list)
    noise_multipliers: list[float] = field(default_factory=list)
    limits: Counter[str] = field(default_factory=Counter)
    energies: list[float] = field(default_factory=list)
    subcarriers: int = 0
    slots: int = 0
    silent: int = 0
    cohort_dependent: bool = False
    claimed_epsilon: float | None = None

    def __post_init__(self) -> None:
        self._mu_squared, self._participations = np.zeros(self.devices), np.zeros(self.devices, np.int64)

    def add(self, link: Link, *, subcarriers: int) -> None:
        """Count one more round, sent in slots of so many subcarriers."""
        event = link.event
        if link.air is not None:
            self.betas.append(link.air.beta)
            self.limits[link.air.limit] += math.isfinite(link.air.beta)
            self.energies.append(math.fsum(link.air.energy_bounds))
        if event.participants or event.noise_multiplier > 0:
            self.noise_multipliers.append(event.noise_multiplier)
        if event.participants:
            who, seen = np.array(event.participants), event.server_noise_multiplier
            self._mu_squared[who] += math.inf if seen == 0 else seen**-2
            self._participations[who] += 1
        self.subcarriers += link.subcarriers
        self.slots += slots(link.subcarriers, subcarriers=subcarriers)
        self.silent += len(link.cohort) - len(link.sending)
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
            silent=self.silent,
            privacy_limited_rounds=self.limits["privacy"],
            cohort_dependent=self.cohort_dependent,
            claimed_epsilon=self.claimed_epsilon,
        )


def foresee(systems: Mapping[str, System], *, rounds: int, subcarriers: int) -> dict[str, Outlook]:
    """The outlook of each scheme on its system: all rounds prepared as a run would, with nobody training.

    Systems that differ in nothing that is drawn share their draws.
    """
    draws: dict[tuple[Any, ...], Draws] = {}
    shared = {name: SharedDraws.of(system, draws.setdefault(_law(system), Draws())) for name, system in systems.items()}
    loaded = {name: load_scheme(name) for name in systems}
    outlooks = {name: Outlook(system.devices) for name, system in systems.items()}
    for t in range(rounds):
        for name, scheme in loaded.items():
            outlooks[name].add(scheme.prepare(shared[name], t), subcarriers=subcarriers)
    return outlooks
