"""Who is best, among groups that can be compared: equal data and rounds, and above chance. What seeds leave open stays
undecided."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pfels.data.catalog import find
from pfels.report.groups import Comparison, Group
from pfels.report.privacy_words import USELESS
from pfels.studies.verdicts import DECISIVE, Margin, Verdict, exactly, paired

Figures = Mapping[int, float]  # of one group, by seed
AT_CHANCE = "at chance level"


@dataclass(frozen=True)
class Field:
    """The groups of a comparison that can be compared, and why each other one cannot."""

    groups: Sequence[Group]
    left_out: Sequence[tuple[Group, str]]


@dataclass(frozen=True)
class Standing:
    """The best group, those with the very same figure, and those that are not further away than chance may put them."""

    best: Group
    equal: Sequence[Group]
    undecided: Sequence[Group]

    @property
    def leaders(self) -> list[Group]:
        """All of them, the best first."""
        return [self.best, *self.equal, *self.undecided]


def field(comparison: Comparison) -> Field:
    """Finished groups with the number of rounds that most of them have, or the larger one; not those at chance."""
    finished = [group for group in comparison.groups if group.finished]
    counts = [group.rounds for group in finished]
    rounds = max(counts, key=lambda count: (counts.count(count), count), default=0)
    reasons = [(group, _reason(group, rounds)) for group in comparison.groups]
    return Field([group for group, why in reasons if not why], [(group, why) for group, why in reasons if why])


def _reason(group: Group, rounds: int) -> str:
    if not group.finished:
        return "unfinished"
    if group.rounds != rounds:
        return f"{group.rounds:,} rounds, not {rounds:,}"
    return AT_CHANCE if at_chance(group) else ""


def at_chance(group: Group) -> bool:
    """Whether the accuracy is not above guessing by more than two standard errors of the test examples.

    A run of an earlier version does not say how often the most frequent class occurs: there, one over the number of
    classes stands for it, and for data of the user's own nothing does.
    """
    row, summary = group.row, group.runs[0].summary
    if row is None or summary is None:
        return False
    chance, count = summary.get("chance"), summary.get("test_examples")
    if chance is None:
        chance = 0.0 if group.config.data.name == "file" else 1 / find(group.config.data.name).classes
    error = math.sqrt(chance * (1 - chance) / count) if count else 0.0
    return row["accuracy"]["mean"] <= chance + DECISIVE * error


def is_private(group: Group) -> bool:
    """Whether it has a proven ε against the server that is of any use."""
    figure = group.row and group.row["privacy"]["server"]
    return bool(figure and figure["valid"] and figure["epsilon"] is not None and figure["epsilon"] <= USELESS)


def accuracies(group: Group) -> Figures:
    """The test accuracy of each seed."""
    return {run.config.seed: run.summary["accuracy"] for run in group.runs if run.summary is not None}


def energies(group: Group) -> Figures:
    """What the devices radiate in joules, of each seed; nothing for ideal links."""
    unit = group.joules_per_energy
    found = {run.config.seed: run.summary["energy"] for run in group.runs if run.summary is not None}
    return {seed: unit * energy for seed, energy in found.items() if energy is not None}


def channel_uses(group: Group) -> Figures:
    """The channel uses of each seed."""
    return {run.config.seed: float(run.summary["subcarriers"]) for run in group.runs if run.summary is not None}


def server_epsilon(group: Group) -> Figures:
    """ε against the server of the worst device in the worst seed, which is a bound for every seed."""
    value = group.row and group.row["privacy"]["server"]["epsilon"]
    return {} if value is None else {run.config.seed: float(value) for run in group.runs}


def standing(found: Sequence[tuple[Group, Figures]], *, highest: bool = False, exact: bool = False) -> Standing | None:
    """The group with the best mean, and which others may be as good; None where no group has such a figure.

    Seeds that two groups share are compared pairwise. An `exact` figure owes nothing to chance.
    """
    known = [(group, figures) for group, figures in found if figures]
    if not known:
        return None
    sign = 1 if highest else -1
    best, its = max(known, key=lambda pair: sign * _mean(pair[1]))
    others = [
        (group, exactly(sign * (_mean(its) - _mean(figures))) if exact else _margin(its, figures, sign=sign))
        for group, figures in known
        if group is not best
    ]
    equal = [group for group, margin in others if margin == exactly(0.0)]
    open_ = [group for group, margin in others if margin.verdict != Verdict.HOLDS and group not in equal]
    return Standing(best, equal, open_)


def _mean(figures: Figures) -> float:
    return sum(figures.values()) / len(figures)


def _margin(one: Figures, other: Figures, *, sign: int) -> Margin:
    """By how much the one is better than the other, over the seeds that both have; undecided where there is none."""
    seeds = sorted(set(one) & set(other))
    if not seeds:
        return Margin(0.0, None)
    return paired([sign * one[seed] for seed in seeds], [sign * other[seed] for seed in seeds])
