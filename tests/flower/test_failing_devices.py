"""A device whose data make something fail sends what a device sends that has learned nothing, and nobody sees why."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from pfels.flower import client_app, sending
from pfels.training import sgd
from tests.flower.hostile_server import DEVICES, SCHEMES, WORLDS, Node, honest, one_round

ALWAYS = {"cohort.size": 90}


def test_what_a_device_sends_depends_on_its_own_data_alone_to_the_bit(tmp_path: Path):
    expected, _, _ = one_round(tmp_path, honest(), **ALWAYS)
    for number, (name, change) in enumerate(WORLDS.items()):
        if name in ("emptied and not named", "nobody has any"):
            continue  # it is not one device that differs
        rows, _, _ = one_round(tmp_path, change(honest()), f"{number}", **ALWAYS)
        assert torch.equal(rows[1], expected[1]), name
        assert bool(rows[0].any()) == (name in ("as they are", "zeros", "tiny", "one label")), name


class BrokenError(Exception):
    """Its text would tell something."""


@pytest.mark.parametrize("error", [BrokenError("norm 0.123456"), MemoryError(), RuntimeError("can't allocate memory")])
def test_code_that_fails_for_one_device_is_a_device_that_learned_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
):
    expected, honest_node, _ = one_round(tmp_path, honest(), "honest", **ALWAYS)
    train = sgd.train

    def failing(network: Any, theta: Any, *, x: torch.Tensor, **rest: Any) -> Any:
        if torch.equal(x[0, 0], first):
            raise error
        return train(network, theta, x=x, **rest)

    first = torch.from_numpy(honest()["x_train"][0]).float().view(1, 8, 8)
    monkeypatch.setattr(sgd, "train", failing)
    monkeypatch.setattr("pfels.training.gram.pays", lambda *_, **__: False)
    client_app._experiment.cache_clear()
    rows, node, _ = one_round(tmp_path, honest(), "broken", **ALWAYS)
    assert not rows[0].any()
    assert torch.allclose(rows[1], expected[1], rtol=1e-3, atol=1e-6)
    assert node.spent == honest_node.spent, "it is charged as ever"
    assert "device 0 sends zeros, since its training failed" in caplog.text


@pytest.mark.parametrize("fault", ["raises", "too long", "not finite", "another shape"])
@pytest.mark.parametrize("scheme", ["wfl-pdp", "dp-fedavg"])
def test_a_signal_that_cannot_be_sent_becomes_zeros_and_the_device_s_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, scheme: str
):
    """A scheme from elsewhere may fail for some data and not for others."""
    more = {**ALWAYS, **SCHEMES[scheme]}
    expected, _, started = one_round(tmp_path, honest(), "honest", **more)
    kind = type(started.scheme)
    send = kind.send

    def failing(self: Any, plan: Any, part: Any, A: Any) -> torch.Tensor:
        x = send(self, plan, part, A)
        if not bool(x.any()):
            return x
        if fault == "raises":
            raise BrokenError(f"norm {float(x.norm())}")
        return {"too long": x * 1e9, "not finite": x * math.nan, "another shape": x[:, :-1]}[fault]

    monkeypatch.setattr(kind, "send", failing)
    client_app._experiment.cache_clear()
    rows, _, _ = one_round(tmp_path, honest(), "broken", **more)
    assert rows.shape == expected.shape
    if scheme == "wfl-pdp":
        assert not rows.any()
        return
    plan = started.scheme.prepare(started.draws, 0)
    std = started.scheme.noise_std(plan, DEVICES[0])
    assert all(abs(float(row.std()) / std - 1) < 6 / math.sqrt(2 * len(row)) for row in rows)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_no_number_is_not_sent_whatever_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: float):
    """Also behind all checks of what is sent, such as in the noise of a device."""
    whole = sending.transmissions

    def broken(scheme: Any, draws: Any, plan: Any, part: Any, *rest: Any, **more: Any) -> Any:
        sent = whole(scheme, draws, plan, part, *rest, **more)
        if bool(part.updates.any()):
            sent.signals[0, 3] = number
        return sent

    monkeypatch.setattr(sending, "transmissions", broken)
    rows, _, _ = one_round(tmp_path, honest(), "broken", **ALWAYS)
    assert not rows.any()


def test_data_that_disappear_after_the_greeting_are_no_reason_to_be_silent(tmp_path: Path):
    expected, _, _ = one_round(tmp_path, honest(), "honest", **ALWAYS)
    original = Node.answer

    def without_file(self: Node, *arguments: Any) -> Any:
        (self.folder / "own.npz").unlink()
        return original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Node, "answer", without_file)
        rows, node, _ = one_round(tmp_path, honest(), "lost", **ALWAYS)
    assert rows.shape == expected.shape
    assert not rows.any()
    assert len(node.spent) == 2
