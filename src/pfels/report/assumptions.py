"""What each assumption behind the server's figures costs if it fails, for every scheme of a report."""

from collections.abc import Sequence
from dataclasses import dataclass

from pfels.documents.privacy import Assumption
from pfels.report import text
from pfels.report.groups import Group


@dataclass(frozen=True)
class AssumptionTable:
    """One row per assumption, one cell per group: ε against the server, as text."""

    groups: Sequence[Group]
    rows: Sequence[tuple[str, Sequence[str]]]


def assumption_table(groups: Sequence[Group]) -> AssumptionTable | None:
    """The prices of those finished groups that have some; None where no group has."""
    found: list[tuple[Group, dict[str, Assumption]]] = []
    for group in groups:
        prices = [] if group.row is None else group.row["privacy"].get("assumptions", [])
        if group.row is not None and prices:
            as_assumed: Assumption = {"name": "as assumed", "epsilon": group.row["privacy"]["server"]["epsilon"]}
            found.append((group, {each["name"]: each for each in (as_assumed, *prices)}))
    if not found:
        return None
    names = dict.fromkeys(name for _, prices in found for name in prices)
    rows = [
        (name, [text.epsilon(prices[name]) if name in prices else text.NONE for _, prices in found]) for name in names
    ]
    return AssumptionTable([group for group, _ in found], rows)
