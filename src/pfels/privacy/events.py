"""What a round released, who may look at it, and what the paper claims for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from enum import StrEnum
from typing import TYPE_CHECKING, Self, TypeVar

from pfels.errors import InputError
from pfels.privacy.checks import require_cohort, require_noise_multiplier

if TYPE_CHECKING:
    from pfels.arrays import Reals
    from pfels.documents.privacy import ExplainedFigure, Figure


OWN_NOISE = "the other devices add no noise"  # an assumption's name, for schemes whose devices add noise


class Adversary(StrEnum):
    """Who tries to learn about a device's data from what it sees."""

    SERVER = "server"
    BLIND_SERVER = "blind-server"
    OUTSIDER = "outsider"

    @property
    def sentence(self) -> str:
        """What this adversary sees, for a reader who never saw the project."""
        return {
            Adversary.SERVER: "the server, honest but curious, which knows the cohort, the gains and β of every round",
            Adversary.BLIND_SERVER: "a blind server, which sees every received sum with one antenna and does not learn "
            "who sends: devices flip their own coins and send no pilots",
            Adversary.OUTSIDER: "an outsider, who sees every released model and knows everything except who was drawn",
        }[self]


class Neighbours(StrEnum):
    """Which two worlds the adversary must not be able to tell apart. Device-emptied is also called zero-out, add-remove
    unbounded, and replace-one bounded or substitution."""

    DEVICE_EMPTIED = "device-emptied"
    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    @property
    def sentence(self) -> str:
        """The two worlds, and by how much a sum of updates of norm at most s moves between them."""
        return {
            Neighbours.DEVICE_EMPTIED: "one device's data is emptied and it sends zero: the sum moves by at most s",
            Neighbours.ADD_REMOVE: "one device is added or removed: the sum moves by at most s",
            Neighbours.REPLACE_ONE: "one device is replaced by another: the sum moves by at most 2s",
        }[self]


class Sampling(StrEnum):
    """How a cohort is drawn: exactly r of N devices, each device independently with probability r/N, or in turns, one
    of ⌊N/r⌋ groups after the other."""

    WITHOUT_REPLACEMENT = "without-replacement"
    POISSON = "poisson"
    TURNS = "turns"


def turn_groups(*, devices: int, cohort: int) -> int:
    """g = ⌊N/r⌋, the number of groups that take turns: a device has a turn every g rounds."""
    require_cohort(devices=devices, cohort=cohort)
    if devices // cohort < 2:
        raise InputError(f"cohort = {cohort}: turns need at least 2 groups, so at most {devices // 2} of {devices}")
    return devices // cohort


def turns_per_device(*, devices: int, cohort: int, rounds: int) -> int:
    """⌈T/g⌉, the maximum number of turns that a device has in T rounds."""
    return -(-rounds // turn_groups(devices=devices, cohort=cohort))


@dataclass(frozen=True)
class RoundEvent:
    """What one round released: all that an accountant may know about it.

    A noise multiplier is the noise's standard deviation over the norm bound s of one device's part: z = σ₀/(βs).
    `noise_multiplier` is that of the released sum. `server_noise_multiplier` is that of what the server sees of a
    single device: the same over the air, less by √r where noisy updates arrive one by one. Zero means no noise.
    `cohort_dependent` says that the noise level depends on who was drawn. `cohort_size` is r, which under Poisson
    sampling is the expected number; `participants` are those who took part. What participant i sends is at most
    `weights[i]`·s long; without weights, s. `exposures[i]` is by how much the server's other antennas raise what that
    costs participant i; without exposures there is one antenna.
    """

    noise_multiplier: float
    server_noise_multiplier: float
    devices: int
    cohort_size: int
    sampling: Sampling
    participants: tuple[int, ...]
    cohort_dependent: bool
    weights: tuple[float, ...] | None = None
    exposures: tuple[float, ...] | None = None

    @property
    def server_costs(self) -> Reals:
        """μ² = (w/z)², times the exposure, that this round costs each participant against the server."""
        import numpy as np  # which the config and the help do without, as they do without SciPy

        from pfels.privacy.gaussian import mu_squared

        cost = mu_squared(self.server_noise_multiplier)
        costs = np.full(len(self.participants), cost) if self.weights is None else cost * np.array(self.weights) ** 2
        return costs if self.exposures is None else costs * np.array(self.exposures)

    def __post_init__(self) -> None:
        require_cohort(devices=self.devices, cohort=self.cohort_size)
        for name in ("noise_multiplier", "server_noise_multiplier"):
            if getattr(self, name) != 0:
                require_noise_multiplier(name, getattr(self, name))
        who = self.participants
        if len(set(who)) != len(who) or (who and not 0 <= min(who) <= max(who) < self.devices):
            raise InputError(f"participants: must be different ids from 0 to {self.devices - 1}")
        if self.weights is not None and not (len(self.weights) == len(who) and _within(self.weights, 0.0, 1.0)):
            raise InputError(f"weights: must be one number in (0, 1] for each of {len(who)} participants")
        if self.exposures is not None and not (len(self.exposures) == len(who) and all(e >= 1 for e in self.exposures)):
            raise InputError(f"exposures: must be one number from 1 on for each of {len(who)} participants")
        if self.sampling is Sampling.WITHOUT_REPLACEMENT and len(who) > self.cohort_size:
            raise InputError(f"participants: {len(who)} took part, must be at most the cohort of {self.cohort_size}")


def _within(values: tuple[float, ...], above: float, most: float) -> bool:
    """Whether all values are in (above, most]; quick, because echo has hundreds of them in every round."""
    return not values or (above < min(values) and max(values) <= most and not math.isnan(math.fsum(values)))


def rounded_up(value: float, *, digits: int) -> float:
    """The smallest number of `digits` significant digits that is not below an upper bound.

    >>> rounded_up(5.4411, digits=3)
    5.45
    """
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, *, digits: int) -> float:
    """The largest number of `digits` significant digits that is not above a lower bound.

    >>> rounded_down(5.4419, digits=3)
    5.44
    """
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, how: str) -> float:
    if value <= 0 or not math.isfinite(value):
        return value
    return float(Context(prec=digits, rounding=how).create_decimal(repr(float(value))))


