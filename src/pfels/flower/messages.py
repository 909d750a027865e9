"""The messages between server and nodes: the model down, k numbers per device up, never an index set or a gain.

Numbers travel as little-endian float32, four bytes each. A message that is not as it must be raises UnusableError, with
the reason under which it is counted.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from torch import Tensor

from pfels.arrays import DeviceIds
from pfels.errors import InputError, shown
from pfels.seeding import Secret

RAW = "float32-le"  # name of the serialisation, in each array's record
SMALL = 2**18  # up to this many numbers are sent as one field, with minimum overhead; more are sent in chunks
REFUSED = "refused; the node's own log says why"  # all that a server learns, whatever the reason
REASON = 300  # characters of a node's reason that are repeated in the server's log


class UnusableError(InputError):
    """A message that cannot be used; its text is the reason."""


@dataclass(frozen=True)
class Greeting:
    """The server's first message: the shared part of its config, and its hash."""

    config: Mapping[str, Any]
    digest: str

    def record(self) -> RecordDict:
        """As the content of a message."""
        return RecordDict({"greeting": ConfigRecord({"config": json.dumps(self.config), "digest": self.digest})})

    @classmethod
    def read(cls, content: RecordDict) -> Self:
        """From the content of a message."""
        try:
            record = content["greeting"]
            config, digest = json.loads(record["config"]), record["digest"]
        except (KeyError, TypeError, ValueError, RecursionError):
            raise UnusableError("not a greeting") from None
        if not isinstance(config, dict) or not isinstance(digest, str):
            raise UnusableError("not a greeting")
        return cls(config, digest)


@dataclass(frozen=True)
class NodeShare:
    """A node's reply to a greeting: it carries the devices i with i mod `partitions` = `partition`.

    `refused` is the reason why it does not take part, empty if it does.
    """

    partition: int
    partitions: int
    refused: str = ""

    def record(self) -> RecordDict:
        """As the content of a message."""
        fields = {"partition": self.partition, "partitions": self.partitions, "refused": self.refused}
        return RecordDict({"share": ConfigRecord(fields)})

    @classmethod
    def read(cls, content: RecordDict) -> Self:
        """From the content of a message."""
        try:
            record = content["share"]
            partition, partitions, refused = record["partition"], record["partitions"], record["refused"]
        except (KeyError, TypeError):
            raise UnusableError("not a reply to a greeting") from None
        if type(partition) is not int or type(partitions) is not int or not isinstance(refused, str):
            raise UnusableError("not a reply to a greeting")
        share = cls(partition, partitions, shown(refused, maximum=REASON))
        if not 0 <= share.partition < share.partitions:
            raise UnusableError(f"partition-id = {share.partition} of num-partitions = {share.partitions}")
        return share

    def of(self, devices: DeviceIds) -> DeviceIds:
        """Those of the given devices that this node carries."""
        mine: DeviceIds = devices[devices % self.partitions == self.partition]
        return mine


@dataclass(frozen=True)
class TrainRequest:
    """A round's request to a node: `devices` send, those whose turn it is after training from θ; `waiting` train and
    keep their update. `secret` is the run's seed where that is secret."""

    round: int
    digest: str
    secret: Secret | None
    theta: Tensor
    devices: Sequence[int]
    waiting: Sequence[int]

    def record(self) -> RecordDict:
        """As the content of a message."""
        fields = {
            "round": self.round,
            "digest": self.digest,
            "secret": b"" if self.secret is None else self.secret.key,
            "devices": list(self.devices),
            "waiting": list(self.waiting),
        }
        return RecordDict({"model": packed(self.theta), "request": ConfigRecord(fields)})

    @classmethod
    def read(cls, content: RecordDict) -> Self:
        """From the content of a message."""
        try:
            record, theta = content["request"], numbers(content["model"])
            t, digest, key = record["round"], record["digest"], record["secret"]
            devices, waiting = record["devices"], record["waiting"]
            secret = Secret(key) if key else None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UnusableError("not a request") from None
        whole = all(isinstance(some, list) and all(type(i) is int for i in some) for some in (devices, waiting))
        if type(t) is not int or not isinstance(key, bytes) or not isinstance(digest, str) or not whole:
            raise UnusableError("not a request")
        return cls(t, digest, secret, theta, list(devices), list(waiting))


def signals_record(signals: Tensor, silent: Sequence[int] = (), refused: Sequence[int] = ()) -> RecordDict:
    """A node's reply in a round: one row of k numbers per requested device, in the order of the request.

    `silent` are requested devices that have nothing to repeat, because their node was started again, and `refused`
    those that have spent their owner's budget; no row is theirs.
    """
    named = {"silent": silent, "refused": refused}
    said = {name: ConfigRecord({"devices": list(devices)}) for name, devices in named.items() if devices}
    if signals.numel() <= SMALL:
        return RecordDict({"x": ConfigRecord({"x": _bytes(signals)}), **said})
    return RecordDict({"x": packed(signals), **said})


def left_out(content: RecordDict, name: str, *, among: Collection[int]) -> set[int]:
    """The devices that a node's reply leaves out under a name (`silent` or `refused`), which must be among these."""
    if name not in content:
        return set()
    record = content[name]
    devices = record.get("devices") if isinstance(record, ConfigRecord) else None
    if not isinstance(devices, list) or any(type(device) is not int for device in devices):
        raise UnusableError("malformed")
    if len(set(devices)) < len(devices) or not set(devices) <= set(among):
        raise UnusableError("malformed")
    return set(devices)


def read_signals(content: RecordDict, *, devices: int, width: int) -> Tensor:
    """The signals in a node's reply, one row per device."""
    try:
        record = content["x"]
        found = _tensor(record["x"]) if isinstance(record, ConfigRecord) else numbers(record)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UnusableError("malformed") from None
    if found.numel() != devices * width:
        raise UnusableError("wrong length")
    return found.view(devices, width)


def size(part: Any) -> int:
    """The bytes of a message, or of a part of one, as Flower transmits it."""
    return len(part.deflate()) + sum(size(child) for child in (part.children or {}).values())


def packed(values: Tensor) -> ArrayRecord:
    """Numbers as a record."""
    return ArrayRecord({"x": Array(dtype="float32", shape=tuple(values.shape), stype=RAW, data=_bytes(values))})


def numbers(record: ArrayRecord) -> Tensor:
    """The numbers in a record; ValueError or KeyError if it holds none."""
    array = record["x"]
    if array.stype != RAW or array.dtype != "float32":
        raise ValueError(f"{array.dtype} as {array.stype}")
    if any(length < 0 for length in array.shape) or 4 * math.prod(array.shape) != len(array.data):
        raise ValueError(f"{len(array.data)} bytes for the shape {array.shape}")
    return _tensor(array.data).view(array.shape)


def _bytes(values: Tensor) -> bytes:
    return values.detach().cpu().numpy().astype("<f4", copy=False).tobytes()


def _tensor(raw: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(raw, dtype="<f4").astype(np.float32))
