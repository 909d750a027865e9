"""`pfels privacy --ledger`: what the devices of a deployment's node have spent, and the making of a new ledger."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pfels.errors import InputError
from pfels.privacy.device_ledger import DeviceLedger, OwnerBudget, spent_epsilon
from pfels.privacy.events import Adversary, Neighbours, rounded_up
from pfels.report.terminal import print_json, print_table, say

if TYPE_CHECKING:
    from pfels.documents.privacy import DeviceSpending, LedgerReport

DELTA = 1e-5  # of the figures, where no budget is known


def of_ledger(
    path: Path | None,
    node: str | None,
    renumbered: str | None,
    others: Mapping[str, object],
    *,
    devices: int | None,
    epsilon: float | None,
    delta: float | None,
    json: bool,
) -> None:
    """Make the ledger of `node`, if one is given, or carry it over to that of `renumbered`, or show it; `others` are
    options that do not go with a ledger."""
    named = [name for name, value in others.items() if value is not None]
    if named:
        raise InputError(f"{named[0]}: a ledger holds what was spent; leave it out beside --ledger")
    if path is None:
        wanted = "--create: makes" if node is not None else "--renumber: changes"
        raise InputError(f"{wanted} the file of --ledger; give both")
    if node is not None and renumbered is not None:
        raise InputError("--renumber: is for a ledger that exists; leave out --create")
    if node is not None:
        create(path, node, devices)
    elif renumbered is not None:
        renumber(path, renumbered, devices)
    elif devices is not None:
        raise InputError("--devices: the ledger says that; leave it out")
    if json or (node is None and renumbered is None):
        show(path, epsilon=epsilon, delta=delta, json=json)


def create(path: Path, node: str, devices: int | None) -> None:
    """Make the ledger of the node `PARTITION/PARTITIONS`, whose devices have never sent."""
    layout = _layout("--create", node, devices)
    DeviceLedger(path).create(**layout)
    say(f"{path}: the ledger of {_named(layout)}; keep it, and back it up")


def renumber(path: Path, node: str, devices: int | None) -> None:
    """Carry the ledger over to devices with other numbers: each starts from the most that any has spent."""
    layout = _layout("--renumber", node, devices)
    carried = DeviceLedger(path).renumber(**layout)
    spent = rounded_up(carried["mu_squared"], digits=6)
    say(f"{path}: now the ledger of {_named(layout)}; every device starts from μ² = {spent:.6g}, the most any spent")
    say("this holds where each device keeps its own data; see docs/deployment.md where they were dealt out anew")


def _layout(option: str, node: str, devices: int | None) -> dict[str, int]:
    partition, _, partitions = node.partition("/")
    if not all(part.isdecimal() and part.isascii() and len(part) < 19 for part in (partition, partitions)):
        raise InputError(f"{option} {node}: reads PARTITION/PARTITIONS, as in the node's config, such as 0/4")
    if devices is None:
        raise InputError(f"--devices: needed with {option}; give the number of all devices of the deployment")
    return {"devices": devices, "partition": int(partition), "partitions": int(partitions)}


def _named(layout: Mapping[str, int]) -> str:
    return f"partition {layout['partition']} of {layout['partitions']} of {layout['devices']} devices"


def show(path: Path, *, epsilon: float | None, delta: float | None, json: bool) -> None:
    """What each device has spent, and what is left of the budget: the given one, or that of the last transmission."""
    document = _report(path, epsilon, delta)
    if json:
        print_json(document)
        return
    budget = document["budget_epsilon"]
    rows = [
        (
            str(one["device"]),
            str(one["participations"]),
            f"{rounded_up(one['mu_squared'], digits=6):.6g}",
            f"{one['epsilon']:g}",
            "–" if one["budget_left"] is None else f"{math.floor(1000 * one['budget_left']) / 10:g} %",
        )
        for one in document["spent"]
    ]
    share = f"partition {document['partition']} of {document['partitions']} of {document['devices']} devices"
    allowed = "no budget is known" if budget is None else f"budget ε = {budget:g}"
    notes = [
        f"ε at δ = {document['delta']:g}, over all runs, against a server that sees the noisy sums, or in dp-fedavg "
        "each device's noisy update; neighbours: one device's data emptied. Rounded up.",
        "budget left: of μ², which adds up over transmissions. A device not listed has sent nothing.",
    ]
    if document["carried_epsilon"]:
        notes.append(
            f"every device starts from ε = {document['carried_epsilon']:g}, the most that one had spent before they "
            "were renumbered; it is counted above."
        )
    columns = ("device", "transmissions", "μ²", "ε", "budget left")
    print_table(columns, rows, title=f"{path}: {share}; {allowed} at δ = {document['delta']:g}", notes=notes)


def _report(path: Path, epsilon: float | None, delta: float | None) -> LedgerReport:
    ledger = DeviceLedger(path).read()
    last = ledger["budget"]
    at = delta if delta is not None else last["delta"] if last else DELTA
    allowed = epsilon if epsilon is not None else last["epsilon"] if last else None
    limit = None if allowed is None else OwnerBudget(allowed, at).mu_squared
    spent: list[DeviceSpending] = [
        {
            **entry,
            "device": int(device),
            "epsilon": spent_epsilon(entry["mu_squared"], delta=at),
            "budget_left": None if limit is None else max(0.0, 1 - entry["mu_squared"] / limit),
        }
        for device, entry in sorted(ledger["spent"].items(), key=lambda item: int(item[0]))
    ]
    return {
        "devices": ledger["devices"],
        "partition": ledger["partition"],
        "partitions": ledger["partitions"],
        "delta": at,
        "budget_epsilon": allowed,
        "adversary": Adversary.SERVER.value,
        "neighbours": Neighbours.DEVICE_EMPTIED.value,
        "spent": spent,
        "carried_epsilon": spent_epsilon(ledger["carried"]["mu_squared"], delta=at) if "carried" in ledger else 0.0,
    }
