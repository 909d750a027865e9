"""The privacy figures of a report: one table per adversary, each with δ, the neighbours, and what it assumes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pfels.documents.privacy import ExplainedFigure, Figure
from pfels.privacy.events import Adversary, Neighbours
from pfels.report import text
from pfels.report.groups import Comparison, Group

Figures = Sequence[tuple[Group, ExplainedFigure | None]]  # one kind of figure, group by group

_MISSING = {"claimed": "no such claim is made", "exact": "no noise hides the updates"}
_UNFINISHED = "not known yet: the run is unfinished"
_LARGER = "the bound that counts on sampling is above the server's figure, which holds against an outsider too"


@dataclass(frozen=True)
class FigureRow:
    """One group's figure, as text."""

    group: Group
    epsilon: str
    delta: str
    neighbours: str
    guarantee: str


@dataclass(frozen=True)
class Reason:
    """A sentence below a table, and the groups it is about."""

    who: str
    why: str


@dataclass(frozen=True)
class AdversaryTable:
    """The figures against one adversary.

    `column` heads the cells that say yes or no, `assumes` is what a yes means. `relations` explains every neighbouring
    relation of the table; `delta` is None where the rows differ in it.
    """

    key: str
    title: str
    adversary: str
    note: str
    column: str
    assumes: str
    rows: Sequence[FigureRow]
    reasons: Sequence[Reason]
    relations: Mapping[str, str]
    delta: str | None


@dataclass(frozen=True)
class DeviceSpread:
    """ε against the server over the devices of a group that took part, and the share that never did."""

    group: Group
    minimum: float
    median: float
    p90: float
    maximum: float
    never_took_part: float


def adversary_tables(comparison: Comparison) -> list[AdversaryTable]:
    """Every privacy figure of the groups."""
    found = figures(comparison)
    return [
        _table("server", "Against the server, over the whole training", Adversary.SERVER, found["server"],
               "The figure is that of the worst device in the worst seed." + _carried(comparison)),
        _table("outsider", "Against an outsider, over the whole training", Adversary.OUTSIDER, found["outsider"],
               "Who took part is hidden from an outsider, which can make ε smaller. Where no smaller figure is known, "
               "the server's applies, because an outsider sees less." + _drawn(comparison)),
        _table("claimed", "What the paper claims per round", Adversary.SERVER, found["claimed"],
               "This is the paper's own figure, kept for comparison; it does not cover the whole training."),
        _table("exact", "What the paper's argument gives per round", Adversary.OUTSIDER, found["exact"],
               "The argument behind the claim without its approximations, for the round with the minimum noise."),
    ]  # fmt: skip


def figures(comparison: Comparison) -> Mapping[str, Figures]:
    """Each kind of figure, group by group; of an unfinished run, what its last round says."""
    kinds: dict[str, list[tuple[Group, ExplainedFigure | None]]] = {
        "server": [], "outsider": [], "claimed": [], "exact": []
    }  # fmt: skip
    for group in comparison.groups:
        row, last = group.row, group.runs[0].last
        if row is not None:
            privacy, claim = row["privacy"], row["privacy"]["claimed"]
            kinds["server"].append((group, privacy["server"]))
            kinds["outsider"].append((group, privacy["outsider"]))
            kinds["claimed"].append((group, claim and _explained(claim, claim["why"])))
            kinds["exact"].append((group, privacy["exact_per_round"]))
            continue
        why = f"up to round {group.rounds}; the run is unfinished"
        kinds["server"].append((group, last and _explained(last["server"], why)))
        kinds["outsider"].append((group, None))
        for kind, figure in (("claimed", last and last["claimed"]), ("exact", last and last["exact_per_round"])):
            kinds[kind].append((group, figure and _explained(figure, why)))
    return kinds


def conditions(found: Figures) -> str:
    """The δ and the neighbours of these figures: `at δ = 0.01; neighbours: …`, or nothing where there is no figure."""
    known = [(group, figure) for group, figure in found if figure is not None and figure["epsilon"] is not None]
    relations: dict[str, list[Group]] = {}
    for group, figure in known:
        relations.setdefault(figure["neighbours"], []).append(group)
    if not known:
        return ""
    delta = shared_delta(found)
    at = "at the δ in each name" if delta is None else f"at δ = {delta:g}"
    if len(relations) == 1:
        return f"{at}; neighbours: {Neighbours(next(iter(relations))).sentence.partition(':')[0]}"
    parts = [
        f"{Neighbours(name).sentence.partition(':')[0]} ({_who(some, [group for group, _ in known])})"
        for name, some in relations.items()
    ]
    return f"{at}; neighbours: {', '.join(parts)}"


