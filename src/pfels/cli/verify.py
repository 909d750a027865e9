"""`pfels verify`: published figures, recomputed here."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from pfels.cli.options import Json
from pfels.report.terminal import number, print_json, print_notes, print_table, say

if TYPE_CHECKING:
    from pfels.documents.verify import Verification, VerifiedFigure, VerifiedRun

IN_RUNS = ("accuracy", "energy", "server ε", "norm of the model")
NOTES = (
    "z: noise multiplier; n: participations; T: rounds; N = 1000 devices, r = 32 per round where none are named.",
    "claimed: the paper's, for one round, against the server; exact: the same argument without approximations, against "
    "an outsider; neighbours of both: one device added or removed.",
    "server ε: over the whole training; neighbours: one device's data emptied; in the runs at δ = 0.01. outsider ε: "
    "over the whole training; neighbours: one device added or removed (Poisson), or replaced (fixed size).",
)


def command(json: Json = False) -> None:
    """Recompute published figures and compare: ok (exit code 0), or which of them differ (exit code 1).

    Privacy figures, energies, and a short run of every scheme. docs/verify.md has the inputs and tolerances of all,
    for those who test software of their own against them.

    Examples:

        pfels verify

        pfels verify --json
    """
    say("recomputing the published figures, and twelve rounds of every scheme: some ten seconds")

    from pfels.studies.verify import verify  # not before it is needed: PyTorch takes seconds to import

    found = verify()
    if json:
        print_json(found)
    else:
        _show(found)
    if not found["ok"]:
        raise typer.Exit(1)


def _show(found: "Verification") -> None:
    rows = [
        (each["name"], _value(each, each["published"]), _value(each, each["found"]), "ok" if each["ok"] else "DIFFERS")
        for each in found["figures"]
    ]
    print_table(("figure", "published", "found", ""), rows, title="Figures without training")
    runs = [(name, *_cells(run["figures"]), _verdict(run)) for name, run in found["runs"].items()]
    print_table(("scheme", *IN_RUNS, ""), runs, title="Twelve rounds of the demo, seed 0", notes=NOTES)
    count = len(found["figures"]) + sum(len(run["figures"]) for run in found["runs"].values())
    bits = "runs to the bit" if found["same_arithmetic"] else "runs within rounding: this machine rounds otherwise"
    if found["ok"]:
        print_notes([f"ok: {count} figures as published; {bits}"], style="bold")
    else:
        print_notes([f"differs: {_sentence(name, found)}" for name in found["differs"]], style="bold")


def _sentence(name: str, found: "Verification") -> str:
    everything = [*found["figures"], *(each for run in found["runs"].values() for each in run["figures"])]
    for each in everything:
        if each["name"] == name:
            values = f"published {_digits(each['published'])}, found {_digits(each['found'])}"
            return f"{name}: {values}; they may differ by {each['tolerance']:.2g}"
    return f"{name}: this machine rounds as the one that made the published run, but log or checkpoint are not the same"


def _cells(figures: "Iterable[VerifiedFigure]") -> list[str]:
    by_name = {each["name"].partition(": ")[2]: each for each in figures}
    return [_value(by_name[name], by_name[name]["found"]) for name in IN_RUNS]


def _verdict(run: "VerifiedRun") -> str:
    if run["same_bits"] is False or not all(each["ok"] for each in run["figures"]):
        return "DIFFERS"
    return "same bits" if run["same_bits"] else "ok"


def _value(each: "VerifiedFigure", value: float | None) -> str:
    """Five digits; a privacy figure is rounded up."""
    if value and "adversary" in each:
        unit = 10.0 ** (math.floor(math.log10(abs(value))) - 4)
        value = math.ceil(value / unit - 1e-6) * unit
    return number(value, ".5g")


def _digits(value: float | None) -> str:
    return "none" if value is None else f"{value:.12g}"
