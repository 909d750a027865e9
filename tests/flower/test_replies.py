"""Missing, late and unusable replies are dropped, counted and harmless."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Message, RecordDict

from pfels.flower import messages
from tests.flower import in_process
from tests.flower.in_process import PLAIN, distance, figures, has_signals, simulated, without_node_1

Flower = Callable[..., Any]


def unusable(kind: str) -> Callable[[Message, int], Message]:
    """Node 1 replies something else than its signals; the others are honest."""

    def change(reply: Message, partition: int) -> Message:
        if partition != 1 or not has_signals(reply):
            return reply
        x = torch.frombuffer(bytearray(reply.content["x"]["x"]), dtype=torch.float32).view(-1, 723)
        contents = {
            "wrong length": messages.signals_record(x[:, :-1]),
            "a row too many": messages.signals_record(torch.cat([x, x[:1]])),
            "not finite": messages.signals_record(x * float("nan")),
            "above its norm bound": messages.signals_record(x * 1e6 + 1),
            "for another round": messages.signals_record(x),
            "malformed": RecordDict({}),
            "half a number": RecordDict({"x": ConfigRecord({"x": b"abc"})}),
            "not numbers": RecordDict({"x": ConfigRecord({"x": "abc"})}),
        }
        reply.content = contents[kind]
        if kind == "for another round":
            reply.metadata.__dict__["_group_id"] = "77"
        return reply

    return change


REASONS = {"a row too many": "wrong length", "half a number": "malformed", "not numbers": "malformed"}


@pytest.fixture(scope="module")
def silent_runs() -> dict[str, torch.Tensor]:
    """By scheme: the model after five rounds in which node 1 never replies."""
    return {}


@pytest.mark.parametrize(
    "kind",
    [*REASONS, "wrong length", "not finite", "above its norm bound", "for another round", "malformed"],
)
@pytest.mark.parametrize("scheme", ["pfels", "pfels-plus"])
def test_an_unusable_reply_counts_as_none(flower: Flower, silent_runs: dict[str, torch.Tensor], kind: str, scheme: str):
    result, _ = flower(scheme=scheme, change=unusable(kind), rounds=5)
    if scheme not in silent_runs:
        silent_runs[scheme] = flower(scheme=scheme, change=without_node_1, rounds=5, out="silent")[0].parameters
    reason = REASONS.get(kind, kind)
    dropped = sum(record["replies"]["dropped"].get(reason, 0) for record in result.records)
    missing = sum(record["replies"]["expected"] - record["replies"]["used"] for record in result.records)
    assert dropped == missing > 0
    assert torch.equal(result.parameters, silent_runs[scheme])
    assert torch.isfinite(result.parameters).all()


def test_a_round_without_some_of_its_devices_is_short_and_the_run_continues(flower: Flower):
    result, _ = flower(scheme="pfels", change=without_node_1, rounds=4)
    for record in result.records:
        away = sum(device % 4 == 1 for device in record["cohort"])
        replies = record["replies"]
        assert replies["short"] == (away > 0)
        assert record["silent"] == away == replies["expected"] - replies["used"]
        assert replies["dropped"] == {}
    assert any(record["replies"]["short"] for record in result.records)
    own = simulated(scheme="pfels", rounds=4).summary["privacy"]["server"]
    assert figures(result.summary["privacy"]["server"]) == figures(own)


def test_the_server_adds_the_noise_of_dp_fedavg_devices_that_are_not_heard(flower: Flower):
    """An outsider's figure counts on the noise of the whole cohort."""
    all_heard, _ = flower(scheme="dp-fedavg", rounds=1, **PLAIN, out="heard")
    short, _ = flower(scheme="dp-fedavg", rounds=1, **PLAIN, change=without_node_1, out="short")
    quiet = {"scheme": "dp-fedavg", "rounds": 1, "privacy__epsilon": 1e6, **PLAIN}
    updates, _ = flower(**quiet, out="updates")
    kept, _ = flower(**quiet, change=without_node_1, out="kept")
    missing = updates.parameters - kept.parameters
    assert missing.norm() > 1e-3
    assert distance(all_heard.parameters - short.parameters, missing) < 1e-5
    assert short.summary["privacy"] == all_heard.summary["privacy"]


def test_a_node_that_replies_late_is_silent_until_then(flower: Flower):
    """Busy with another run, or started after the server."""

    def late(grid: in_process.InProcessGrid, partition: int) -> bool:
        return partition == 3 and not grid.requests

    result, _ = flower(scheme="pfels", rounds=4, late=late)
    for number, record in enumerate(result.records):
        away = sum(device % 4 == 3 for device in record["cohort"]) if number == 0 else 0
        assert record["replies"]["expected"] - record["replies"]["used"] == away
    assert result.records[0]["replies"]["short"]
