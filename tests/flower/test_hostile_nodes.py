"""Whatever a node sends, the run of the others goes on: it is dropped, counted, or left out with a line."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict

from pfels.errors import RunError
from pfels.flower import messages
from pfels.flower.messages import NodeShare, UnusableError
from tests.flower.in_process import FIRST_NODE, distance, has_signals, simulated, without_node_1
from tests.flower.test_resume import interrupt

Flower = Callable[..., Any]
RAW = messages.RAW


def array(shape: tuple[int, ...], data: bytes, dtype: str = "float32", stype: str = RAW) -> RecordDict:
    return RecordDict({"x": ArrayRecord({"x": Array(dtype=dtype, shape=shape, stype=stype, data=data)})})


GARBAGE = {
    "fewer bytes than its shape": array((3, 5), bytes(40)),
    "more bytes than its shape": array((3, 5), bytes(64)),
    "a negative shape": array((-1, 5), bytes(60)),
    "a huge shape": array((2**62, 2**62), bytes(40)),
    "no shape": array((), bytes(8)),
    "another type": array((3, 5), bytes(120), dtype="float64"),
    "a pickle": array((1,), b"\x80\x04K\x01.", stype="numpy.ndarray"),
    "another record": RecordDict({"x": MetricRecord({"x": 1.0})}),
    "a number": RecordDict({"x": ConfigRecord({"x": 7})}),
    "a list": RecordDict({"x": ConfigRecord({"x": [1.0, 2.0]})}),
    "silent of text": RecordDict({"x": ConfigRecord({"x": b""}), "silent": ConfigRecord({"devices": "all"})}),
    "silent as metrics": RecordDict({"x": ConfigRecord({"x": b""}), "silent": MetricRecord({"devices": 1})}),
}


@pytest.fixture(scope="module")
def without_it() -> dict[str, torch.Tensor]:
    """The model of a run in which node 1 never replies."""
    return {}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_dropped_and_counted(flower: Flower, without_it: dict[str, torch.Tensor], kind: str):
    def change(reply: Message, partition: int) -> Message:
        if partition == 1 and has_signals(reply):
            reply.content = GARBAGE[kind]
        return reply

    result, _ = flower(scheme="pfels", change=change, rounds=2)
    if not without_it:
        without_it["model"] = flower(scheme="pfels", change=without_node_1, rounds=2, out="silent")[0].parameters
    dropped = sum(record["replies"]["dropped"].get("malformed", 0) for record in result.records)
    missing = sum(record["replies"]["expected"] - record["replies"]["used"] for record in result.records)
    assert dropped == missing > 0
    assert torch.equal(result.parameters, without_it["model"])


def test_a_signal_that_no_noise_could_hide_is_dropped_and_does_not_end_the_run(flower: Flower):
    """In dp-fedavg there is no norm bound to check, but integers hold only so much."""

    def change(reply: Message, partition: int) -> Message:
        if partition == 1 and has_signals(reply):
            x = torch.frombuffer(bytearray(reply.content["x"]["x"]), dtype=torch.float32)
            reply.content = messages.signals_record(torch.full_like(x, 1e15))
        return reply

    result, _ = flower(scheme="dp-fedavg", noise="secret", change=change, rounds=2)
    dropped = sum(record["replies"]["dropped"].get("too large for any noise to hide", 0) for record in result.records)
    assert dropped == sum(device % 4 == 1 for record in result.records for device in record["cohort"]) > 0
    assert torch.isfinite(result.parameters).all()


SHARES = {
    "infinity": {"partition": float("inf"), "partitions": 4, "refused": ""},
    "not a number": {"partition": 1, "partitions": float("nan"), "refused": ""},
    "text": {"partition": "1", "partitions": 4, "refused": ""},
    "a bool": {"partition": True, "partitions": 4, "refused": ""},
    "a list": {"partition": [1], "partitions": 4, "refused": ""},
    "negative": {"partition": -1, "partitions": 4, "refused": ""},
    "beyond": {"partition": 4, "partitions": 4, "refused": ""},
    "no reason": {"partition": 1, "partitions": 4},
    "a reason of bytes": {"partition": 1, "partitions": 4, "refused": b"\xff"},
}


@pytest.mark.parametrize("kind", SHARES)
def test_a_reply_to_a_greeting_holds_whole_numbers(kind: str):
    with pytest.raises(UnusableError):
        NodeShare.read(RecordDict({"share": ConfigRecord(SHARES[kind])}))


@pytest.mark.parametrize("record", [ArrayRecord(), MetricRecord({"partition": 1.5, "partitions": 4})])
def test_another_record_is_no_reply_to_a_greeting(record: Any):
    with pytest.raises(UnusableError):
        NodeShare.read(RecordDict({"share": record}))


def hostile_share(fields: dict[str, Any]) -> Callable[[Message, int], Message]:
    """Node 3 replies this to the greeting."""

    def change(reply: Message, partition: int) -> Message:
        if partition == 3 and not reply.has_error() and "share" in reply.content:
            reply.content = RecordDict({"share": ConfigRecord(fields)})
        return reply

    return change


def test_a_greeting_answered_with_infinity_leaves_that_node_out(flower: Flower):
    result, grid = flower(scheme="pfels", rounds=2, change=hostile_share(SHARES["infinity"]))
    assert FIRST_NODE + 3 not in {message.metadata.dst_node_id for message in grid.requests}
    for record in result.records:
        missing = record["replies"]["expected"] - record["replies"]["used"]
        assert missing == sum(device % 4 == 3 for device in record["cohort"])


def test_a_greeting_answered_with_a_billion_partitions_costs_nothing(flower: Flower):
    began = time.monotonic()
    with pytest.raises(RunError, match=r"num-partitions = 1000000000: must be at most data\.devices = 100"):
        flower(partitions=1, change=lambda reply, partition: _alone(reply), rounds=1)
    assert time.monotonic() - began < 10


def _alone(reply: Message) -> Message:
    if not reply.has_error() and "share" in reply.content:
        reply.content = RecordDict({"share": ConfigRecord({"partition": 0, "partitions": 10**9, "refused": ""})})
    return reply


def test_a_reason_is_repeated_as_one_line_of_bounded_length(flower: Flower):
    reason = "because\n\x1b[31m" + "x" * 10_000
    with pytest.raises(RunError, match="because") as caught:
        flower(scheme="pfels", change=hostile_share({"partition": 3, "partitions": 4, "refused": reason}))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_a_wrongly_configured_node_does_not_block_a_run_that_continues(flower: Flower):
    """After a restart of the SuperLink all nodes are greeted again; before the first round it is an error."""
    with pytest.raises(KeyboardInterrupt):
        flower(scheme="pfels", rounds=4, change=interrupt(after=2))
    nodes = [{}, {}, {"privacy.epsilon": 0.1}, {}]
    result, grid = flower(scheme="pfels", rounds=4, nodes=nodes)
    assert [record["round"] for record in result.records] == list(range(4))
    assert FIRST_NODE + 2 not in {message.metadata.dst_node_id for message in grid.requests}
    with pytest.raises(RunError, match=r"partition-id 2\): privacy\.epsilon = 0\.1 on the node"):
        flower(scheme="pfels", rounds=4, nodes=nodes, out="new")


def test_a_twin_replaces_the_node_that_it_repeats_and_no_device_counts_twice(flower: Flower):
    grids: list[Any] = []

    def late(grid: Any, partition: int) -> bool:
        grids.append(grid)
        return False

    def join(reply: Message, partition: int) -> Message:
        if has_signals(reply):
            grid = grids[0]
            config, run = {"partition-id": 1, "num-partitions": 4}, grid.contexts[FIRST_NODE].run_config
            grid.contexts.setdefault(FIRST_NODE + 9, Context(1, FIRST_NODE + 9, config, RecordDict(), run))
        return reply

    result, grid = flower(scheme="pfels", rounds=4, change=join, late=late)
    asked = [message.metadata.dst_node_id for message in grid.requests]
    assert FIRST_NODE + 9 in asked
    for record in result.records:
        assert record["replies"]["used"] == record["replies"]["expected"]
    assert distance(result.parameters, simulated(scheme="pfels", rounds=4).parameters) < 1e-6


def test_a_replayed_reply_counts_once(flower: Flower):
    """A node that sends the reply of an earlier round again is dropped as one for another round."""
    kept: dict[int, Any] = {}

    def change(reply: Message, partition: int) -> Message:
        if partition == 1 and has_signals(reply):
            first = kept.setdefault(partition, (reply.content, reply.metadata.group_id))
            reply.content = first[0]
            reply.metadata.__dict__["_group_id"] = first[1]
        return reply

    result, _ = flower(scheme="pfels", rounds=4, change=change)
    honest = simulated(scheme="pfels", rounds=4)
    for t, record in enumerate(result.records):
        mine = sum(device % 4 == 1 for device in record["cohort"])
        replayed = {"for another round": mine} if mine and kept and record["replies"]["dropped"] else {}
        assert record["replies"]["dropped"] == replayed
        assert record["cohort"] == honest.records[t]["cohort"]
    assert any(record["replies"]["dropped"] for record in result.records)


@pytest.mark.parametrize(
    "content",
    [
        RecordDict({}),
        RecordDict({"request": ConfigRecord({"round": 0}), "model": ArrayRecord()}),
        RecordDict({"request": MetricRecord({"round": 0.0}), "model": ConfigRecord({})}),
        RecordDict({"greeting": ConfigRecord({"config": "[" * 100_000, "digest": "0"})}),
        RecordDict({"greeting": ConfigRecord({"config": "[]", "digest": "0"})}),
        RecordDict({"greeting": ConfigRecord({"config": "{}", "digest": 7})}),
    ],
)
def test_garbage_from_a_server_is_refused_in_one_line(content: RecordDict):
    reader = messages.Greeting if "greeting" in content else messages.TrainRequest
    with pytest.raises(UnusableError, match=r"^not a (greeting|request)$"):
        reader.read(content)
