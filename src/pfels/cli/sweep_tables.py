"""`pfels sweep` on a terminal: all that its JSON has, in tables of 80 columns with one row per point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pfels.report.terminal import ERRORS, PROVEN, print_notes, print_table, scientific, spread
from pfels.report.text import at_most, claimed_epsilon, epsilon, listed, percent, seconds, short

if TYPE_CHECKING:
    from pfels.documents.privacy import ExplainedFigure, Figure
    from pfels.documents.studies import SweepRow

BLOCK = 5  # points beside each other
DASH = "–"


class Named(NamedTuple):
    """A point of the grid with the name of its rows: its number, or the value of the only axis."""

    name: str
    row: SweepRow


def show(rows: Sequence[SweepRow], title: str) -> None:
    """Every figure of the points."""
    if not rows:
        print_notes([title])
        return
    axes = list(rows[0]["settings"])
    numbered = len(axes) != 1
    points = [Named(str(i) if numbered else str(row["settings"][axes[0]]), row) for i, row in enumerate(rows, start=1)]
    first = "#" if numbered else axes[0]
    _results(points, axes if numbered else [], first, title)
    _privacy(points, first)
    _devices(points, first)
    _assumptions(points, first)
    print_notes(list(_reasons(points)))


def _results(points: Sequence[Named], axes: Sequence[str], first: str, title: str) -> None:
    cells = [
        (
            each.name, *(str(each.row["settings"][axis]) for axis in axes), spread(each.row["accuracy"], ".4f"),
            spread(each.row["loss"], ".3f"),
        )
        for each in points
    ]  # fmt: skip
    errors = [ERRORS] * (len(points[0].row["seeds"]) > 1)
    print_table((first, *axes, "accuracy", "test loss"), cells, title=title, notes=errors)
    used = [
        (
            each.name, scientific(each.row["energy"]), short(each.row["subcarriers"], ".3g"),
            seconds(each.row["airtime_s"]), f"{each.row['dimension']:,}", f"{each.row['rounds']:,}",
        )
        for each in points
    ]  # fmt: skip
    columns = (first, "energy", "channel uses", "airtime", "d", "rounds")
    about = [*errors, "energy: Σ‖x‖² in units of σ₀²; d: parameters."]
    print_table(columns, used, title="What it used", notes=about)


def _privacy(points: Sequence[Named], first: str) -> None:
    cells = []
    for each in points:
        privacy = each.row["privacy"]
        small = privacy["server"].get("epsilon_at_1e-5")
        cells.append(
            (
                each.name, claimed_epsilon(privacy["claimed"]), _epsilon(privacy["exact_per_round"]),
                _epsilon(privacy["server"]), epsilon({"name": "", "epsilon": small}),
                _epsilon(privacy.get("blind_server")), _epsilon(privacy["outsider"]),
                at_most(privacy["noise_multiplier_min"]),
            )
        )  # fmt: skip
    columns = (first, "claimed", "exact", "server", "at 1e-5", "blind", "outsider", "min z")
    deltas = sorted({each.row["privacy"]["server"]["delta"] for each in points})
    at = f"δ = {deltas[0]:g}" if len(deltas) == 1 else f"δ = {listed([f'{delta:g}' for delta in deltas])}, as set"
    about = sorted({figure["neighbours"] for each in points for figure in _sampled(each.row)})
    notes = [
        f"ε of the worst seed, upper bounds, at {at}; min z: minimum noise multiplier. claimed and exact are of one "
        "round, the others of the whole training. †: no guarantee; why is said below.",
        "claimed: the paper's, against the server; neighbours: one device added or removed. * marks a value outside "
        "the range of its proof.",
        f"server: for the worst device, and beside it at δ = 1e-5; neighbours: one device's data emptied; {PROVEN}.",
        "blind: a server that does not learn who sends. exact and outsider: against who sees only the models. "
        f"Neighbours of these three: {listed(about)}.",
    ]
    foreign = [each.name for each in points if not each.row["privacy"].get("audited", True)]
    if foreign:
        which = "" if len(foreign) == len(points) else f" ({listed(foreign)})"
        notes.append(
            f"NOT AUDITED{which}: the scheme is from outside pfels; its ε holds only if it does what it says, which "
            "pfels audit tries to refute."
        )
    print_table(columns, cells, title="Privacy: ε", notes=notes)


def _sampled(row: SweepRow) -> Iterator[ExplainedFigure]:
    """The figures that count on hidden cohorts."""
    privacy = row["privacy"]
    found = (privacy["exact_per_round"], privacy.get("blind_server"), privacy["outsider"])
    yield from (figure for figure in found if figure is not None)


def _epsilon(figure: Figure | None) -> str:
    if figure is None:
        return DASH
    return epsilon(figure) + ("†" if figure["epsilon"] is not None and not figure["valid"] else "")


def _devices(points: Sequence[Named], first: str) -> None:
    """ε against the server over the devices."""
    cells = []
    for each in points:
        server = each.row["privacy"]["server"]
        spent = server["distribution"]
        some = (spent["min"], spent["median"], spent["p90"], spent["max"])
        often = server.get("participations")
        cells.append(
            (
                each.name, *(epsilon({"name": "", "epsilon": value}) for value in some),
                DASH if often is None else str(often), percent(spent["never_took_part"]),
            )
        )  # fmt: skip
    columns = (first, "min", "median", "90 %", "max", "rounds", "never")
    notes = ["rounds: in how many the worst device took part. never: devices that never took part."]
    print_table(columns, cells, title="ε against the server over the devices that took part", notes=notes)


def _assumptions(points: Sequence[Named], first: str) -> None:
    """What the server's ε becomes if one of its assumptions fails."""
    priced = [each for each in points if each.row["privacy"].get("assumptions")]
    title = "ε against the server if …"
    for start in range(0, len(priced), BLOCK):
        block = priced[start : start + BLOCK]
        prices = [_prices(each.row) for each in block]
        names = list(dict.fromkeys(name for each in prices for name in each))
        cells = [(name, *(_price(each, name) for each in prices)) for name in names]
        heads = [each.name if first == "#" else f"{first.rpartition('.')[2]} {each.name}" for each in block]
        print_table((f"… ({first})", *heads), cells, title=title)
        title = ""


def _prices(row: SweepRow) -> dict[str, float | None]:
    return {each["name"]: each["epsilon"] for each in row["privacy"]["assumptions"]}


def _price(prices: Mapping[str, float | None], name: str) -> str:
    return epsilon({"name": name, "epsilon": prices[name]}) if name in prices else DASH


def _reasons(points: Sequence[Named]) -> Iterator[str]:
    """Why each figure holds, or why there is none, with the points that it is about."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in points:
        privacy = each.row["privacy"]
        figures = {
            "claimed": privacy["claimed"], "exact": privacy["exact_per_round"], "server": privacy["server"],
            "blind": privacy.get("blind_server"), "outsider": privacy["outsider"],
        }  # fmt: skip
        for name, figure in figures.items():
            if figure is not None:
                found.setdefault((name, figure["why"]), []).append(each.name)
        for note in privacy.get("data_notes", []):
            found.setdefault(("data", note["sentence"]), []).append(each.name)
    for (name, why), names in found.items():
        about = "" if len(names) == len(points) else f" ({listed(names)})"
        yield f"{name}{about}: {why}."
