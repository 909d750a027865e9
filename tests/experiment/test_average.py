"""`server.average`: a run delivers the exponential average of its models, and says how good the last one is."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import pfels
from pfels.experiment import loop
from tests.conftest import small
from tests.experiment.test_directory import contents, stop_after


def test_a_run_delivers_the_average_of_its_models_and_trains_from_the_last(scheme: str):
    """The models themselves are those of a run without averaging."""
    released: list[torch.Tensor] = []

    def played(experiment, plan, theta, memory):
        released.append(theta)
        return loop.simulate(experiment, plan, theta, memory)

    fixed = {"scheme": scheme, "pfels-echo__weights": "square-root"}  # those of echo are tuned to what is delivered
    averaged = loop.run(small(**fixed, server__average=0.3), play_round=played)
    plain = loop.run(small(**fixed, server__average=0.0))
    start, *models = [*released, None]
    expected = start
    for t, theta in enumerate(models[:-1]):
        weight = min(0.3, (1 + t) / (10 + t))
        expected = weight * expected + (1 - weight) * theta
    last_weight = min(0.3, 6 / 15)
    before, last = averaged.parameters - last_weight * expected, plain.parameters
    assert torch.allclose(before / (1 - last_weight), last, atol=1e-6)
    assert averaged.summary["accuracy_last"] == plain.summary["accuracy"] == plain.summary["accuracy_last"]
    assert averaged.records[-1]["test_accuracy"] == averaged.summary["accuracy"]


def test_an_average_survives_a_restart_to_the_same_bytes(tmp_path: Path):
    config = small(server__average=0.9, server__momentum=0.5)
    whole = loop.run(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        loop.run(config, tmp_path / "cut", progress=stop_after(3))
    loop.run(config, tmp_path / "cut", resume=True)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    saved = load_file(tmp_path / "cut" / "checkpoint.safetensors")
    assert torch.equal(saved["average"], whole.parameters)
    assert not torch.equal(saved["theta"], saved["average"])
    again = loop.run(config, tmp_path / "cut", resume=True)
    assert torch.equal(again.parameters, whole.parameters), "a finished run that is read delivers the same model"


def test_a_plan_tells_bands_noise_and_memory_of_echo():
    settings = {
        "compression.ratio": 1.0, "channel.silent_below": 0.02, "server.average": 0.95,
        "pfels-echo.weights": "square-root",
    }  # fmt: skip
    planned = pfels.plan("demo", schemes=["pfels-plus", "pfels-echo"], overrides=settings)["schemes"]
    assert "echo" not in planned["pfels-plus"]
    echo = planned["pfels-echo"]["echo"]
    assert (echo["bands"], echo["blocks"], echo["rounds_between_turns"], echo["turns"]) == (5, 1, 5, 60)
    assert echo["noise_in_models"] < 0.7
    assert echo["noise_in_average"] > echo["noise_in_average_optimised"]
    tuned = {**settings, "pfels-echo.weights": "optimised"}
    echo_tuned = pfels.plan("demo", schemes=["pfels-echo"], overrides=tuned)["schemes"]["pfels-echo"]["echo"]
    assert echo_tuned["noise_in_average"] == pytest.approx(echo["noise_in_average_optimised"], rel=0.01)
    assert echo["memory_bytes"] == 4 * 4 * 2410 * (20 + 2)
