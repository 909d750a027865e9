"""Privacy figures on a terminal: each with its adversary, its neighbours and δ, and what its assumptions cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pfels.privacy.events import Adversary, rounded_up
from pfels.report.terminal import PROVEN, data_sentences, print_json, print_table, times
from pfels.report.text import at_least, at_most

if TYPE_CHECKING:
    from pfels.documents.privacy import (
        BestFloor,
        ClaimedFigure,
        ExplainedFigure,
        Figure,
        NoiseForBudget,
        PresetPrivacy,
        PrivacyFigures,
        RequiredAgainst,
        RunPrivacy,
        StoredPrivacy,
    )
    from pfels.privacy.calibration import RequiredNoise

COLUMNS = ("figure", "ε", "δ", "adversary", "neighbours", "valid")


def show_numbers(figures: PrivacyFigures, title: str, *more: str, json: bool) -> None:
    """The figures of a training that numbers describe, as a table with its reasons or as JSON."""
    if json:
        print_json(figures)
        return
    named = (
        ("exact per round", figures["exact_per_round"]), ("server", figures["server"]),
        ("outsider", figures["outsider"]),
    )  # fmt: skip
    _show(figures["claimed"], named, title, more)


def show_preset(figures: PresetPrivacy, title: str, *, json: bool) -> None:
    """The figures that a run of a config will end with, and what each assumption behind them costs if it fails."""
    _show_run(figures, title, _of_seed(figures), json=json)


def show_stored(figures: StoredPrivacy, title: str, *more: str, json: bool) -> None:
    """The figures of a run directory, and what each assumption behind them costs if it fails."""
    _show_run(figures, title, more, json=json)


def _show_run(figures: PresetPrivacy | StoredPrivacy, title: str, more: Sequence[str], *, json: bool) -> None:
    if json:
        print_json(figures)
        return
    named = (
        ("exact per round", figures["exact_per_round"]), ("server", figures["server"]),
        ("blind server", figures.get("blind_server")), ("outsider", figures["outsider"]),
    )  # fmt: skip
    notes = [*(f"{line}." for line in data_sentences([figures])), *more]
    _show(figures["claimed"], named, title, notes, audited=figures.get("audited", True))
    if figures.get("assumptions"):
        _show_assumptions(figures)


def _show(
    claimed: ClaimedFigure | None,
    named: Sequence[tuple[str, ExplainedFigure | None]],
    title: str,
    more: Sequence[str],
    *,
    audited: bool = True,
) -> None:
    holds = "yes" if audited else "not audited"
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    if claimed is not None:
        verdict = "in its range" if claimed["valid"] else "no"
        rows.append(_cells("claimed per round", claimed, at_least(claimed["epsilon"], 4), verdict))
        notes.append(f"claimed per round: {claimed['why']}.")
    for name, figure in named:
        if figure is not None:
            shown = figure.get("display") or at_least(figure["epsilon"], 4)
            rows.append(_cells(name, figure, shown, holds if figure["valid"] else "no"))
            often = f" That device takes part {times(figure['participations'])}." if "participations" in figure else ""
            notes.append(f"{name}: {figure['why']}.{often}")
    if any(name == "server" and figure and figure["epsilon"] is not None for name, figure in named):
        outside = "from outside pfels; its figures hold only if it does what it says, which pfels audit tries to refute"
        notes.append(f"valid: {PROVEN}." if audited else f"NOT AUDITED: the scheme is {outside}.")
    print_table(COLUMNS, rows, title=title, notes=[*notes, *more])


def _of_seed(figures: PresetPrivacy) -> list[str]:
    """Whose cohorts the figures are of, and what holds for every seed."""
    always = figures["every_seed"]
    known = "no ε" if always["epsilon"] is None else f"ε = {_up(always['epsilon'])}"
    return [
        f"The figures are of the cohorts and channels of seed {figures['seed']}. For every seed: {known} against the "
        f"server ({always['why']})."
    ]


def _show_assumptions(figures: RunPrivacy) -> None:
    server = figures["server"]
    rows = [("as assumed", _up(server["epsilon"]))]
    rows += [(each["name"], _up(each["epsilon"])) for each in figures["assumptions"]]
    print_table(
        ("if …", "ε against the server"),
        rows,
        title=f"What each assumption costs if it fails, at δ = {server['delta']:g}",
        notes=[
            "Each by itself, for the worst device of this seed; upper bounds, rounded up. Best of several runs: of a "
            "random number with this mean; a fixed number has no such bound. docs/privacy.md#assumptions says more."
        ],
    )


def show_required(target: float, need: RequiredNoise, *, rounds: int, json: bool, others: Others | None = None) -> None:
    """The noise that a budget requires; `others` are the answers for all adversaries and for several antennas."""
    loss = need.loss
    if json:
        document: NoiseForBudget = {"target_epsilon": target, "noise_multiplier": need.noise_multiplier}
        if loss.adversary is Adversary.SERVER:
            document["server"] = loss.as_dict()
        elif loss.adversary is Adversary.BLIND_SERVER:
            document["blind_server"] = loss.as_dict()
        else:
            document["outsider"] = loss.as_dict()
        if need.beta is not None:
            document["beta"] = need.beta
        if others is not None:
            document["adversaries"], document["floors"] = dict(others.adversaries), list(others.floors)
        print_json(document)
        return
    rows = [("noise multiplier z", at_least(need.noise_multiplier, 6))]
    if need.beta is not None:
        rows.append(("β = σ₀/(zs)", at_most(need.beta, 6)))
    if loss.participations is not None:
        rows.append(("participations, at most", str(loss.participations)))
    spent = "none" if loss.epsilon is None else f"{rounded_up(loss.epsilon, digits=6):.6g}"
    rows.append(("ε spent", f"{spent} of {target:g}"))
    title = f"Budget: ε = {target:g} at δ = {loss.delta:g} over {rounds} rounds, against {loss.adversary.sentence}"
    print_table(("", "value"), rows, title=title, notes=[f"neighbours: {loss.neighbours.sentence}", f"why: {loss.why}"])
    if others is not None:
        others.show()


class Others:
    """The same budget against each adversary, and the floor on gains for several antennas."""

    def __init__(self, adversaries: Mapping[str, RequiredAgainst], floors: Sequence[BestFloor]) -> None:
        self.adversaries, self.floors = adversaries, floors

    def show(self) -> None:
        """Two tables."""
        rows = [
            (name, at_least(each["noise_multiplier"], 5), at_most(each["beta"], 4))
            for name, each in self.adversaries.items()
        ]
        notes = [f"{name}: {each['why']}." for name, each in self.adversaries.items()]
        print_table(("adversary", "z needed", "β"), rows, title="The same ε against each adversary", notes=notes)
        if not self.floors:
            return
        cells = [
            (
                str(row["antennas"]), f"{row['silent_below']:g}", at_least(row["noise_multiplier"], 4),
                f"{row['senders']:.3g}", f"{row['signal']:.3g}",
            )
            for row in self.floors
        ]  # fmt: skip
        print_table(
            ("antennas", "silent_below", "z needed", "senders", "signal"),
            cells,
            title="The floor on gains that serves this budget best, if the server has several antennas",
            notes=[
                "signal: level times expected senders, relative to one antenna. The budget holds surely: a device with "
                "gain |h| ≥ silent_below costs at most 1 + (M − 1)(gain_max/silent_below)² times as much."
            ],
        )


def _cells(name: str, figure: Figure, epsilon: str, verdict: str) -> tuple[str, ...]:
    return (name, epsilon, f"{figure['delta']:g}", figure["adversary"], figure["neighbours"], verdict)


def _up(epsilon: float | None) -> str:
    """An upper bound to four digits, rounded up."""
    if epsilon is None or epsilon < 1000:
        return "none" if epsilon is None else f"{rounded_up(epsilon, digits=4):.4g}"
    return f"{math.ceil(epsilon):,}"
