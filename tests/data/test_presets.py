"""The presets have the documented settings."""

import pytest

from pfels.config.load import load_config

PAPER = {
    "cifar10": {
        "rounds": 2000, "data.devices": 1000, "data.per_device": 50, "data.partition": "iid", "model.name": "vgg11",
        "training.clip": 1.0, "compression.ratio": 0.3, "privacy.epsilon": 1.5,
    },
    "femnist": {
        "rounds": 1000, "data.devices": 1000, "data.per_device": 100, "data.partition": "writer",
        "model.name": "resnet18", "training.clip": 10.0, "compression.ratio": 0.5, "privacy.epsilon": 2.0,
    },
}  # fmt: skip
COMMON = {
    "cohort.size": 32, "training.local_epochs": 5, "training.batch_size": 50, "training.momentum": 0.9,
    "channel.gain_mean": 0.02, "channel.gain_min": 0.0001, "channel.gain_max": 0.1, "channel.noise_std": 1.0,
    "channel.snr_min_db": 2.0, "channel.snr_max_db": 15.0, "channel.subcarriers": 3300, "channel.slot_ms": 10.0,
}  # fmt: skip
LEARNING_RATES = {"cifar10": (0.01, 0.05, 0.1), "femnist": (0.001, 0.02, 0.05)}


@pytest.mark.parametrize("preset", list(PAPER))
def test_the_presets_of_the_paper_have_its_settings(preset: str):
    config = load_config(preset)
    expected = PAPER[preset] | COMMON
    assert {key: config.flat()[key] for key in expected} == expected
    assert config.training.learning_rate in LEARNING_RATES[preset]
    assert config.delta == 1 / 1000


@pytest.mark.parametrize("preset", ["fashion", "mnist-writers", "cifar10-small"])
def test_small_presets_keep_the_papers_channel_and_local_training(preset: str):
    config = load_config(preset, tuned=False)  # without what was chosen for single schemes
    expected = COMMON | ({"cohort.size": 16, "training.learning_rate": 0.02} if preset == "cifar10-small" else {})
    assert {key: config.flat()[key] for key in expected} == expected
    assert config.rounds >= 300
