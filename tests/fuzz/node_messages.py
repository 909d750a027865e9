"""Messages of Flower's nodes and server, and the server's journal: read as typed values, or dropped with a reason."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from pfels.flower.messages import RAW, Greeting, NodeShare, TrainRequest, left_out, read_signals
from pfels.flower.round import RoundJournal
from tests.fuzz.target import Target, part, require

DEVICES, WIDTH = 3, 5
ROW = "AAAAAAAA"  # bytes as Latin-1 text
FULL = "\0" * (4 * DEVICES * WIDTH)


def _config(**fields: Any) -> Any:
    return {"kind": "config", "fields": fields}


def _array(shape: list[int], data: str, dtype: str = "float32", stype: str = RAW) -> Any:
    return {"kind": "array", "shape": shape, "dtype": dtype, "stype": stype, "data": data}


VALID = (
    (0, {"share": _config(partition=1, partitions=4, refused="")}),
    (0, {"share": _config(partition=3, partitions=4, refused="another config")}),
    (1, {"greeting": _config(config=json.dumps({"data.devices": 100}), digest="00")}),
    (2, {
        "request": _config(round=3, digest="00", seed=7, devices=[1, 5], waiting=[9]),
        "model": _array([2, 5], "\0" * 40),
    }),
    (3, {"x": _config(x={"bytes": FULL})}),
    (3, {"x": _array([DEVICES, WIDTH], FULL)}),
    (3, {"x": _array([DEVICES * WIDTH], FULL), "silent": _config(devices=[1])}),
    (4, {"refused": _config(devices=[1, 2]), "silent": _config(devices=[0])}),
)  # fmt: skip


def _corpus(folder: Path) -> Sequence[bytes]:
    found = [part(kind, json.dumps(content).encode()) for kind, content in VALID]
    return [*found, part(5, b'{"round": 3}\n')]


def _value(value: Any) -> Any:
    return value["bytes"].encode("latin1") if isinstance(value, Mapping) else value


def _record(about: Any) -> Any:
    if about["kind"] == "config":
        return ConfigRecord({key: _value(value) for key, value in about["fields"].items()})
    if about["kind"] == "metric":
        return MetricRecord(dict(about["fields"]))
    data = about["data"].encode("latin1")
    return ArrayRecord({"x": Array(dtype=about["dtype"], shape=tuple(about["shape"]), stype=about["stype"], data=data)})


def _message(data: bytes, folder: Path) -> None:
    kind = data[0] % 6
    if kind == 5:
        (folder / "begun.json").write_bytes(data[1:])
        began = RoundJournal(folder).begin(4)
        require(
            began == (json.loads((folder / "begun.json").read_bytes())["round"] == 4), "a journal that says nothing"
        )
        return
    try:  # what Flower itself would not carry is not for us
        content = RecordDict({key: _record(about) for key, about in json.loads(data[1:]).items()})
    except Exception:
        return
    _read(kind, content)


def _read(kind: int, content: RecordDict) -> None:
    if kind == 0:
        share = NodeShare.read(content)
        require(0 <= share.partition < share.partitions and share.refused.isprintable(), "an impossible share")
    elif kind == 1:
        greeting = Greeting.read(content)
        require(isinstance(greeting.config, dict) and isinstance(greeting.digest, str), "no greeting")
    elif kind == 2:
        request = TrainRequest.read(content)
        require(all(type(i) is int for i in (request.round, request.seed, *request.devices)), "no whole numbers")
        require(request.theta.dtype == torch.float32, "another type")
    elif kind == 3:
        rows = read_signals(content, devices=DEVICES, width=WIDTH)
        require(rows.shape == (DEVICES, WIDTH) and rows.dtype == torch.float32, "another shape")
    else:
        refused = left_out(content, "refused", among=[0, 1, 2])
        silent = left_out(content, "silent", among=[0, 1, 2])
        require(refused | silent <= {0, 1, 2} and not any(math.isnan(each) for each in refused), "another device")


TARGETS = (Target("message", _corpus, _message),)
