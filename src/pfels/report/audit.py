"""An audit in words: one row per observer, and what each figure means."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from pfels.privacy.events import Adversary
from pfels.report.terminal import times
from pfels.report.text import NONE, listed

if TYPE_CHECKING:
    from pfels.documents.audit import Audit, AuditView

NAMES: tuple[Literal["server"], Literal["models"]] = ("server", "models")
COLUMNS = ("seen by", "ε claimed", "ε estimated", "95 % interval", "ε certified", "verdict")


def title(document: Audit, name: str) -> str:
    """What was audited."""
    seeds = document["seeds"]
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    return (
        f"{document['scheme']} on {name}: {document['rounds']} rounds, {document['devices']} devices and "
        f"{document['canaries']} canaries, {which}"
    )


def rows(document: Audit) -> list[tuple[str, ...]]:
    """One row per observer, and one for one canary alone."""
    found = [_row(name, document["views"][name]) for name in NAMES]
    alone = document["alone"]
    if alone is not None:
        moved = _up(alone["epsilon"])
        found.append(("one canary", _up(alone["booked"]), moved, "exact", NONE, _word(alone["rejected"])))
    return found


def verdict(document: Audit) -> str:
    """The outcome in one sentence."""
    if document["stopped"]:
        return f"Rejected: a guard stopped the training ({document['stopped']})."
    if document["rejected"]:
        return f"Rejected by {listed(document['rejected_by'])}: canaries give away more than is claimed."
    if document["claimed"]["epsilon"] is None:
        return "Nothing to reject: no noise hides the updates, so no ε is claimed, and nothing was tried."
    return "Not rejected: nothing that was tried gives away more than is claimed."


def notes(document: Audit) -> list[str]:
    """What the figures mean."""
    if document["claimed"]["epsilon"] is None or document["stopped"]:
        return []
    server, models = (document["views"][name]["claimed"] for name in NAMES)
    alone = document["alone"]
    lines = [
        "Claimed: what the ledger books for the worst device of this training, at "
        f"δ = {server['delta']:g} (server: {server['neighbours']}; models: {models['neighbours']}, "
        f"{'an outsider’s figure' if models['adversary'] == Adversary.OUTSIDER else 'as the server'}).",
        f"Estimated: from the scores of {document['included']} canaries that are in and "
        f"{document['canaries'] * len(document['seeds']) - document['included']} that are not, with one variance for "
        "both. Rejected where its lower limit at 99.99 %, one-sided, exceeds the claim.",
        "Certified: a lower bound with 95 % confidence from guesses in one run, for Gaussian trade-off curves "
        "(Mahloujifar et al. 2024). Rejected where it exceeds the claim.",
    ]
    if alone is not None:
        lines.append(
            f"One canary: how far its data alone move what is received, beside the real devices; it sends "
            f"{times(alone['participations'])}. Not a statistic. Rejected where that exceeds what is booked for it."
        )
    return lines


def _row(name: str, view: AuditView) -> tuple[str, ...]:
    estimate, certified = view["estimate"], view["certified"]["epsilon"]
    interval = NONE
    if estimate["low"] is not None and estimate["high"] is not None:
        interval = f"{_near(estimate['low'])} to {_near(estimate['high'])}"
    claimed, proven = _up(view["claimed"]["epsilon"]), NONE if certified is None else _down(certified)
    word = NONE if certified is None else _word(view["rejected"])  # nothing was tried, or the training was stopped
    return name, claimed, _near(estimate["epsilon"]), interval, proven, word


def _word(rejected: bool) -> str:
    return "rejected" if rejected else "not rejected"


def _up(value: float | None) -> str:
    """An upper bound."""
    return NONE if value is None else f"{math.ceil(Decimal(repr(value)) * 100) / 100:.2f}"


def _down(value: float) -> str:
    """A lower bound."""
    return f"{math.floor(Decimal(repr(value)) * 100) / 100:.2f}"


def _near(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"
