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
NOISE = {"receiver": "receiver noise", "devices": "device noise", "server": "noise, server"}
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
    """One row per observer, one for one canary alone, one for the noise of each source, and one for the replay."""
    found = [_row(name, document["views"][name]) for name in NAMES]
    alone = document["alone"]
    if alone is not None:
        moved = _up(alone["epsilon"])
        found.append(("one canary", _up(alone["booked"]), moved, "exact", NONE, _word(alone["rejected"])))
    emptied = document["emptied"]
    if emptied is not None:
        moved = "∞" if emptied["ratio"] is None else f"{_near(emptied['ratio'])} of it"
        found.append(("one device", NONE, moved, "exact", NONE, _word(emptied["rejected"])))
    for source in dict.fromkeys(each["noise"] for each in document["noise"]):
        checks = [each for each in document["noise"] if each["noise"] == source]
        least, rejected = min(each["p"] for each in checks), any(each["rejected"] for each in checks)
        found.append((NOISE.get(source, source), NONE, NONE, f"p = {least:.1g}", NONE, _word(rejected)))
    if document["replay"] is not None:
        found.append(("replay", NONE, NONE, "exact", NONE, _word(document["replay"]["rejected"])))
    return found


def verdict(document: Audit) -> str:
    """The outcome in one sentence."""
    if document["stopped"]:
        return f"Rejected: a guard stopped the training ({document['stopped']})."
    if document["rejected"]:
        by = [
            each.split(")")[0] + ")" if " noise (" in each else each.split(": in")[0]
            for each in document["rejected_by"]
        ]
        return f"Rejected by {listed(by)}: what is claimed does not hold."
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
        "(Mahloujifar et al. 2024). Rejected where it exceeds the claim at 99.99 %.",
    ]
    if alone is not None:
        lines.append(
            f"One canary: how far its data alone move what is received, beside the real devices; it sends "
            f"{times(alone['participations'])}. Not a statistic. Rejected where that exceeds what is booked for it."
        )
    return lines + _noise_notes(document)


def _check(by: str) -> str:
    """A check without what it saw."""
    check, found, _ = by.partition("): ")
    return f"{check})" if found else by.partition(": in round")[0]


def _noise_notes(document: Audit) -> list[str]:
    """What the checks of the noise and the replay ask, and what they saw where they reject."""
    lines = []
    if document["noise"]:
        checks, rate = len(document["noise"]), document["noise"][0]["error_rate"]
        lines.append(
            f"Noise: what was received less the same without noise, in {checks} checks. p bounds the probability that "
            f"honest noise looks as odd in one of them; the least is shown. Rejected below {rate:.1g}."
        )
    lines += [
        f"Noise of {each['noise']}, {each['check']}: {each['saw']} (p = {each['p']:.0e})."
        for each in document["noise"]
        if each["rejected"]
    ]
    emptied, replay = document["emptied"], document["replay"]
    if emptied is not None:
        lines.append(
            "One device: what the data of one real device move in one round, of another in every round: the maximum, "
            "over what is booked for that round, as μ. Not a statistic."
        )
    if replay is not None:
        saw = "" if replay["saw"] is None else f" What differs: {replay['saw']}."
        lines.append(
            "Replay: a copy of the server that never saw an update must reach the same estimates, to the bit, from "
            f"what was received. Not a statistic.{saw}"
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
