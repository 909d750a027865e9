"""What a comparison has found, in one sentence: who is best within error, at what cost, and what is undecided."""

from collections.abc import Sequence

from pfels.report import standings, text
from pfels.report.groups import Comparison, Group
from pfels.report.privacy_words import word
from pfels.report.standings import Standing

NAMED = 4  # leaders that the sentence names; of more, the best alone


def finding(comparison: Comparison) -> str:
    """The finding, as one sentence."""
    return sentence(clauses(comparison))


def sentence(parts: Sequence[str]) -> str:
    """Clauses as one sentence."""
    return "; ".join(parts) + "."


def clauses(comparison: Comparison) -> list[str]:
    """The clauses of the finding; the first one is the point of it."""
    field = standings.field(comparison)
    if len(field.groups) > 1:
        return _of_several(field.groups)
    if field.groups:
        return _of_one(field.groups[0], alone=len(comparison.groups) == 1)
    chance = [group.label for group, why in field.left_out if why == standings.AT_CHANCE]
    if chance:
        return [f"No run has learned anything: {text.some(chance)} at chance level"]
    return ["No run is finished, so there is nothing to compare yet"]


def _of_one(group: Group, *, alone: bool) -> list[str]:
    reached = f"{group.label} reached a test accuracy of {_accuracy(group)} in {group.rounds:,} rounds"
    parts = [f"{reached}, for {_cost(group)}", _privacy([group]), *_not_audited([group])]
    return parts if alone else [*parts, "there is nothing to compare it with"]


def _of_several(groups: Sequence[Group]) -> list[str]:
    private = [group for group in groups if standings.is_private(group)]
    pool = private or list(groups)
    found = _most_accurate(pool)
    parts = [_lead(found, pool), _costs(found), _privacy(found.leaders), *_not_audited(groups)]
    others = [group for group in groups if group not in pool]
    if others:
        best = _most_accurate(others).best
        parts.append(f"without such a guarantee {best.label} reaches {_accuracy(best)}")
    return [part for part in parts if part]


def _most_accurate(groups: Sequence[Group]) -> Standing:
    found = standings.standing([(group, standings.accuracies(group)) for group in groups], highest=True)
    assert found is not None, "finished groups have accuracies"
    return found


def _lead(found: Standing, pool: Sequence[Group]) -> str:
    """Who is best, and whether that is decided."""
    best, leaders, among = found.best, found.leaders, _among(pool)
    if len(pool) == 1:
        return f"Only {best.label} has a privacy guarantee against the server, and a test accuracy of {_accuracy(best)}"
    if max(len(group.runs) for group in pool) == 1:
        return (
            f"Undecided, since one seed cannot tell a difference from chance: the highest test accuracy {among} is "
            f"{_accuracy(best)}, of {best.label}"
        )
    if len(leaders) == 1:
        return (
            f"{best.label} has the highest test accuracy {among}, {_accuracy(best)}, by more than two standard errors"
        )
    if len(leaders) == len(pool):
        return (
            f"Undecided: all {among} are within two standard errors of the highest test accuracy, "
            f"{_accuracy(best)}, of {best.label}"
        )
    named = [f"{group.label} ({_accuracy(group)})" for group in leaders]
    if len(leaders) > NAMED:
        return f"The highest test accuracy {among}, undecided against {len(leaders) - 1} others, is that of {named[0]}"
    return f"The highest test accuracies {among} are those of {text.listed(named)}, undecided between them"


def _costs(found: Standing) -> str:
    """What the best costs, or which of the best costs least."""
    leaders = found.leaders
    if len(leaders) == 1:
        return f"that took {_cost(found.best)}"
    if len(leaders) > NAMED:
        return f"it took {_cost(found.best)}"
    parts = []
    energy = standings.standing([(group, standings.energies(group)) for group in leaders])
    uses = standings.standing([(group, standings.channel_uses(group)) for group in leaders], exact=True)
    if energy is not None:
        mean = text.joules(_mean(standings.energies(energy.best)))
        who = text.some([group.label for group in energy.leaders], most=NAMED)
        verb = "radiates" if len(energy.leaders) == 1 else "(undecided) radiate"
        parts.append(f"of these {who} {verb} the least energy, {mean}")
    if uses is not None:
        who = text.some([group.label for group in uses.leaders], most=NAMED)
        verb = "has" if len(uses.leaders) == 1 else "have"
        parts.append(f"{who} {verb} the fewest channel uses, {_mean(standings.channel_uses(uses.best)):,.0f}")
    return ", and ".join(parts)


def _cost(group: Group) -> str:
    energy, uses = standings.energies(group), f"{_mean(standings.channel_uses(group)):,.0f} channel uses"
    return f"{text.joules(_mean(energy))} radiated and {uses}" if energy else uses


def _privacy(groups: Sequence[Group]) -> str:
    """ε against the server of these groups, in a word; nothing where their δ differ."""
    figures = [group.row["privacy"]["server"] for group in groups if group.row is not None]
    deltas = {figure["delta"] for figure in figures}
    if any(figure["epsilon"] is None or not figure["valid"] for figure in figures):
        return "no ε holds against the server"
    if len(deltas) != 1:
        return ""
    worst = max(figures, key=lambda figure: figure["epsilon"] or 0.0)
    at_most = "ε" if len(groups) == 1 else "the largest of their ε"
    return (
        f"{at_most} against the server, {text.epsilon(worst)} at δ = {deltas.pop():g} (neighbours: "
        f"{worst['neighbours']}), is {word(worst['epsilon'])} by convention"
    )


def _not_audited(groups: Sequence[Group]) -> list[str]:
    """Whose ε nothing has tested."""
    foreign = [group.label for group in groups if not group.audited]
    return [f"not audited, so that nothing vouches for its figures: {text.some(foreign)}"] if foreign else []


def _among(pool: Sequence[Group]) -> str:
    schemes = len({group.config.scheme for group in pool}) == len(pool)
    noun = "schemes" if schemes else "configurations"
    guarantee = " with a privacy guarantee against the server" if standings.is_private(pool[0]) else ""
    return f"of the {len(pool)} {noun}{guarantee}"


def _accuracy(group: Group) -> str:
    return text.accuracy(group.row) if group.row is not None else text.NONE


def _mean(figures: standings.Figures) -> float:
    return sum(figures.values()) / len(figures)
