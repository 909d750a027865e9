"""The privacy table of a report: one column per adversary, each with δ, the neighbours, and what it assumes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pfels.documents.privacy import ExplainedFigure, RunPrivacy
from pfels.privacy.events import Adversary, Neighbours
from pfels.report import text
from pfels.report.groups import Comparison, Group
from pfels.report.privacy import Figures, figures, who
from pfels.report.privacy_words import word
from pfels.schemes.registry import scheme_entry

_MISSING = {
    "claimed": "no such claim is made", "exact": "no noise hides the updates",
    "blind-server": "on ideal links the server sees who sends",
}  # fmt: skip
SMALL_DELTA = 1e-5
WHOLE, ROUND = "whole training", "one round"
COLUMNS = {
    "server": ("Server", WHOLE, Adversary.SERVER.sentence),
    "blind-server": ("Blind server", WHOLE, Adversary.BLIND_SERVER.sentence),
    "outsider": ("Outsider", WHOLE, Adversary.OUTSIDER.sentence),
    "claimed": ("Paper's claim", ROUND, Adversary.SERVER.sentence),
    "exact": ("Paper's argument", ROUND, Adversary.OUTSIDER.sentence),
}  # title, period, adversary
_UNFINISHED = "not known yet: the run is unfinished"
_LARGER = "the bound that counts on sampling is above the server's figure, which holds against an outsider too"


@dataclass(frozen=True)
class FigureRow:
    """One group's figure, as text: `word` is what it is worth, `small` what it is at δ = 1e-5, where that is known."""

    group: Group
    epsilon: str
    delta: str
    neighbours: str
    guarantee: str
    word: str
    small: str = ""


@dataclass(frozen=True)
class Reason:
    """A sentence below a table, and the groups it is about."""

    who: str
    why: str


@dataclass(frozen=True)
class AdversaryColumn:
    """The figures against one adversary, one row per group.

    `assumes` is what a guarantee rests on. `relations` explains every neighbouring relation of the column; `delta` is
    None where the rows differ in it. `period` says whether the figures are for the whole training or for one round.
    """

    key: str
    title: str
    period: str
    adversary: str
    note: str
    assumes: str
    rows: Sequence[FigureRow]
    reasons: Sequence[Reason]
    relations: Mapping[str, str]
    delta: str | None


def adversary_columns(comparison: Comparison) -> list[AdversaryColumn]:
    """Every privacy figure of the groups; a blind server's only where some group has one that is proven."""
    found = figures(comparison)
    columns = [
        _column("server", found["server"],
                "The figure is that of the worst device in the worst seed." + _carried(comparison)),
        _column("blind-server", found["blind-server"],
                "Where no smaller figure is known, the server's applies. Over the air only."),
        _column("outsider", found["outsider"],
                "Who took part is hidden from an outsider, which can make ε smaller. Where no smaller figure is known, "
                "the server's applies, because an outsider sees less." + _drawn(comparison)),
        _column("claimed", found["claimed"],
                "This is the paper's own figure, kept for comparison; it does not cover the whole training."),
        _column("exact", found["exact"],
                "The argument behind the claim without its approximations, for the round with the minimum noise."),
    ]  # fmt: skip
    blind = any(figure["valid"] for _, figure in found["blind-server"] if figure and figure["epsilon"] is not None)
    return [column for column in columns if blind or column.key != "blind-server"]


