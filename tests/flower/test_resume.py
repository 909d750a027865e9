"""A run continues after its last round; with secret noise, no round is asked for twice."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Message

from pfels.errors import InputError
from pfels.flower.round import RoundJournal
from tests.flower.in_process import figures, has_signals, simulated

Flower = Callable[..., Any]


def interrupt(*, after: int) -> Callable[[Message, int], Message]:
    """Stop the server in the round after this many."""

    def change(reply: Message, partition: int) -> Message:
        if has_signals(reply) and reply.metadata.group_id == str(after + 1):
            raise KeyboardInterrupt
        return reply

    return change


def test_a_run_continues_after_its_last_round(flower: Flower):
    whole, _ = flower(scheme="pfels", rounds=6, out="whole")
    with pytest.raises(KeyboardInterrupt):
        flower(scheme="pfels", rounds=6, out="cut", change=interrupt(after=3))
    rest, grid = flower(scheme="pfels", rounds=6, out="cut")
    assert torch.equal(rest.parameters, whole.parameters)
    assert min(message.content["request"]["round"] for message in grid.requests) == 3
    assert [record["round"] for record in rest.records] == list(range(6))


@pytest.mark.parametrize("scheme", ["pfels-plus", "dp-fedavg"])
def test_with_secret_noise_an_interrupted_round_is_charged_and_not_repeated(flower: Flower, scheme: str):
    """Repeated with fresh noise, it would release twice what is charged once."""
    with pytest.raises(KeyboardInterrupt):
        flower(scheme=scheme, rounds=6, noise="secret", change=interrupt(after=3), run__checkpoint_every=25)
    rest, grid = flower(scheme=scheme, rounds=6, noise="secret", run__checkpoint_every=25)
    assert {message.content["request"]["round"] for message in grid.requests} == {4, 5}
    assert [record.get("lost", False) for record in rest.records] == [False] * 3 + [True] + [False] * 2
    lost = rest.records[3]
    assert list(lost)[-3:] == ["privacy", "replies", "lost"]
    assert lost["replies"] == {
        "expected": lost["replies"]["expected"], "used": 0, "short": True, "dropped": {}, "bytes_per_device": None,
    }  # fmt: skip
    assert lost["energy"] == (None if scheme == "dp-fedavg" else 0.0)
    own = simulated(scheme=scheme, rounds=6)
    assert figures(rest.summary["privacy"]) == figures(own.summary["privacy"])


def test_the_journal_enters_each_round_once_and_outlives_the_process(tmp_path: Path):
    assert RoundJournal(tmp_path).begin(0)
    assert json.loads((tmp_path / "begun.json").read_text()) == {"round": 0}
    assert not RoundJournal(tmp_path).begin(0)
    assert RoundJournal(tmp_path).begin(2)
    assert not RoundJournal(tmp_path).begin(1)


@pytest.mark.parametrize("content", ["{}", '{"round": "last"}', "[1]", '{"round"'])
def test_a_damaged_journal_is_one_line_and_never_read_as_empty(tmp_path: Path, content: str):
    (tmp_path / "begun.json").write_text(content)
    with pytest.raises(InputError, match=r"begun\.json") as caught:
        RoundJournal(tmp_path).begin(5)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "begun.json").read_text() == content
