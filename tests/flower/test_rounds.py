"""Rounds over Flower's messages: the simulator's result, only k numbers up, and nothing that breaks it."""

import json
import re
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from pydantic import BaseModel

from pfels.config.load import load_config
from pfels.config.tree import Config
from pfels.errors import InputError, RunError
from pfels.experiment import loop
from pfels.experiment.setup import federate
from pfels.flower import client_app, messages, settings
from pfels.flower import nodes as fleet
from pfels.flower.local_data import own_federation
from pfels.flower.loopback import APP
from pfels.flower.server_app import told
from pfels.report.page import write_report

Flower = Callable[..., Any]


def simulated(**changes: Any) -> loop.Result:
    return loop.run(load_config("demo", {"rounds": 10} | {k.replace("__", "."): v for k, v in changes.items()}))


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


@pytest.mark.parametrize(
    "changes",
    [
        {"scheme": "pfels"},
        {"scheme": "wfl-p"},
        {"scheme": "wfl-pdp"},
        {"scheme": "dp-fedavg"},
        {"scheme": "fedavg"},
        {"scheme": "pfels-plus"},
        {"scheme": "pfels-plus", "compression__error_feedback": True},
        {"scheme": "pfels-plus", "compression__kind": "public-top-k", "server__momentum": 0.5},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_the_model_is_the_simulators(flower: Flower, changes: dict[str, Any]):
    result, _ = flower(**changes)
    own = simulated(**changes)
    assert apart(result.parameters, own.parameters) < 1e-6
    for here, there in zip(result.records, own.records, strict=True):
        assert here["cohort"] == there["cohort"]
        assert here["participants"] == there["participants"]
        assert here["privacy"] == there["privacy"]
        if there["energy"] is not None:
            assert here["energy"] == pytest.approx(there["energy"], rel=1e-5)
    assert result.summary["privacy"] == own.summary["privacy"]


@pytest.mark.parametrize("partitions", [1, 7, 100])
def test_how_devices_are_spread_over_nodes_makes_no_difference(flower: Flower, partitions: int):
    result, _ = flower(scheme="pfels", partitions=partitions, rounds=4)
    assert apart(result.parameters, simulated(scheme="pfels", rounds=4).parameters) < 1e-6


def test_a_device_uploads_k_numbers_and_hardly_more(flower: Flower):
    replies = []

    def keep(reply: Message, partition: int) -> Message:
        replies.append(reply)
        return reply

    result, grid = flower(scheme="pfels", spoil=keep, rounds=3)
    k = result.records[0]["subcarriers"]
    answers = [reply.content for reply in replies if "place" not in reply.content]
    assert answers
    assert all(set(content) == {"x"} for content in answers)
    rows = [len(m.content["ask"]["devices"]) for m in grid.asked if "ask" in m.content]
    assert [len(content["x"]["x"]) for content in answers] == [4 * k * count for count in rows]
    for record in result.records:
        assert 4 * k <= record["replies"]["bytes_per_device"] <= 1.05 * 4 * k
    asks = [m.content for m in grid.asked if "ask" in m.content]
    assert all(
        set(content["ask"]) == {"round", "digest", "devices", "waiting"} for content in asks
    )  # no index, no gain
    assert "FedAvg would upload 9,640" in told(result)[-1]


def garbage(kind: str) -> Callable[[Message, int], Message]:
    """What node 1 answers instead of its signals; the others are honest."""

    def spoil(reply: Message, partition: int) -> Message:
        if partition != 1 or not is_answer(reply):
            return reply
        x = torch.frombuffer(bytearray(reply.content["x"]["x"]), dtype=torch.float32).view(-1, 723)
        answer = {
            "wrong length": messages.answer(x[:, :-1]),
            "a row too many": messages.answer(torch.cat([x, x[:1]])),
            "not finite": messages.answer(x * float("nan")),
            "above its norm bound": messages.answer(x * 1e6 + 1),
            "for another round": messages.answer(x),
            "malformed": RecordDict({}),
            "half a number": RecordDict({"x": ConfigRecord({"x": b"abc"})}),
            "not numbers": RecordDict({"x": ConfigRecord({"x": "abc"})}),
        }
        reply.content = answer[kind]
        if kind == "for another round":
            reply.metadata.__dict__["_group_id"] = "77"
        return reply

    return spoil


REASONS = {"a row too many": "wrong length", "half a number": "malformed", "not numbers": "malformed"}


@pytest.mark.parametrize(
    "kind",
    [*REASONS, "wrong length", "not finite", "above its norm bound", "for another round", "malformed"],
)
@pytest.mark.parametrize("scheme", ["pfels", "pfels-plus"])
def test_garbage_is_dropped_counted_and_harmless(flower: Flower, kind: str, scheme: str):
    result, _ = flower(scheme=scheme, spoil=garbage(kind), rounds=5, out="garbage")
    silent, _ = flower(scheme=scheme, spoil=unheard, rounds=5, out="silent")
    reason = REASONS.get(kind, kind)
    dropped = sum(record["replies"]["dropped"].get(reason, 0) for record in result.records)
    lost = sum(record["replies"]["expected"] - record["replies"]["used"] for record in result.records)
    assert dropped == lost > 0
    assert torch.equal(result.parameters, silent.parameters), "a node that lies is a node that says nothing"
    assert torch.isfinite(result.parameters).all()


def is_answer(reply: Message) -> bool:
    return not reply.has_error() and "place" not in reply.content


def unheard(reply: Message, partition: int) -> Message | None:
    """Node 1 never answers a round."""
    return None if partition == 1 and is_answer(reply) else reply


def test_a_round_without_some_of_its_devices_is_short_and_goes_on(flower: Flower):
    result, _ = flower(scheme="pfels", spoil=unheard, rounds=4)
    for record in result.records:
        away = sum(device % 4 == 1 for device in record["cohort"])
        replies = record["replies"]
        assert replies["short"] == (away > 0)
        assert record["silent"] == away == replies["expected"] - replies["used"]
        assert replies["dropped"] == {}
    assert any(record["replies"]["short"] for record in result.records)
    assert result.summary["privacy"]["server"] == simulated(scheme="pfels", rounds=4).summary["privacy"]["server"]


def test_who_is_not_heard_in_dp_fedavg_leaves_the_sum_its_noise(flower: Flower):
    """An outsider's figure counts on the noise of the whole cohort: the server makes up for what is missing."""
    all_heard, _ = flower(scheme="dp-fedavg", rounds=1, out="heard")
    short, _ = flower(scheme="dp-fedavg", rounds=1, spoil=unheard, out="short")
    quiet = {"scheme": "dp-fedavg", "rounds": 1, "privacy__epsilon": 1e6}
    updates, _ = flower(**quiet, out="updates")
    kept, _ = flower(**quiet, spoil=unheard, out="kept")
    missing = updates.parameters - kept.parameters
    assert missing.norm() > 1e-3
    assert apart(all_heard.parameters - short.parameters, missing) < 1e-5
    assert short.summary["privacy"] == all_heard.summary["privacy"]


def test_the_log_tells_nothing_of_a_single_update(flower: Flower):
    result, _ = flower(scheme="pfels", rounds=2)
    assert all(record["device_energy"] is None and record["energy"] > 0 for record in result.records)


def test_many_numbers_travel_in_chunks_and_arrive_the_same():
    signals = torch.randn(3, messages.SMALL // 2)
    content = messages.answer(signals)
    assert not isinstance(content["x"], ConfigRecord)
    assert torch.equal(messages.signals(content, devices=3, width=messages.SMALL // 2), signals)
    with pytest.raises(messages.UnusableError, match="wrong length"):
        messages.signals(content, devices=2, width=messages.SMALL // 2)


def test_nobody_connected_is_said(flower: Flower, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fleet, "FIRST_S", 0.5)
    with pytest.raises(RunError, match=r"no node has answered within 0\.5 s"):
        flower(partitions=0)


def test_a_node_that_answers_late_is_silent_until_it_is_heard(flower: Flower):
    """Busy with another run, or started after the server: the rounds go on without it, and then with it."""

    def late(nodes: Any, partition: int) -> bool:
        return partition == 3 and not any("ask" in message.content for message in nodes.asked)

    result, _ = flower(scheme="pfels", rounds=4, late=late)
    for number, record in enumerate(result.records):
        away = sum(device % 4 == 3 for device in record["cohort"]) if number == 0 else 0
        assert record["replies"]["expected"] - record["replies"]["used"] == away
    assert result.records[0]["replies"]["short"]


def test_the_first_node_may_take_longer_than_a_round(flower: Flower):
    began = time.monotonic()
    result, _ = flower(scheme="pfels", rounds=1, late=lambda nodes, partition: time.monotonic() < began + 1.5)
    assert result.records[0]["replies"]["short"] is False


def test_a_run_goes_on_from_its_last_round(flower: Flower):
    whole, _ = flower(scheme="pfels", rounds=6, out="whole")
    with pytest.raises(KeyboardInterrupt):
        flower(scheme="pfels", rounds=6, out="cut", spoil=interrupt(after=3))
    rest, grid = flower(scheme="pfels", rounds=6, out="cut")
    assert torch.equal(rest.parameters, whole.parameters)
    assert min(m.content["ask"]["round"] for m in grid.asked if "ask" in m.content) == 3
    assert [record["round"] for record in rest.records] == list(range(6))


@pytest.mark.parametrize("scheme", ["pfels-plus", "dp-fedavg"])
def test_with_secret_noise_no_round_is_asked_for_twice_and_each_is_counted(flower: Flower, scheme: str):
    """Played again with other noise, a round would release a second time what it is priced for once."""
    with pytest.raises(KeyboardInterrupt):
        flower(scheme=scheme, rounds=6, noise="secret", spoil=interrupt(after=3), run__checkpoint_every=25)
    rest, grid = flower(scheme=scheme, rounds=6, noise="secret", run__checkpoint_every=25)
    assert {m.content["ask"]["round"] for m in grid.asked if "ask" in m.content} == {4, 5}
    assert [record.get("lost", False) for record in rest.records] == [False] * 3 + [True] + [False] * 2
    assert rest.summary["privacy"] == simulated(scheme=scheme, rounds=6).summary["privacy"], "what was asked is paid"


def interrupt(*, after: int) -> Callable[[Message, int], Message]:
    """The server is stopped in the round after so many."""

    def spoil(reply: Message, partition: int) -> Message:
        if is_answer(reply) and reply.metadata.group_id == str(after + 1):
            raise KeyboardInterrupt
        return reply

    return spoil


def test_a_config_that_differs_is_refused_by_its_key(flower: Flower, tmp_path: Path):
    line = "node 102 (partition-id 2): privacy.epsilon = 0.1 on the node, 0.5 at the server: they must be the same"
    with pytest.raises(RunError, match=re.escape(line)):
        flower(nodes=[{}, {}, {"privacy.epsilon": 0.1}, {}])
    assert not (tmp_path / "run").exists()


def test_a_device_never_lives_on_two_nodes(flower: Flower):
    """A node that cuts the devices another way would have some of them heard twice, at twice their sensitivity."""
    with pytest.raises(RunError, match=r"partition-id 0\): num-partitions = (2, 3|3, 2) on other nodes"):
        flower(partitions=2, nodes=[{}, {"partition-id": 0, "num-partitions": 3}])


def test_a_misfit_that_joins_later_is_left_out_and_the_run_goes_on(flower: Flower):
    def join(reply: Message, partition: int) -> Message:
        if is_answer(reply):
            config = {"partition-id": 0, "num-partitions": 3}
            grid = grids[0]
            grid.contexts.setdefault(999, Context(1, 999, config, RecordDict(), grid.contexts[100].run_config))
        return reply

    grids = flower.grids
    result, _ = flower(scheme="pfels", partitions=2, rounds=3, spoil=join)
    assert apart(result.parameters, simulated(scheme="pfels", rounds=3).parameters) < 1e-6


def test_what_a_machine_has_of_its_own_may_differ(flower: Flower):
    result, _ = flower(nodes=[{"run.workers": 1}, {"run.engine": "threaded"}], partitions=2, rounds=3)
    assert apart(result.parameters, simulated(rounds=3).parameters) < 1e-5


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"rounds": 0}, "rounds = 0"),
        ({"scheme": "pfel"}, "did you mean pfels"),
        ({"privacy__epsilonn": 1}, "privacy.epsilonn"),
        ({"noise": "none"}, "noise = 'none': must be secret"),
        (
            {"noise": "secret", "scheme": "pfels-plus", "privacy__adversary": "outsider"},
            "seed = 0: it decides who is drawn, and an outsider could guess it",
        ),
        ({"reply_timeout_s": -1}, "reply_timeout_s = -1: must be a number of seconds above 0"),
    ],
)
def test_a_wrong_run_config_is_one_line_and_touches_nothing(flower: Flower, tmp_path: Path, changes: Any, line: str):
    with pytest.raises(InputError, match=re.escape(line)) as caught:
        flower(**changes)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_the_app_lists_every_key_of_the_config():
    listed = settings_of_app()
    expected = set(settings.OWN_KEYS)
    for name, about in Config.model_fields.items():
        table = about.annotation
        inner = table.model_fields if isinstance(table, type) and issubclass(table, BaseModel) else None
        expected |= {name} if inner is None else {f"{name}.{key}" for key in inner}
    assert set(listed) == expected
    preset, app = load_config("demo"), settings.config_of(listed)
    assert app.model_copy(update={"run": preset.run}) == preset
    assert settings.read(listed).secret_noise


def settings_of_app() -> dict[str, Any]:
    tree = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    tables = {key: value for key, value in tree.items() if isinstance(value, dict)}
    inner = {f"{table}.{key}": value for table, values in tables.items() for key, value in values.items()}
    return {key: value for key, value in tree.items() if key not in tables} | inner


def write_own(path: Path, federation: Any, devices: list[int]) -> None:
    """The examples of some devices as a node's own file."""
    shards = [federation.examples([device]) for device in devices]
    x, y = (np.concatenate([getattr(shard, part)[0].numpy() for shard in shards]) for part in ("x", "y"))
    names = np.repeat(np.arange(len(devices)), [len(shard.y[0]) for shard in shards])
    np.savez(path, x_train=x[:, 0], y_train=y, x_test=x[:1, 0], y_test=y[:1], writer_train=names)


def test_nodes_with_data_of_their_own(flower: Flower, tmp_path: Path):
    federation = federate(load_config("demo"))
    nodes = []
    for partition in range(2):
        write_own(tmp_path / f"{partition}.npz", federation, list(range(partition, 100, 2)))
        nodes.append({"local-data": str(tmp_path / f"{partition}.npz")})
    result, _ = flower(scheme="pfels", rounds=3, partitions=2, nodes=nodes)
    assert apart(result.parameters, simulated(scheme="pfels", rounds=3).parameters) < 1e-6


def test_own_data_that_do_not_fit_are_refused(tmp_path: Path):
    config, place = load_config("demo"), messages.Place(0, 50)
    path = tmp_path / "own.npz"
    write_own(path, federate(config), [0, 50, 51])
    with pytest.raises(InputError, match="holds the examples of 3 devices; this node carries 2"):
        own_federation(str(path), config, place)
    np.savez(path, x_train=np.zeros((4, 5)), y_train=np.zeros(4, int), x_test=np.zeros((1, 5)), y_test=np.zeros(1, int))
    with pytest.raises(InputError, match=r"examples of shape \(5,\) in 1 classes; must be \(1, 8, 8\)"):
        own_federation(str(path), config, place)


def test_a_node_does_no_more_than_its_round(flower: Flower):
    """Whatever a server asks: not for others' devices, not for devices that were not drawn, not twice."""
    result, grid = flower(scheme="pfels", rounds=2)
    asked = [m for m in grid.asked if "ask" in m.content]
    first = asked[0]
    context = grid.contexts[first.metadata.dst_node_id]
    with pytest.raises(RunError, match="answered already"):
        client_app.app(first, context)
    ask = messages.Ask.read(first.content, dimension=result.summary["dimension"])
    del context.state["done"]  # as if the node had never been asked
    for number in (-1, 2, 10**12):
        first.content["ask"]["round"] = number
        with pytest.raises(RunError, match=f"round {number}: answered already, or not among 2 rounds"):
            client_app.app(first, context)
    first.content["ask"]["round"] = ask.round
    mine = set(range(first.metadata.dst_node_id - 100, 100, 4))
    stranger = min(set(range(100)) - mine)
    resting = min(mine - set(result.records[0]["cohort"]))
    for device in (stranger, resting):
        first.content["ask"]["devices"] = [device]
        with pytest.raises(RunError, match=f"device {device} does not live here or was not drawn"):
            client_app.app(first, context)
    first.content["ask"]["devices"], first.content["ask"]["digest"] = list(ask.devices), "0" * 64
    with pytest.raises(RunError, match="config is not the one of this run"):
        client_app.app(first, context)


def test_secret_noise_cannot_be_told_from_the_seed(flower: Flower):
    """What a device sends follows from the seed and its data; what the receiver's noise adds does not."""
    one, _ = flower(scheme="pfels", rounds=1, noise="secret", out="one")
    two, _ = flower(scheme="pfels", rounds=1, noise="secret", out="two")
    seeded = simulated(scheme="pfels", rounds=1)
    noise = [(a - b)[(a - b) != 0] for a, b in ((one.parameters, two.parameters), (one.parameters, seeded.parameters))]
    std = load_config("demo").channel.noise_std / (20 * one.records[0]["beta"])
    for difference in noise:  # of two noises of equal strength
        assert float(difference.std()) == pytest.approx(std * np.sqrt(2), rel=0.1)


def test_dp_fedavg_noise_is_the_devices_own_secret(flower: Flower):
    one, _ = flower(scheme="dp-fedavg", rounds=1, noise="secret", out="one")
    two, _ = flower(scheme="dp-fedavg", rounds=1, noise="secret", out="two")
    assert not torch.equal(one.parameters, two.parameters)


def test_a_report_shows_a_run_of_flowers(flower: Flower, tmp_path: Path):
    flower(scheme="pfels", rounds=3)
    document = write_report([tmp_path / "run"])
    assert document["damaged"] == []
    json.dumps(document)
