"""Tables, notes and JSON on a terminal; privacy figures as sentences that always say against whom."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pfels.errors import one_line, visible
from pfels.privacy.events import Adversary
from pfels.report.text import at_least, at_most, joules, listed, own_noise, seconds

if TYPE_CHECKING:
    from pfels.documents.privacy import ClaimedFigure, RunPrivacy
    from pfels.documents.run import Summary
    from pfels.documents.studies import AggregateRow, SchemePlan, Spread
    from pfels.privacy.calibration import Budget

ERRORS = "±: standard errors over the seeds."
PROVEN = (
    "proven, assuming receiver noise ≥ σ₀, exact gains and one antenna (or as set), no eavesdropper, untuned settings "
    "and a secret seed: docs/privacy.md#assumptions"
)


def run_rows(summary: Summary) -> list[Sequence[str]]:
    """A finished run, one figure per row."""
    last, radiated = summary.get("accuracy_last", summary["accuracy"]), summary.get("radiated_j")
    return [
        ("accuracy", number(summary["accuracy"], ".4f")),
        *([("accuracy of the last model", number(last, ".4f"))] if last != summary["accuracy"] else []),
        ("test loss", number(summary["loss"], ".4f")),
        ("parameters d", f"{summary['dimension']:,}"),
        ("channel uses", f"{summary['subcarriers']:,}"),
        ("energy Σ‖x‖²", number(summary["energy"])),
        *([] if radiated is None else [("radiated", joules(radiated))]),
        ("airtime", seconds(summary["airtime_s"])),
        ("minimum noise multiplier", at_most(summary["privacy"]["noise_multiplier_min"])),
        ("seconds", number(summary["seconds"], ".1f")),
    ]


def not_audited(names: Iterable[str]) -> list[str]:
    """What is to be said of the schemes from outside pfels among these: nothing has tested that they keep to their
    figures."""
    from pfels.schemes.registry import is_foreign  # the help would have to wait for it

    foreign = [name for name in names if is_foreign(name)]
    if not foreign:
        return []
    its, it = ("its", "it") if len(foreign) == 1 else ("their", "they")
    whose = f"{its} ε holds only if {it} {'does' if it == 'it' else 'do'} what {it} {'says' if it == 'it' else 'say'}"
    return [f"NOT AUDITED: {listed(foreign)}, from outside pfels; {whose}, which pfels audit tries to refute."]


def privacy_lines(privacy: RunPrivacy, scheme: str) -> list[str]:
    """Every privacy figure of a run of a scheme as a sentence."""
    foreign = not_audited([scheme])
    audited = privacy.get("audited", True) and not foreign
    proof = PROVEN if audited else "not audited"
    claimed, server, outsider = privacy["claimed"], privacy["server"], privacy["outsider"]
    lines = []
    if claimed is not None:
        verdict = "within" if claimed["valid"] else "outside"
        lines.append(
            f"claimed: ε = {at_least(claimed['epsilon'], 6)} per round at δ = {claimed['delta']:g}, against the "
            f"server; neighbours: one device added or removed; {verdict} the range of the paper's proof "
            f"(ε < {claimed['valid_below']:g})"
        )
    if server["epsilon"] is None:
        lines.append(f"server: no ε ({server['why']})")
    else:
        lines.append(
            f"server: ε = {server['display']} over the whole training at δ = {server['delta']:g} for the worst device, "
            f"which took part {times(server['participations'])}; neighbours: one device's data emptied; {proof}"
            f"{own_noise(privacy)}"
        )
    if outsider["epsilon"] is None:
        lines.append(f"outsider: no ε ({outsider['why']})")
    else:
        lines.append(
            f"outsider: ε = {outsider['display']} over the whole training at δ = {outsider['delta']:g}, "
            f"{outsider['neighbours']} neighbours ({outsider['accountant']}){'' if audited else '; not audited'}"
        )
    return [*lines, *foreign, *data_sentences([privacy])]


def data_sentences(privacies: Iterable[RunPrivacy]) -> list[str]:
    """What the figures of these runs assume of their data."""
    notes = [note for privacy in privacies for note in privacy.get("data_notes", [])]
    return list(dict.fromkeys(f"data: {one_line(note['sentence'])}" for note in notes))


def scientific(figure: Spread | None, *, digits: int = 1) -> str:
    """A large mean ± its standard error, with one power of ten for both."""
    return "–" if figure is None else large(figure["mean"], figure["standard_error"], digits=digits)


def large(value: float, error: float | None = None, *, digits: int = 1) -> str:
    """A large number, with its standard error if it has one."""
    if value <= 0:
        return "0"
    power = math.floor(math.log10(value))
    if error is None:
        return f"{value / 10**power:.{digits}f}e{power}"
    return f"({value / 10**power:.{digits}f}±{error / 10**power:.{digits}f})e{power}"


def spread(figure: Spread | None, form: str) -> str:
    """A mean ± its standard error, which one seed does not have."""
    if figure is None or figure["standard_error"] is None:
        return "–" if figure is None else number(figure["mean"], form)
    return f"{number(figure['mean'], form)}±{number(figure['standard_error'], form)}"


def claim_note(claims: Sequence[ClaimedFigure | None], *, delta: float) -> list[str]:
    """What the paper's ε means, where any scheme claims one."""
    made = [claim for claim in claims if claim is not None]
    if not made:
        return []
    return [
        f"claimed ε: the paper's, against the server, for one round, at δ = {delta:g}; neighbours: one "
        "device added or removed. * marks a value outside the range of its proof, "
        f"ε < 2r/N = {made[0]['valid_below']:g}."
    ]