def shared_delta(found: Figures) -> float | None:
    """The δ of all these figures, or None where they differ, and their ε with it, or where there is none."""
    deltas = {figure["delta"] for _, figure in found if figure is not None and figure["epsilon"] is not None}
    return deltas.pop() if len(deltas) == 1 else None


def device_spreads(comparison: Comparison) -> list[DeviceSpread]:
    """ε against the server over the devices, for the finished groups that have noise in every round."""
    rows = []
    for group in comparison.groups:
        row = group.row
        if row is None:
            continue
        found = row["privacy"]["server"]["distribution"]
        low, middle, p90, high = found["min"], found["median"], found["p90"], found["max"]
        if low is not None and middle is not None and p90 is not None and high is not None:
            rows.append(DeviceSpread(group, low, middle, p90, high, found["never_took_part"]))
    return rows


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


def _explained(figure: Figure, why: str) -> ExplainedFigure:
    return {
        "epsilon": figure["epsilon"],
        "delta": figure["delta"],
        "adversary": figure["adversary"],
        "neighbours": figure["neighbours"],
        "valid": figure["valid"],
        "why": why,
    }


def _table(key: str, title: str, adversary: Adversary, found: Figures, note: str) -> AdversaryTable:
    """One adversary's table; a sentence that several rows share stands below it once, with the rows it is about."""
    rows: list[FigureRow] = []
    reasons: dict[str, list[Group]] = {}
    relations: dict[str, str] = {}
    for group, figure in found:
        if figure is None:
            rows.append(FigureRow(group, text.NONE, text.NONE, text.NONE, text.NONE))
            reasons.setdefault(_MISSING[key] if group.finished else _UNFINISHED, []).append(group)
            continue
        server = _server_instead(group) if key == "outsider" else None
        larger = server is not None and figure["epsilon"] is not None and figure["valid"]
        reasons.setdefault(_LARGER if larger else figure["why"], []).append(group)
        source = server or figure
        if source["epsilon"] is None:
            rows.append(FigureRow(group, "none", text.NONE, text.NONE, "no"))
            continue
        relations[source["neighbours"]] = Neighbours(source["neighbours"]).sentence
        shown = text.AS_SERVER if server else source.get("display", f"{source['epsilon']:.4g}")
        rows.append(FigureRow(group, shown, f"{source['delta']:g}", source["neighbours"], _verdict(source)))
    deltas = {row.delta for row in rows} - {text.NONE}
    everyone = [group for group, _ in found]
    return AdversaryTable(
        key, title, adversary.sentence, note,
        column="Covered by the proof" if key == "claimed" else "Guarantee",
        assumes="" if key == "claimed" else _assumptions(rows),
        rows=rows,
        reasons=[Reason(_who(some, everyone), why) for why, some in reasons.items()],
        relations=relations,
        delta=deltas.pop() if len(deltas) == 1 else None,
    )  # fmt: skip


def _server_instead(group: Group) -> ExplainedFigure | None:
    """The server's figure, where it is the best one known against an outsider."""
    row = group.row
    return row["privacy"]["server"] if row is not None and text.server_is_smaller(row["privacy"]) else None


def _assumptions(rows: Sequence[FigureRow]) -> str:
    """What a “yes” in the table rests on, where there is one."""
    proven = [row.group for row in rows if row.guarantee.startswith("yes")]
    air, ideal = [g for g in proven if g.has_energy], [g for g in proven if not g.has_energy]
    on_air = "the receiver noise is at least σ₀ and the gains are exact"
    on_links = "every device adds its share of the noise"
    if air and ideal:
        return f"“yes” means proven, if {on_air} (over the air), or if {on_links} (ideal links)"
    return f"“yes” means proven, if {on_air if air else on_links}" if proven else ""


def _who(some: Sequence[Group], everyone: Sequence[Group]) -> str:
    """Some of the groups in few words: by their schemes alone where that is enough."""
    if len(some) == len(everyone) > 1:
        return "All"
    schemes = list(dict.fromkeys(group.config.scheme for group in some))
    if len(some) == sum(group.config.scheme in schemes for group in everyone):
        return text.listed(schemes)
    return text.listed([group.label for group in some])


def _verdict(figure: Figure) -> str:
    if not figure["valid"]:
        return "no"
    return "yes, but too large to be useful" if (figure["epsilon"] or 0) > 100 else "yes"
