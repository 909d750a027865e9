"""The privacy figures of the groups of a report, kind by kind, and how they are spread over the devices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pfels.documents.privacy import ExplainedFigure, Figure
from pfels.privacy.events import Neighbours
from pfels.report import text
from pfels.report.groups import Comparison, Group

Figures = Sequence[tuple[Group, ExplainedFigure | None]]  # one kind of figure, group by group


@dataclass(frozen=True)
class DeviceSpread:
    """ε against the server over the devices of a group that took part, and the share that never did."""

    group: Group
    minimum: float
    median: float
    p90: float
    maximum: float
    never_took_part: float


def figures(comparison: Comparison) -> Mapping[str, Figures]:
    """Each kind of figure, group by group; of an unfinished run, what its last round says."""
    kinds: dict[str, list[tuple[Group, ExplainedFigure | None]]] = {
        "server": [], "blind-server": [], "outsider": [], "claimed": [], "exact": []
    }  # fmt: skip
    for group in comparison.groups:
        row, last = group.row, group.runs[0].last
        if row is not None:
            privacy, claim = row["privacy"], row["privacy"]["claimed"]
            kinds["server"].append((group, privacy["server"]))
            kinds["blind-server"].append((group, privacy.get("blind_server")))
            kinds["outsider"].append((group, privacy["outsider"]))
            kinds["claimed"].append((group, claim and _explained(claim, claim["why"])))
            kinds["exact"].append((group, privacy["exact_per_round"]))
            continue
        why = f"after {text.counted(group.rounds, 'round')}; the run is unfinished"
        kinds["server"].append((group, last and _explained(last["server"], why)))
        kinds["outsider"].append((group, None))
        kinds["blind-server"].append((group, None))
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
        f"{Neighbours(name).sentence.partition(':')[0]} ({who(some, [group for group, _ in known])})"
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


def _explained(figure: Figure, why: str) -> ExplainedFigure:
    return {
        "epsilon": figure["epsilon"],
        "delta": figure["delta"],
        "adversary": figure["adversary"],
        "neighbours": figure["neighbours"],
        "valid": figure["valid"],
        "why": why,
    }


def who(some: Sequence[Group], everyone: Sequence[Group]) -> str:
    """Some of the groups in few words: by their schemes alone where that is enough."""
    if len(some) == len(everyone) > 1:
        return "All"
    schemes = list(dict.fromkeys(group.config.scheme for group in some))
    if len(some) == sum(group.config.scheme in schemes for group in everyone):
        return text.listed(schemes)
    return text.listed([group.label for group in some])