@dataclass(frozen=True)
class PrivacyLoss:
    """An (ε, δ) with all that it means nothing without; ε is an upper bound, or None and the reason why not."""

    adversary: Adversary
    neighbours: Neighbours
    delta: float
    epsilon: float | None
    accountant: str
    why: str
    participations: int | None = None

    @classmethod
    def read(cls, figure: ExplainedFigure) -> Self:
        """The loss that a figure for JSON describes."""
        return cls(
            Adversary(figure["adversary"]),
            Neighbours(figure["neighbours"]),
            figure["delta"],
            figure["epsilon"],
            figure.get("accountant", "none"),
            figure["why"],
            figure.get("participations"),
        )

    @property
    def exceeds_100(self) -> bool:
        """Whether the bound is past 100, where ε promises nothing that anybody could use."""
        return self.epsilon is not None and self.epsilon > 100

    @property
    def display(self) -> str:
        """ε as a reader should see it."""
        if self.epsilon is None:
            return "none"
        if not self.exceeds_100:
            return f"{rounded_up(self.epsilon, digits=4):.4g}"
        # For fixed-size cohorts the bound may be well above the loss, so that nothing is known to pass 100.
        known = "no bound below 100" if self.neighbours is Neighbours.REPLACE_ONE else "more than 100"
        return f"{known} (at most {math.ceil(self.epsilon):,})"

    def short(self) -> Figure:
        """The figure without its sentences, for a line of a log."""
        figure: Figure = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adversary": self.adversary.value,
            "neighbours": self.neighbours.value,
            "valid": self.epsilon is not None,
        }
        if self.epsilon is not None and self.participations is not None:
            figure["participations"] = self.participations
        return figure

    def as_dict(self) -> ExplainedFigure:
        """The figure for JSON: `reason` in place of an accountant where there is none."""
        figure: ExplainedFigure = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adversary": self.adversary.value,
            "neighbours": self.neighbours.value,
            "valid": self.epsilon is not None,
            "why": self.why,
        }
        if self.epsilon is None:
            return {**figure, "reason": self.why}
        if self.participations is not None:
            figure["participations"] = self.participations
        return {
            **figure, "accountant": self.accountant, "exceeds_100": self.exceeds_100, "display": self.display
        }  # fmt: skip


Level = TypeVar("Level", float, "Reals")


def noise_multiplier_at(*, beta: Level, bound: float, noise_std: float) -> Level:
    """z = σ₀/(βs) of updates of norm at most s = `bound` that arrive at level β, for one β or an array; 0 where β is
    infinite."""
    if not (beta if isinstance(beta, float) else beta.min(initial=math.inf)) > 0:
        raise InputError(f"beta = {beta}: must be above 0")
    return noise_std / (beta * bound)


def beta_at(*, noise_multiplier: float, bound: float, noise_std: float) -> float:
    """β = σ₀/(zs), the level at which updates of norm at most s = `bound` have noise multiplier z."""
    require_noise_multiplier("noise_multiplier", noise_multiplier)
    return noise_std / (noise_multiplier * bound)
