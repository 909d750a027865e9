"""The schemes of the related work over Flower's messages: the simulator's model, and devices that add noise."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from flwr.app import Message

from pfels.config.load import load_config
from pfels.experiment.setup import build
from pfels.flower import messages
from pfels.schemes.round import local_updates
from pfels.seeding import Purpose, generator
from tests.flower.in_process import PLAIN, distance, figures, has_signals, simulated, without_node_1

Flower = Callable[..., Any]
NOISY = "artificial-noise"


@pytest.mark.parametrize(
    "changes",
    [
        {"scheme": "liu-simeone"},
        {"scheme": "liu-simeone", "liu-simeone__contraction": 0.9, "privacy__total_epsilon": 2.0},
        {"scheme": NOISY},
        {"scheme": NOISY, "privacy__epsilon": 100.0},
        {"scheme": "truncated-inversion"},
        {"scheme": "truncated-inversion", "channel__silent_below": 0.2, "truncated-inversion__private": True},
        {"scheme": "pfels", "compression__error_feedback": True},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_the_model_is_the_simulators(flower: Flower, changes: dict[str, Any]):
    result, _ = flower(**changes, rounds=5)
    own = simulated(**changes, rounds=5)
    assert distance(result.parameters, own.parameters) < 1e-6
    for here, there in zip(result.records, own.records, strict=True):
        for key in ("cohort", "participants", "beta", "limit", "noise_multiplier", "energy_bound"):
            assert here[key] == there[key]
        assert figures(here["privacy"]) == figures(there["privacy"])
        assert here["energy"] == pytest.approx(there["energy"], rel=1e-5)
        assert here["replies"]["dropped"] == {}
        assert not here["replies"]["short"]
    assert figures(result.summary["privacy"]) == figures(own.summary["privacy"])


def test_the_server_adds_the_artificial_noise_of_devices_that_are_not_heard(flower: Flower):
    """With seeded noise it draws the very noise of the missing ones, which arrives at their gains: what is missing from
    the model is their updates alone."""
    all_heard, _ = flower(scheme=NOISY, rounds=1, **PLAIN, out="heard")
    short, _ = flower(scheme=NOISY, rounds=1, **PLAIN, change=without_node_1, out="short")
    e = build(load_config("demo", {"scheme": NOISY, "rounds": 1}))
    plan, theta = e.scheme.prepare(e.draws, 0), e.network.initial(generator(0, Purpose.MODEL))
    air, missing, noise = plan.require_air(), torch.zeros_like(theta), torch.zeros_like(theta)
    for part, _ in local_updates(e.training, e.draws, theta, 0, plan.sending):
        for place in range(part.places.start, part.places.stop):
            if plan.sending[place] % 4 == 1:
                update = part.updates[place - part.places.start]
                missing += update * min(1.0, e.setting.bound / float(update.norm())) / 20
                device = int(plan.sending[place])
                own = e.draws.device_noise(0, device, width=e.setting.dimension, std=e.scheme.noise_std(plan, device))
                noise += own * abs(air.gains[place]) / (20 * air.beta)
    assert all_heard.records[0]["replies"]["used"] > short.records[0]["replies"]["used"] > 0
    assert float(noise.norm()) > 10 * float(missing.norm()), "left out, or at another gain, it would show"
    assert distance(all_heard.parameters - short.parameters, missing) < 1e-4
    assert short.summary["privacy"] == all_heard.summary["privacy"]


def test_artificial_noise_is_each_devices_own_secret(flower: Flower):
    """With secret noise two runs have other noise, of the variance that the plan says."""
    one, _ = flower(scheme=NOISY, rounds=1, **PLAIN, noise="secret", out="one")
    two, _ = flower(scheme=NOISY, rounds=1, **PLAIN, noise="secret", out="two")
    difference = one.parameters - two.parameters
    e = build(load_config("demo", {"scheme": NOISY, "rounds": 1}))
    plan = e.scheme.prepare(e.draws, 0)
    std = plan.event.noise_multiplier * e.setting.bound / 20 * 2**0.5
    assert float(difference.std()) == pytest.approx(std, rel=5 / (2 * len(difference)) ** 0.5)


def lengthened(factor: float) -> Callable[[Message, int], Message]:
    """Node 1 sends its signals at `factor` times their length; the others are honest."""

    def change(reply: Message, partition: int) -> Message:
        if partition == 1 and has_signals(reply):
            x = torch.frombuffer(bytearray(reply.content["x"]["x"]), dtype=torch.float32)
            reply.content = messages.signals_record(x * factor)
        return reply

    return change


@pytest.mark.parametrize("epsilon", [0.5, 100.0])
def test_an_honest_noisy_signal_is_used_and_one_three_times_as_long_is_not(flower: Flower, epsilon: float):
    settings = {"scheme": NOISY, "rounds": 5, "privacy__epsilon": epsilon}
    honest, _ = flower(**settings, out="honest")
    assert [record["replies"]["dropped"] for record in honest.records] == [{}] * 5
    loud, _ = flower(**settings, change=lengthened(3.0), out="loud")
    silent, _ = flower(**settings, change=without_node_1, out="silent")
    dropped = [record["replies"]["dropped"].get("above its norm bound", 0) for record in loud.records]
    assert dropped == [sum(device % 4 == 1 for device in record["cohort"]) for record in loud.records]
    assert sum(dropped) > 0
    assert torch.equal(loud.parameters, silent.parameters)
