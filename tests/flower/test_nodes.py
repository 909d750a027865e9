"""Which nodes take part, with which devices and which data; a node does no more than its part."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict

from pfels.config.load import load_config
from pfels.errors import InputError, RunError
from pfels.experiment.setup import federate
from pfels.flower import client_app, messages
from pfels.flower import nodes as nodes_module
from pfels.flower.local_data import NodeData, local_federation
from tests.flower.in_process import FIRST_NODE, distance, has_signals, refused, simulated

Flower = Callable[..., Any]


def test_no_connected_node_is_an_error(flower: Flower, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nodes_module, "FIRST_NODE_S", 0.5)
    with pytest.raises(RunError, match=r"no node has answered within 0\.5 s"):
        flower(partitions=0)


def test_the_first_node_may_take_longer_than_the_reply_timeout(flower: Flower):
    began = time.monotonic()
    result, _ = flower(scheme="pfels", rounds=1, late=lambda grid, partition: time.monotonic() < began + 0.5)
    assert result.records[0]["replies"]["short"] is False


def test_a_node_with_another_config_is_refused_by_the_key(flower: Flower, tmp_path: Path):
    line = "node 102 (partition-id 2): privacy.epsilon = 0.1 on the node, 0.5 at the server: they must be the same"
    with pytest.raises(RunError, match=re.escape(line)):
        flower(nodes=[{}, {}, {"privacy.epsilon": 0.1}, {}])
    assert not (tmp_path / "run").exists()


def test_a_node_that_fixes_a_key_which_the_scheme_ignores_does_not_take_part(flower: Flower):
    with pytest.raises(RunError, match=r"partition-id 1\): privacy\.total_epsilon: pfels does not use it"):
        flower(scheme="pfels", partitions=2, nodes=[{}, {"privacy.total_epsilon": 1.0}])


def test_a_device_is_never_on_two_nodes(flower: Flower):
    """A node with another number of partitions would send for some devices again, at twice their sensitivity."""
    with pytest.raises(RunError, match=r"partition-id 0\): num-partitions = (2, 3|3, 2) on other nodes"):
        flower(partitions=2, nodes=[{}, {"partition-id": 0, "num-partitions": 3}])


def test_a_conflicting_node_that_joins_later_is_left_out_and_the_run_continues(flower: Flower):
    seen = []

    def late(grid: Any, partition: int) -> bool:
        seen.append(grid)
        return False

    def join(reply: Message, partition: int) -> Message:
        if has_signals(reply):
            config, grid = {"partition-id": 0, "num-partitions": 3}, seen[0]
            grid.contexts.setdefault(999, Context(1, 999, config, RecordDict(), grid.contexts[FIRST_NODE].run_config))
        return reply

    result, grid = flower(scheme="pfels", partitions=2, rounds=3, change=join, late=late)
    assert 999 in {message.metadata.dst_node_id for message in grid.sent}
    assert 999 not in {message.metadata.dst_node_id for message in grid.requests}
    assert distance(result.parameters, simulated(scheme="pfels", rounds=3).parameters) < 1e-6


def test_settings_of_one_machine_may_differ(flower: Flower):
    result, _ = flower(nodes=[{"run.workers": 1}, {"run.engine": "threaded"}], partitions=2, rounds=3)
    assert distance(result.parameters, simulated(rounds=3).parameters) < 1e-5


def write_local(path: Path, federation: Any, devices: list[int]) -> None:
    """The examples of some devices as a node's own file."""
    parts = [federation.examples([device]) for device in devices]
    x, y = (np.concatenate([getattr(part, name)[0].numpy() for part in parts]) for name in ("x", "y"))
    names = np.repeat(np.arange(len(devices)), [len(part.y[0]) for part in parts])
    np.savez(path, x_train=x[:, 0], y_train=y, x_test=x[:1, 0], y_test=y[:1], writer_train=names)


def test_nodes_train_on_data_of_their_own(flower: Flower, tmp_path: Path):
    federation = federate(load_config("demo"))
    nodes = []
    for partition in range(2):
        write_local(tmp_path / f"{partition}.npz", federation, list(range(partition, 100, 2)))
        nodes.append({"local-data": str(tmp_path / f"{partition}.npz"), "ledger": "none"})
    result, _ = flower(scheme="pfels", rounds=3, partitions=2, nodes=nodes)
    assert distance(result.parameters, simulated(scheme="pfels", rounds=3).parameters) < 1e-6


def test_local_data_of_another_shape_or_for_other_devices_are_refused(tmp_path: Path):
    config, share = load_config("demo"), messages.NodeShare(0, 50)
    path = tmp_path / "own.npz"
    write_local(path, federate(config), [0, 50, 51])
    with pytest.raises(InputError, match="holds the examples of 3 devices; this node carries 2"):
        local_federation(str(path), config, share, classes=10)
    np.savez(path, x_train=np.zeros((4, 5)), y_train=np.zeros(4, int), x_test=np.zeros((1, 5)), y_test=np.zeros(1, int))
    with pytest.raises(InputError, match=r"examples of shape \(5,\); must be \(1, 8, 8\)"):
        local_federation(str(path), config, share, classes=10)


