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
    others: Mapping[str, object],
    *,
    devices: int | None,
    epsilon: float | None,
    delta: float | None,
    json: bool,
) -> None:
    """Make the ledger of `node`, if one is given, and show it; `others` are options that do not go with a ledger."""
    named = [name for name, value in others.items() if value is not None]
    if named:
        raise InputError(f"{named[0]}: a ledger holds what was spent; leave it out beside --ledger")
    if path is None:
        raise InputError("--create: makes the file of --ledger; give both")
    if node is not None:
        create(path, node, devices)
    elif devices is not None:
        raise InputError("--devices: the ledger says that; leave it out")
    if json or node is None:
        show(path, epsilon=epsilon, delta=delta, json=json)


def create(path: Path, node: str, devices: int | None) -> None:
    """Make the ledger of the node `PARTITION/PARTITIONS`, whose devices have never sent."""
    partition, _, partitions = node.partition("/")
    if not (partition.isdecimal() and partitions.isdecimal()):
        raise InputError(f"--create {node}: reads PARTITION/PARTITIONS, as in the node's config, such as 0/4")
    if devices is None:
        raise InputError("--devices: needed with --create; give the number of all devices of the deployment")
    DeviceLedger(path).create(devices=devices, partition=int(partition), partitions=int(partitions))
    say(f"{path}: the ledger of partition {partition} of {partitions} of {devices} devices; keep it, and back it up")


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
    }
