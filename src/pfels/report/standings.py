"""Who is best, among groups that can be compared: equal data and rounds, and above chance. What seeds leave open stays
undecided."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pfels.data.catalog import find
from pfels.documents.studies import AggregateRow
from pfels.report import text
from pfels.report.groups import Comparison, Group
from pfels.report.privacy_words import USELESS, word
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


@dataclass(frozen=True)
class Highlight:
    """The best figure of one kind, and whose it is; `notes` say what is undecided and under which conditions."""

    title: str
    value: str
    who: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """One kind of figure: its name, that of the best one, its values by seed, and how it is shown, with notes."""

    name: str
    best: str
    figures: Callable[[Group], Figures]
    shown: Callable[[Group, AggregateRow], tuple[str, ...]]
    highest: bool = False
    exact: bool = False


def _accuracy(group: Group, row: AggregateRow) -> tuple[str, ...]:
    value, plus_minus, error = text.accuracy(row).partition(" ± ")
    notes = (f"± {error}, standard error" if plus_minus else "one seed", "at chance level")
    return value, *(notes if at_chance(group) else notes[:1])


def _epsilon(group: Group, row: AggregateRow) -> tuple[str, ...]:
    figure = row["privacy"]["server"]
    conditions = f"worst device, δ = {figure['delta']:g}, neighbours: {figure['neighbours']}"
    worth = f"{word(figure['epsilon'])} by convention" if group.audited else "not audited"
    return text.epsilon(figure), worth, conditions


def _energy(group: Group, row: AggregateRow) -> tuple[str, ...]:
    mean = row["energy"]["mean"] if row["energy"] is not None else 0.0
    return text.joules(mean * group.joules_per_energy), f"Σ‖x‖² = {text.scientific(mean)} σ₀²"


def _uses(group: Group, row: AggregateRow) -> tuple[str, ...]:
    return (f"{row['subcarriers']:,.0f}",)


ACCURACY = Kind("Test accuracy", "Highest test accuracy", accuracies, _accuracy, highest=True)
ON_AIR = replace(ACCURACY, best="Highest test accuracy over the air")
EPSILON = Kind("ε against the server", "Smallest ε against the server", server_epsilon, _epsilon, exact=True)
ENERGY = Kind("Energy radiated", "Least energy radiated", energies, _energy)
USES = Kind("Channel uses", "Fewest channel uses", channel_uses, _uses, exact=True)


def highlights(comparison: Comparison) -> list[Highlight]:
    """The figures to see first. One group that there is nothing to compare with has its own, whatever they are."""
    finished = [group for group in comparison.groups if group.finished]
    groups = finished if len(finished) == 1 else list(field(comparison).groups)
    if len(groups) == 1:
        group, row = groups[0], groups[0].row
        assert row is not None
        found = [kind for kind in (ACCURACY, EPSILON, ENERGY, USES) if kind.figures(group)]
        return [Highlight(kind.name, *_split(kind.shown(group, row), group.label)) for kind in found]
    on_air = [group for group in groups if energies(group)]
    deltas = {group.config.delta for group in groups}  # ε at different δ cannot be compared
    cards = [
        _best(ACCURACY, groups),
        _best(ON_AIR, on_air if len(on_air) < len(groups) else []),
        _best(EPSILON, groups if len(deltas) == 1 else []),
        _best(ENERGY, on_air),
        _best(USES, groups),
    ]
    return [card for card in cards if card is not None]


def _best(kind: Kind, groups: Sequence[Group]) -> Highlight | None:
    found = standing([(group, kind.figures(group)) for group in groups], highest=kind.highest, exact=kind.exact)
    if found is None or (row := found.best.row) is None:
        return None
    who = text.some([group.label for group in (found.best, *found.equal)], most=3)
    value, who, notes = _split(kind.shown(found.best, row), who)
    undecided = text.some([group.label for group in found.undecided], most=3)
    return Highlight(kind.best, value, who, (*((f"undecided against {undecided}",) if undecided else ()), *notes))


def _split(shown: tuple[str, ...], who: str) -> tuple[str, str, tuple[str, ...]]:
    return shown[0], who, shown[1:]
