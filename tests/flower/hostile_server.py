"""A node with data of its own, and a server that asks it for whatever it likes; see test_discreet_nodes.py."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Context, Message, MessageType, RecordDict

from pfels.config.load import load_config
from pfels.experiment.setup import Experiment, build, federate
from pfels.flower import client_app, settings
from pfels.flower.messages import TrainRequest, size
from pfels.privacy.device_ledger import DeviceLedger
from pfels.uplink.clipping import norms

PARTITIONS = 50
DEVICES = [0, 50]
VICTIM = 0
Arrays = dict[str, Any]


def honest() -> Arrays:
    """The examples of the demo's devices 0 and 50 as a node's own file."""
    federation = federate(load_config("demo"))
    parts = [federation.examples([device]) for device in DEVICES]
    x, y = (np.concatenate([getattr(part, name)[0].numpy() for part in parts]) for name in ("x", "y"))
    writers = np.repeat(np.arange(len(DEVICES)), [len(part.y[0]) for part in parts])
    return {"x_train": x[:, 0], "y_train": y, "x_test": x[:1, 0], "y_test": y[:1], "writer_train": writers,
            "writer_names": np.arange(len(DEVICES))}  # fmt: skip


def of_victim(arrays: Arrays, name: str, value: Any) -> Arrays:
    changed = arrays[name].copy()
    changed[arrays["writer_train"] == VICTIM] = value
    return arrays | {name: changed}


def without_names(arrays: Arrays) -> Arrays:
    """Emptied, in a file that does not say whom else there is."""
    return {name: array for name, array in without_victim(arrays).items() if name != "writer_names"}


def without_anybody(arrays: Arrays) -> Arrays:
    return arrays | {name: arrays[name][:0] for name in ("x_train", "y_train", "writer_train")}


def without_victim(arrays: Arrays) -> Arrays:
    left = arrays["writer_train"] != VICTIM
    return arrays | {name: arrays[name][left] for name in ("x_train", "y_train", "writer_train")}


WORLDS: dict[str, Callable[[Arrays], Arrays]] = {
    "as they are": lambda arrays: arrays,
    "emptied": without_victim,
    "emptied and not named": without_names,
    "nobody has any": without_anybody,
    "zeros": lambda arrays: of_victim(arrays, "x_train", 0.0),
    "tiny": lambda arrays: of_victim(arrays, "x_train", 1e-42),
    "extreme": lambda arrays: of_victim(arrays, "x_train", 3e38),
    "of alternating sign": lambda arrays: of_victim(arrays, "x_train", np.where(np.arange(8) % 2, 1e30, -1e30)),
    "not a number": lambda arrays: of_victim(arrays, "x_train", np.nan),
    "infinite": lambda arrays: of_victim(arrays, "x_train", -np.inf),
    "one label": lambda arrays: of_victim(arrays, "y_train", 9),
    "a label beyond the classes": lambda arrays: of_victim(arrays, "y_train", 31),
    "a huge label": lambda arrays: of_victim(arrays, "y_train", 2**62),
    "a negative label": lambda arrays: of_victim(arrays, "y_train", -1),
}


@dataclass
class Node:
    """A node of its own folder, whose ledger outlives its runs."""

    folder: Path
    run: int = 0

    @classmethod
    def of(cls, folder: Path, arrays: Arrays) -> "Node":
        folder.mkdir()
        np.savez(folder / "own.npz", **arrays)
        DeviceLedger(folder / "ledger.json").create(devices=100, partition=0, partitions=PARTITIONS)
        return cls(folder)

    @property
    def config(self) -> dict[str, Any]:
        return {
            "partition-id": 0, "num-partitions": PARTITIONS, "local-data": str(self.folder / "own.npz"),
            "ledger": str(self.folder / "ledger.json"), "budget-epsilon": 300.0, "budget-delta": 1e-5,
        }  # fmt: skip

    def answer(self, content: RecordDict, kind: str, run: dict[str, Any], state: RecordDict) -> tuple[Any, Any]:
        """What a server observes of the answer, without the signals' values; and the reply."""
        message = Message(content, 100, kind, group_id="1")
        message.metadata.__dict__["_message_id"] = "1"
        self.run += 1
        try:
            reply = client_app.app(message, Context(self.run, 100, self.config, state, run))
        except Exception as error:  # as Flower reports it
            return (f"{type(error)}:<'{error}'>", str(error.__cause__)), None
        said = {
            name: sorted((key, value) for key, value in record.items() if not isinstance(value, bytes))
            for name, record in reply.content.items()
        }
        return (size(reply.content), json.dumps(said, default=repr)), reply

    @property
    def spent(self) -> Any:
        return DeviceLedger(self.folder / "ledger.json").read()["spent"]


BASE = {"preset": "demo", "rounds": 6, "noise": "secret", "out": "x", "cohort.size": 40}
SCHEMES: dict[str, dict[str, Any]] = {
    "wfl-pdp": {"scheme": "wfl-pdp"},
    "dp-fedavg": {"scheme": "dp-fedavg", "privacy.epsilon": 0.05},
    "artificial-noise": {"scheme": "artificial-noise"},
    "feedback": {"scheme": "pfels-plus", "compression.error_feedback": True, "compression.ratio": 0.5, "rounds": 9},
    "echo": {"scheme": "pfels-echo", "compression.ratio": 1.0, "cohort.size": 20},
}


def experiment(run: dict[str, Any]) -> tuple[Experiment, str] | None:
    try:
        config = settings.config_of(run)
        return build(config), settings.digest(config, "secret")
    except Exception:
        return None  # the server sends what it likes


def one_round(tmp_path: Path, arrays: Arrays, name: str = "node", **more: Any) -> tuple[torch.Tensor, Node, Experiment]:
    """The signals of both devices in the first round in which both send, one row per device."""
    run = {**BASE, "scheme": "wfl-pdp", **more}
    found = experiment(run)
    assert found is not None
    started, digest = found
    theta = started.draws.start
    assert theta is not None
    t = next(t for t in range(6) if set(DEVICES) <= set(started.scheme.prepare(started.draws, t).sending.tolist()))
    node = Node.of(tmp_path / name, arrays)
    request = TrainRequest(t, digest, None, theta, DEVICES, [])
    _, reply = node.answer(request.record(), MessageType.TRAIN, run, RecordDict())
    raw = reply.content["x"]["x"]
    plan = started.scheme.prepare(started.draws, t)
    rows = torch.frombuffer(bytearray(raw), dtype=torch.float32).view(len(DEVICES), -1)
    for device, row in zip(DEVICES, rows if plan.air is not None else (), strict=plan.air is not None):
        place = plan.sending.tolist().index(device)
        assert float(norms(row.unsqueeze(0))) <= plan.require_air().longest(place, width=len(row)) * (1 + 1e-6)
    return rows, node, started
