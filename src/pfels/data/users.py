"""Whose examples a device holds, and what a privacy figure takes to be public of the data: read without the examples.

A figure protects the data of one device. Where the data name their writers, a device should be one of them: then the
figure protects a person.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfels.data.catalog import find
from pfels.data.formats import npz
from pfels.documents.data import DataNote


class Users(NamedTuple):
    """How many examples each writer of a data set has."""

    counts: NDArray[np.int64]

    def with_at_least(self, examples: int) -> NDArray[np.int64]:
        """The numbers of the writers who have that many."""
        return np.flatnonzero(self.counts >= examples)


def of(writers: NDArray[Any] | None) -> Users | None:
    """The users of a data set, if it names them."""
    return None if writers is None else Users(np.unique(writers, return_counts=True)[1])


def defaults(path: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    """What an own file says of a `data` table that leaves it open: with writers in the file, each is a device.

    By another partition there are as many devices as writers as well.
    """
    users = of(npz.labels_and_notes(path).get(npz.WRITERS))
    if users is None:
        return {}
    partition, least = data.get("partition", "writer"), data.get("per_device")
    at_least = least if partition == "writer" and type(least) is int else 1
    found: dict[str, Any] = {"partition": "writer"}
    if count := len(users.with_at_least(at_least)):  # else the partition says that there is none
        found["devices"] = count
    return found


def notes(
    name: str, path: str | None, *, partition: str, devices: int, per_device: int | None, classes: int | None
) -> list[DataNote]:
    """What a reader of the privacy figures of these settings must know about their data."""
    if name != "file":
        known = name != "synthetic" and find(name).writers > 0
        return [_not_a_user(partition, None)] if known and partition != "writer" else []
    arrays = npz.labels_and_notes(Path(str(path)))
    users, found = of(arrays.get(npz.WRITERS)), []
    if users is not None and partition != "writer":
        found.append(_not_a_user(partition, min(devices, int(users.counts.max(initial=0)))))
    elif users is not None:
        found += _left_out(users, devices=devices, at_least=per_device or 1)
    if classes is None and npz.CLASSES not in arrays:
        most = 1 + max(int(arrays[name].max(initial=0)) for name in ("y_train", "y_test"))
        sentence = (
            f"the number of classes, {most}, is the largest label of all devices and of the test set plus 1, and was "
            f"taken to be public; if it is, say so by data.classes = {most}, or by {npz.CLASSES} in the file"
        )
        found.append({"name": "classes inferred", "sentence": sentence})
    return found


def _not_a_user(partition: str, most: int | None) -> DataNote:
    note: DataNote = {
        "name": "a device is not a user",
        "sentence": f'a device is not a user: data.partition = "{partition}" deals out the examples of each writer to '
        'several devices, so ε protects one device\'s share of them; use data.partition = "writer" to protect all '
        "examples of a writer",
    }
    if most is not None:
        note["devices_per_user"] = most
    return note


def _left_out(users: Users, *, devices: int, at_least: int) -> list[DataNote]:
    """The writers who are on no device."""
    able, parts = users.with_at_least(at_least), []
    few, examples = len(users.counts) - len(able), int(users.counts[users.counts < at_least].sum())
    if few:
        parts.append(f"{few:,}, who have fewer than data.per_device = {at_least} examples ({examples:,} in all)")
    if len(able) > devices:
        parts.append(f"{len(able) - devices:,}, because data.devices = {devices}")
    if not parts:
        return []
    sentence = f"left out of {len(users.counts):,} writers in the file: {' and '.join(parts)}"
    return [{"name": "writers left out", "sentence": sentence}]
