"""The networks as modules of PyTorch: the same functions, with the same weights under names."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pfels.errors import InputError
from pfels.runtime.memory import Scratch
from pfels.training import modules, networks

SHAPES = [
    ("linear", (60,)),
    ("linear", (3, 5, 7)),
    ("mlp", (1, 8, 8)),
    ("mlp", (441,)),
    ("cnn", (1, 9, 13)),
    ("cnn", (3, 16, 16)),
    ("vgg11", (2, 32, 97)),
    ("resnet18", (3, 33, 20)),
]


def weights(name: str, shape: tuple[int, ...]) -> Tensor:
    """Parameters that are all different, in float64, near those that training starts from."""
    generator = np.random.default_rng(0)
    theta = networks.build(name, shape=shape, classes=7, hidden=11).initial(generator).double()
    return theta + 0.01 * torch.from_numpy(generator.standard_normal(len(theta)))


def sizes(shape: tuple[int, ...]) -> dict[str, object]:
    return {"shape": shape, "classes": 7, "hidden": 11}


@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_a_module_computes_what_the_engines_compute(name, shape):
    theta, how = weights(name, shape), sizes(shape)
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((5, *shape)))
    expected = networks.build(name, **how).logits(theta, x, Scratch())
    module = modules.module(name, modules.state_dict(name, theta, **how), **how)
    with torch.no_grad():
        found = module(x)
    assert found.dtype == torch.float64
    assert (found - expected).abs().max() <= 1e-11 * expected.abs().max()


@pytest.mark.parametrize(("name", "shape"), SHAPES[:6])
def test_every_parameter_is_in_the_module_once(name, shape):
    theta, how = torch.arange(len(weights(name, shape)), dtype=torch.float64), sizes(shape)
    found = torch.cat([each.flatten() for each in modules.state_dict(name, theta, **how).values()])
    assert torch.equal(found.sort().values, theta)


def test_neither_weights_nor_module_share_memory_with_the_vector_and_nothing_is_drawn():
    theta, how = weights("cnn", (1, 8, 8)), sizes((1, 8, 8))
    before, state = theta.clone(), torch.get_rng_state()
    found = modules.state_dict("cnn", theta, **how)
    for each in modules.module("cnn", found, **how).parameters():
        assert each.requires_grad
        each.data.zero_()
    assert torch.equal(theta, before)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_vector_of_another_length_is_refused():
    with pytest.raises(InputError, match="a linear for this data has 427"):
        modules.state_dict("linear", torch.zeros(426), **sizes((60,)))


def test_the_names_of_resnet18_are_those_of_torchvision():
    block = ("conv1.weight", "conv2.weight")
    expected = ["conv1.weight"]
    for layer in range(1, 5):
        for i in range(2):
            more = ("downsample.0.weight",) if layer > 1 and i == 0 else ()
            expected += [f"layer{layer}.{i}.{each}" for each in (*block, *more)]
    with torch.device("meta"):
        module = modules.build("resnet18", shape=(3, 32, 32), classes=10, hidden=1)
    assert list(module.state_dict()) == [*expected, "fc.weight", "fc.bias"]


@pytest.mark.parametrize("name", ["linear", "mlp", "cnn", "vgg11"])
def test_the_others_are_a_plain_sequential_of_layers_of_pytorch(name):
    module = modules.build(name, shape=(3, 32, 32), classes=10, hidden=8)
    assert type(module) is nn.Sequential
    assert all(type(each).__module__.startswith("torch.nn.") for each in module)