def _column(key: str, found: Figures, note: str) -> AdversaryColumn:
    """One adversary's column; a sentence that several rows share stands below it once, with the rows it is about."""
    rows: list[FigureRow] = []
    reasons: dict[str, list[Group]] = {}
    relations: dict[str, str] = {}
    for group, figure in found:
        if figure is None:
            rows.append(FigureRow(group, text.NONE, text.NONE, text.NONE, text.NONE, ""))
            reasons.setdefault(_MISSING[key] if group.finished else _UNFINISHED, []).append(group)
            continue
        server = _server_instead(group, figure) if key in ("blind-server", "outsider") else None
        larger = server is not None and figure["epsilon"] is not None and figure["valid"]
        reasons.setdefault(_LARGER if larger else figure["why"], []).append(group)
        row = _row(group, server or figure, key, as_server=server is not None)
        if row.neighbours != text.NONE:
            relations[row.neighbours] = Neighbours(row.neighbours).sentence
        rows.append(row)
    deltas = {row.delta for row in rows} - {text.NONE}
    everyone = [group for group, _ in found]
    return AdversaryColumn(
        key, *COLUMNS[key], note,
        assumes="" if key == "claimed" else _assumptions(rows),
        rows=rows,
        reasons=[Reason(who(some, everyone), why) for why, some in reasons.items()],
        relations=relations,
        delta=deltas.pop() if len(deltas) == 1 else None,
    )  # fmt: skip


def _row(group: Group, figure: ExplainedFigure, key: str, *, as_server: bool) -> FigureRow:
    epsilon = figure["epsilon"]
    if epsilon is None:
        return FigureRow(group, "none", text.NONE, text.NONE, "no", word(None))
    if key == "claimed":
        shown, worth = text.claimed_epsilon(figure), "within its proof" if figure["valid"] else "outside its proof"
    else:
        shown = text.AS_SERVER if as_server else text.epsilon(figure)
        worth = "not proven" if not figure["valid"] else "" if as_server or key == "exact" else word(epsilon)
    audited = key == "claimed" or group.audited
    if figure["valid"] and not audited:
        worth = "not audited"
    server = group.row["privacy"]["server"] if group.row is not None and key == "server" else None
    small = server.get("epsilon_at_1e-5") if server is not None and server["delta"] != SMALL_DELTA else None
    return FigureRow(
        group, shown, f"{figure['delta']:g}", figure["neighbours"], "yes" if figure["valid"] and audited else "no",
        worth,
        small="" if small is None else text.epsilon({"name": "δ = 1e-5", "epsilon": small}),
    )  # fmt: skip


def _server_instead(group: Group, figure: ExplainedFigure) -> ExplainedFigure | None:
    """The server's figure, where it is the best one known against somebody who sees less."""
    row = group.row
    if row is None:
        return None
    privacy: RunPrivacy = {**row["privacy"], "outsider": figure}
    return privacy["server"] if text.server_is_smaller(privacy) else None


def _assumptions(rows: Sequence[FigureRow]) -> str:
    """What the guarantees of a column rest on, where there is one."""
    proven = [row.group for row in rows if row.guarantee == "yes"]
    if not proven:
        return ""
    air, ideal = [g for g in proven if g.has_energy], [g for g in proven if not g.has_energy]
    on_air = "receiver noise ≥ σ₀, exact gains and one antenna (or as set), no eavesdropper"
    on_links = "every device's share of the noise"
    both = f"{on_air} (over the air), {on_links} (ideal links)"
    links = both if air and ideal else on_air if air else on_links
    noisy = {g.config.scheme: more for g in air if (more := scheme_entry(g.config.scheme).assumes)}
    also = "".join(f"; {name} also assumes that {more}" for name, more in noisy.items())
    return f"proven, assuming {links}, untuned settings and a secret seed{also}"


def _carriers(comparison: Comparison) -> list[str]:
    return sorted({run.environment["carrier"] for run in comparison.runs if "carrier" in run.environment})


def _drawn(comparison: Comparison) -> str:
    """What a deployment changes: those who take part know the seed, by which devices are drawn."""
    if not _carriers(comparison):
        return ""
    return " The cohorts follow from the seed, so the figure is about those who neither know nor can guess the seed."


def _carried(comparison: Comparison) -> str:
    """What a digital link changes: there the server could look at each signal before it adds them up."""
    carriers = _carriers(comparison)
    if not carriers:
        return ""
    return (
        f" The rounds were carried by {text.listed(carriers)}: the figure is about whoever sees only the noisy sums, "
        "as a radio receiver would; a server of this kind could look at single signals (docs/deployment.md)."
    )
