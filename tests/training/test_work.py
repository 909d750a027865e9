"""The work of local training, held against published counts and against the networks themselves."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pfels.data.counts import mean_examples
from pfels.data.synthetic import SyntheticFederation
from pfels.runtime.memory import Scratch
from pfels.training import architectures, networks
from pfels.training.work import multiply_adds, training_flops


def test_resnet_18_has_the_1_8_billion_multiply_adds_that_it_is_known_for():
    assert multiply_adds("resnet18", shape=(3, 224, 224), classes=1000, hidden=1) == 1_814_073_344


def test_vgg_11_has_153_million_multiply_adds_on_cifar_10():
    assert multiply_adds("vgg11", shape=(3, 32, 32), classes=10, hidden=1) == 153_293_824


@pytest.mark.parametrize(
    ("name", "shape"),
    [("linear", (60,)), ("mlp", (1, 8, 8)), ("cnn", (1, 28, 28)), ("cnn", (3, 30, 22))],
)  # deeper networks use Winograd's 3×3 convolutions, which multiply less
def test_the_count_is_that_of_the_network_s_own_forward_pass(name: str, shape: tuple[int, ...]):
    network = networks.build(name, shape=shape, classes=7, hidden=16)
    theta = network.initial(np.random.Generator(np.random.Philox(key=1)))
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        network.logits(theta, torch.zeros(2, *shape), Scratch())
    counted = counter.get_total_flops() / 2 / 2  # two operations per multiply-add, two examples
    assert counted == multiply_adds(name, shape=shape, classes=7, hidden=16)


def test_training_is_three_forward_passes_per_example_and_epoch():
    assert training_flops("mlp", shape=(1, 8, 8), classes=10, hidden=32, examples=14.0, epochs=5) == 6 * 2368 * 14 * 5
    layers = architectures.layers("mlp", shape=(1, 8, 8), classes=10, hidden=32)
    assert architectures.dimension(layers) - 42 == 2368  # every weight is used once per example, and no bias


def test_the_mean_of_synthetic_devices_is_that_of_their_law():
    sizes = [SyntheticFederation(0, 4000, None, 1.0, 1.0).examples([i]).counts[0] for i in range(1000)]
    mean = mean_examples("synthetic", devices=1, per_device=None, by_writer=True)
    assert np.mean(sizes) == pytest.approx(mean, abs=4 * np.std(sizes) / np.sqrt(1000))


def test_examples_per_device_follow_from_the_sizes_of_the_data():
    def found(name: str, devices: int = 1000, per_device: int | None = None, by_writer: bool = False) -> float:
        return mean_examples(name, devices=devices, per_device=per_device, by_writer=by_writer)

    assert found("digits", 100) == pytest.approx(14.37)
    assert found("fashion", per_device=50) == 50
    assert found("femnist", per_device=100, by_writer=True) == pytest.approx(0.9 * 805_263 / 3550)
    assert found("mnist-writers", 440, 100, by_writer=True) == pytest.approx(60_000 / 539)
