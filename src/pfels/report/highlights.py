"""The tiles of a report: the best figure of each kind, among groups that can be compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pfels.documents.studies import AggregateRow
from pfels.report import standings, text
from pfels.report.groups import Comparison, Group
from pfels.report.privacy_words import word


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
    figures: Callable[[Group], standings.Figures]
    shown: Callable[[Group, AggregateRow], tuple[str, ...]]
    highest: bool = False
    exact: bool = False


def _accuracy(group: Group, row: AggregateRow) -> tuple[str, ...]:
    value, plus_minus, error = text.accuracy(row).partition(" ± ")
    notes = (f"± {error}, standard error" if plus_minus else "one seed", "at chance level")
    return value, *(notes if standings.at_chance(group) else notes[:1])


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


ACCURACY = Kind("Test accuracy", "Highest test accuracy", standings.accuracies, _accuracy, highest=True)
ON_AIR = replace(ACCURACY, best="Highest test accuracy over the air")
EPSILON = Kind("ε against the server", "Smallest ε against the server", standings.server_epsilon, _epsilon, exact=True)
ENERGY = Kind("Energy radiated", "Least energy radiated", standings.energies, _energy)
USES = Kind("Channel uses", "Fewest channel uses", standings.channel_uses, _uses, exact=True)


def highlights(comparison: Comparison) -> list[Highlight]:
    """The figures to see first. One group that there is nothing to compare with has its own, whatever they are."""
    finished = [group for group in comparison.groups if group.finished]
    groups = finished if len(finished) == 1 else list(standings.field(comparison).groups)
    if len(groups) == 1:
        group, row = groups[0], groups[0].row
        assert row is not None
        found = [kind for kind in (ACCURACY, EPSILON, ENERGY, USES) if kind.figures(group)]
        return [Highlight(kind.name, *_split(kind.shown(group, row), group.label)) for kind in found]
    on_air = [group for group in groups if standings.energies(group)]
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
    found = standings.standing(
        [(group, kind.figures(group)) for group in groups], highest=kind.highest, exact=kind.exact
    )
    if found is None or (row := found.best.row) is None:
        return None
    who = text.some([group.label for group in (found.best, *found.equal)], most=3)
    value, who, notes = _split(kind.shown(found.best, row), who)
    undecided = text.some([group.label for group in found.undecided], most=3)
    return Highlight(kind.best, value, who, (*((f"undecided against {undecided}",) if undecided else ()), *notes))


def _split(shown: tuple[str, ...], who: str) -> tuple[str, str, tuple[str, ...]]:
    return shown[0], who, shown[1:]
