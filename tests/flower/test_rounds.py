"""Rounds over Flower's messages give the simulator's result, and only k numbers per device travel."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Message

from pfels.config.load import load_config
from pfels.flower import messages
from pfels.flower.server_app import summary_lines
from pfels.schemes import pfels_plus
from tests.flower.in_process import PLAIN, distance, figures, has_signals, simulated

Flower = Callable[..., Any]


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
        {"scheme": "pfels-echo", "compression__ratio": 1.0, "server__average": 0.9},
        {"scheme": "pfels-echo", "compression__ratio": 0.5, "cohort__size": 10},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_the_model_is_the_simulators(flower: Flower, changes: dict[str, Any]):
    result, _ = flower(**changes)
    own = simulated(**changes)
    assert distance(result.parameters, own.parameters) < 1e-6
    for here, there in zip(result.records, own.records, strict=True):
        assert here["cohort"] == there["cohort"]
        assert here["participants"] == there["participants"]
        assert here.get("echoes") == there.get("echoes")
        assert figures(here["privacy"]) == figures(there["privacy"])
        if there["energy"] is None:
            assert here["energy"] is None
        else:
            assert here["energy"] == pytest.approx(there["energy"], rel=1e-5)
    assert figures(result.summary["privacy"]) == figures(own.summary["privacy"])


@pytest.mark.parametrize("partitions", [1, 7, 100])
def test_the_model_does_not_depend_on_which_node_carries_which_device(flower: Flower, partitions: int):
    result, _ = flower(scheme="pfels", partitions=partitions, rounds=4)
    assert distance(result.parameters, simulated(scheme="pfels", rounds=4).parameters) < 1e-6


def test_the_order_of_arrival_changes_no_record(flower: Flower):
    first, _ = flower(scheme="pfels", rounds=3, out="oldest")
    last, _ = flower(scheme="pfels", rounds=3, out="newest", newest_first=True)
    for here, there in zip(first.records, last.records, strict=True):
        assert here["energy"] == there["energy"]
        assert here["replies"] == there["replies"]
    assert distance(last.parameters, first.parameters) < 1e-6


def test_a_device_uploads_k_numbers_and_little_more(flower: Flower):
    replies = []

    def store(reply: Message, partition: int) -> Message:
        replies.append(reply)
        return reply

    result, grid = flower(scheme="pfels", change=store, rounds=3)
    k = result.records[0]["subcarriers"]
    contents = [reply.content for reply in replies if has_signals(reply)]
    assert contents
    assert all(set(content) == {"x"} for content in contents)
    requests = [message.content["request"] for message in grid.requests]
    assert [len(content["x"]["x"]) for content in contents] == [4 * k * len(r["devices"]) for r in requests]
    for record in result.records:
        assert 4 * k <= record["replies"]["bytes_per_device"] <= 1.05 * 4 * k
    assert all(set(r) == {"round", "digest", "secret", "devices", "waiting"} for r in requests)  # no index set, no gain
    assert "FedAvg would upload 9,640" in summary_lines(result)[-1]


def test_many_numbers_travel_in_chunks_and_arrive_the_same():
    signals = torch.randn(3, messages.SMALL // 2)
    content = messages.signals_record(signals)
    assert not isinstance(content["x"], ConfigRecord)
    assert torch.equal(messages.read_signals(content, devices=3, width=messages.SMALL // 2), signals)
    with pytest.raises(messages.UnusableError, match="wrong length"):
        messages.read_signals(content, devices=2, width=messages.SMALL // 2)


def test_the_log_holds_nothing_of_a_single_update(flower: Flower):
    result, _ = flower(scheme="pfels", rounds=2)
    for record in result.records:
        assert record["device_energy"] is None
        assert record["train_loss"] is None
        assert record["energy"] > 0
        assert list(record)[-2:] == ["privacy", "replies"]


def test_the_public_level_is_computed_once_and_not_in_every_round(flower: Flower, monkeypatch: pytest.MonkeyPatch):
    calls = []
    compute = pfels_plus.public_level

    def counted(setting: Any) -> Any:
        calls.append(setting)
        return compute(setting)

    monkeypatch.setattr(pfels_plus, "public_level", counted)
    flower(scheme="pfels-plus", rounds=6, noise="secret")
    assert len(calls) == 2, "once at the server, once in the process of all nodes"


def test_the_receivers_noise_cannot_be_derived_from_the_seed(flower: Flower):
    """A device's signal follows from the seed and its data; the receiver's noise does not."""
    one, _ = flower(scheme="pfels", rounds=1, **PLAIN, noise="secret", out="one")
    two, _ = flower(scheme="pfels", rounds=1, **PLAIN, noise="secret", out="two")
    seeded = simulated(scheme="pfels", rounds=1, **PLAIN)
    noise = [(a - b)[(a - b) != 0] for a, b in ((one.parameters, two.parameters), (one.parameters, seeded.parameters))]
    std = load_config("demo").channel.noise_std / (20 * one.records[0]["beta"])
    for difference in noise:  # of two noises of equal variance; 723 samples, so the std is within 2.6% (1 sigma)
        assert float(difference.std()) == pytest.approx(std * np.sqrt(2), rel=0.1)


def test_dp_fedavg_noise_is_the_devices_own_secret(flower: Flower):
    one, _ = flower(scheme="dp-fedavg", rounds=1, noise="secret", out="one")
    two, _ = flower(scheme="dp-fedavg", rounds=1, noise="secret", out="two")
    assert not torch.equal(one.parameters, two.parameters)