def marked(name: str, row: AggregateRow | SchemePlan) -> str:
    """A scheme's name, with a mark where a budget was asked for and does not set its noise."""
    return name if row.get("on_budget", True) else f"{name}†"


def budget_notes(budget: Budget | None, rows: Mapping[str, AggregateRow] | Mapping[str, SchemePlan]) -> list[str]:
    """What a common budget has done to each scheme, and which schemes it does not set."""
    if budget is None:
        return []
    against = {
        Adversary.SERVER: "the server", Adversary.BLIND_SERVER: "a blind server", Adversary.OUTSIDER: "an outsider"
    }[budget.adversary]  # fmt: skip
    lines = [
        f"Budget: ε = {budget.epsilon:g} for the whole training, against {against}. A scheme with the paper's claim is "
        "given the claim with which its worst device meets the budget in the rounds that are drawn; a scheme that "
        "calibrates itself is given the budget beforehand."
    ]
    if budget.adversary is not Adversary.SERVER:
        lines.append(f"A scheme without a figure against {against} is held to the budget against the server.")
    others = [name for name, row in rows.items() if not row.get("on_budget", True)]
    if others:
        lines.append(f"† NOT brought to the budget: {listed(others)}; no budget sets their noise.")
    return lines


def say(message: str) -> None:
    """A line for the person at the terminal, never on stdout."""
    print("\n".join(map(one_line, message.splitlines())), file=sys.stderr)


def print_json(document: Mapping[str, Any]) -> None:
    """The one JSON document of a command."""
    plain = (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8"
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=plain)
    print("".join(c if c == visible(c) else json.dumps(c)[1:-1] for c in text) if text != visible(text) else text)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str, notes: Sequence[str] = ()
) -> None:
    """A table on stdout, with notes below it."""
    table = Table(box=SIMPLE_HEAD, padding=0)
    for i, column in enumerate(columns):
        table.add_column(visible(column), justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*(escape(visible(cell)) for cell in row))
    console = Console()
    if title:
        console.print(escape(visible(title)), style="bold", highlight=False)
    console.print(table)
    print_notes(notes)


def print_notes(notes: Sequence[str], *, style: str = "dim") -> None:
    """Notes on stdout."""
    console = Console()
    for note in notes:
        console.print(escape(visible(note)), style=style, highlight=False)


def times(count: int) -> str:
    """How often: `once`, or `7 times`."""
    return "once" if count == 1 else f"{count} times"


def number(value: float | None, form: str = ".3g") -> str:
    """A figure for a table; a dash where there is none."""
    return "–" if value is None else format(value, form)