def own_file(path: Path, y: list[int], writers: list[str], **more: Any) -> str:
    """A file of numbers whose examples follow from their labels and places."""
    x = np.random.default_rng(0).normal(size=(len(y), 5)).astype(np.float32)
    np.savez(path, x_train=x, y_train=y, x_test=x[:1], y_test=y[:1], writer_train=writers, **more)
    return str(path)


OWN = {"data.name": "file", "data.devices": 2, "data.partition": "writer", "cohort.size": 1, "model.hidden": 4}


def test_the_number_of_classes_is_said_and_never_read_off_a_nodes_labels(tmp_path: Path):
    share, served = messages.NodeShare(0, 1), {**OWN, "data.path": str(tmp_path / "of-the-server.npz")}
    silent = own_file(tmp_path / "silent.npz", [0, 1, 0, 1], ["ann", "ann", "bob", "bob"])
    stated = own_file(tmp_path / "stated.npz", [0, 1, 0, 1], ["ann", "ann", "bob", "bob"], classes=4)
    config, with_four = load_config("demo", served), load_config("demo", {**served, "data.classes": 4})
    with pytest.raises(InputError, match=r"silent\.npz': how many classes\? Set data\.classes, or classes in the file"):
        NodeData.of(config, share, silent, 0)
    for path, said in ((silent, with_four), (stated, with_four), (stated, config)):
        assert NodeData.of(said, share, path, 0).classes == 4
    with pytest.raises(InputError, match=r"stated\.npz': says classes = 4, but the run has data\.classes = 5"):
        NodeData.of(load_config("demo", {**served, "data.classes": 5}), share, stated, 0)


def test_a_node_without_the_top_label_takes_part_in_a_run_on_a_file(flower: Flower, tmp_path: Path):
    """The model has as many classes as the run says, whatever a node's own labels are."""
    y, names = [0, 1, 2, 0, 1, 0, 1, 0], ["a"] * 3 + ["b"] * 2 + ["c"] * 2 + ["d"]
    served = own_file(tmp_path / "all.npz", y, names)
    x = np.load(served)["x_train"]
    nodes = []
    for partition in range(2):
        mine = [i for i, name in enumerate(names) if "abcd".index(name) % 2 == partition]
        path = tmp_path / f"{partition}.npz"
        arrays = {"x_train": x[mine], "y_train": np.array(y)[mine], "writer_train": np.array(names)[mine]}
        np.savez(path, **arrays, x_test=x[:1], y_test=y[:1])
        nodes.append({"local-data": str(path), "ledger": "none"})
    run = {"data__name": "file", "data__path": served, "data__classes": 3, "cohort__size": 2, "rounds": 2}
    said = {"data__devices": 4, "data__partition": "writer"}
    result, _ = flower(scheme="pfels", partitions=2, nodes=nodes, **run, **said)
    assert distance(result.parameters, simulated(scheme="pfels", **run).parameters) < 1e-6


def test_local_data_get_the_features_of_the_run(tmp_path: Path):
    share, path = messages.NodeShare(0, 50), tmp_path / "own.npz"
    write_local(path, federate(load_config("demo")), [0, 50])  # pixels
    config = load_config("demo", {"data.features": "hog"})
    (mine, _), everyone = local_federation(str(path), config, share, classes=10), federate(config)
    assert mine.shape == everyone.shape == (36,)
    for device in (0, 50):
        ours, theirs = mine.examples([device]), everyone.examples([device])
        np.testing.assert_array_equal(ours.x.numpy(), theirs.x.numpy())
        np.testing.assert_array_equal(ours.y.numpy(), theirs.y.numpy())
    np.savez(
        path, x_train=np.zeros((4, 36)), y_train=np.zeros(4, int), x_test=np.zeros((1, 36)), y_test=np.zeros(1, int)
    )
    with pytest.raises(InputError, match=r"examples of shape \(36,\); must be \(1, 8, 8\)"):
        local_federation(str(path), config, share, classes=10)


def test_a_node_does_no_more_than_its_part(flower: Flower, caplog: pytest.LogCaptureFixture):
    """Whatever a server asks: not for devices of other nodes, not for devices that were not drawn, not twice."""
    result, grid = flower(scheme="pfels", rounds=2)
    first = grid.requests[0]
    context = grid.contexts[first.metadata.dst_node_id]
    with refused(caplog, "already answered"):
        client_app.app(first, context)
    request = messages.TrainRequest.read(first.content)
    del context.state["done"]  # as if the node had not been asked yet
    fields = first.content["request"]
    for number in (-1, 2, 10**12):
        fields["round"] = number
        with refused(caplog, f"round {number}: already answered, or not one of 2 rounds"):
            client_app.app(first, context)
    fields["round"] = request.round
    mine = set(range(first.metadata.dst_node_id - FIRST_NODE, 100, 4))
    elsewhere = min(set(range(100)) - mine)
    not_drawn = min(mine - set(result.records[0]["cohort"]))
    for device in (elsewhere, not_drawn):
        fields["devices"] = [device]
        with refused(caplog, f"device {device} is not on this node or was not drawn"):
            client_app.app(first, context)
    fields["devices"] = list(request.devices)
    for device in (elsewhere, not_drawn, request.devices[0]):
        fields["waiting"] = [device]
        with refused(caplog, f"device {device} is not on this node or was not drawn"):
            client_app.app(first, context)
    fields["waiting"], fields["digest"] = list(request.waiting), "0" * 64
    with refused(caplog, "config is not the one of this run"):
        client_app.app(first, context)
