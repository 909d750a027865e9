"""What travels between server and nodes: the model down, k numbers a device up, and never an index or a gain.

Numbers travel as plain little-endian float32, four bytes each. Whatever does not look as it must raises
UnusableError, with the reason under which it is counted.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray
from torch import Tensor

RAW = "float32-le"  # how an array's bytes are to be read
SMALL = 2**18  # so many numbers go in one piece, which costs Flower's envelope least; more are cut into chunks


class UnusableError(Exception):
    """A message that cannot be used; its text is the reason."""


@dataclass(frozen=True)
class Hello:
    """The server's first word: the config it works with, and its hash."""

    config: Mapping[str, Any]
    digest: str

    def record(self) -> RecordDict:
        """As a message's content."""
        return RecordDict({"hello": ConfigRecord({"config": json.dumps(self.config), "digest": self.digest})})

    @classmethod
    def read(cls, content: RecordDict) -> Self:
        """From a message's content."""
        record = content["hello"]
        return cls(json.loads(record["config"]), record["digest"])


@dataclass(frozen=True)
class Place:
    """A node's answer: it carries the devices i with i mod `partitions` = `partition`, or why it will not take part."""

    partition: int
    partitions: int
    refused: str = ""

    def record(self) -> RecordDict:
        """As a message's content."""
        about = {"partition": self.partition, "partitions": self.partitions, "refused": self.refused}
        return RecordDict({"place": ConfigRecord(about)})

    @classmethod
    def read(cls, content: RecordDict) -> Self:
        """From a message's content."""
        try:
            record = content["place"]
            place = cls(int(record["partition"]), int(record["partitions"]), str(record["refused"]))
        except (KeyError, TypeError, ValueError):
            raise UnusableError("not an answer to a greeting") from None
        if not 0 <= place.partition < place.partitions:
            raise UnusableError(f"partition-id = {place.partition} of num-partitions = {place.partitions}")
        return place

    def carries(self, devices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some devices that live on this node."""
        held: NDArray[np.int64] = devices[devices % self.partitions == self.partition]
        return held


@dataclass(frozen=True)
class Ask:
    """A round's request to a node: train these devices from θ and send; `waiting` train and keep what they learn."""

    round: int
    digest: str
    theta: Tensor
    devices: Sequence[int]
    waiting: Sequence[int]

    def record(self) -> RecordDict:
        """As a message's content."""
        about = {
            "round": self.round,
            "digest": self.digest,
            "devices": list(self.devices),
            "waiting": list(self.waiting),
        }
        return RecordDict({"model": packed(self.theta), "ask": ConfigRecord(about)})

    @classmethod
    def read(cls, content: RecordDict, *, dimension: int) -> Self:
        """From a message's content."""
        record, theta = content["ask"], numbers(content["model"])
        if theta.shape != (dimension,):
            raise UnusableError(f"a model of {theta.numel():,} parameters; this node has {dimension:,}")
        return cls(record["round"], record["digest"], theta, list(record["devices"]), list(record["waiting"]))


def answer(signals: Tensor) -> RecordDict:
    """A node's signals of a round: a row of k numbers for each device it was asked for, in that order, and no more."""
    if signals.numel() <= SMALL:
        return RecordDict({"x": ConfigRecord({"x": _raw(signals)})})
    return RecordDict({"x": packed(signals)})


def signals(content: RecordDict, *, devices: int, width: int) -> Tensor:
    """The signals of an answer, which may be anything."""
    try:
        record = content["x"]
        found = _read(record["x"]) if isinstance(record, ConfigRecord) else numbers(record)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UnusableError("malformed") from None
    if found.numel() != devices * width:
        raise UnusableError("wrong length")
    return found.view(devices, width)


def size(part: Any) -> int:
    """The bytes of a message, or of a part of one, as Flower puts it on the line."""
    return len(part.deflate()) + sum(size(child) for child in (part.children or {}).values())


def packed(values: Tensor) -> ArrayRecord:
    """Numbers as a record."""
    return ArrayRecord({"x": Array(dtype="float32", shape=tuple(values.shape), stype=RAW, data=_raw(values))})


def numbers(record: ArrayRecord) -> Tensor:
    """The numbers of a record; ValueError or KeyError where it holds none."""
    array = record["x"]
    if array.stype != RAW or array.dtype != "float32":
        raise ValueError(f"{array.dtype} as {array.stype}")
    return _read(array.data).view(array.shape)


def _raw(values: Tensor) -> bytes:
    return values.detach().cpu().numpy().astype("<f4", copy=False).tobytes()


def _read(raw: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(raw, dtype="<f4").astype(np.float32))
