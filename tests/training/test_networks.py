import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pfels.errors import InputError
from pfels.runtime.memory import Scratch
from pfels.runtime.threads import one_thread_each
from pfels.seeding import Purpose, generator
from pfels.training.layers import Tape, cross_entropy
from pfels.training.networks import Network, build

SIZES = [
    ("linear", (1, 28, 28), 10, 7_850),
    ("linear", (704,), 10, 7_050),
    ("mlp", (1, 28, 28), 10, 50_890),
    ("cnn", (1, 28, 28), 10, 114_314),
    ("cnn", (3, 32, 32), 10, 145_834),
    ("vgg11", (3, 32, 32), 10, 9_750_922),
    ("resnet18", (1, 28, 28), 62, 11_192_446),
]


def start(network: Network) -> Tensor:
    return network.initial(generator(0, Purpose.MODEL))


def tensors(network: Network, row: Tensor) -> list[Tensor]:
    return [p.value[0] for p in network.stacked(row.unsqueeze(0), row.unsqueeze(0), 0.0)]


def plain(name: str, parameters: list[Tensor], x: Tensor) -> Tensor:
    """The same networks in plain PyTorch, for autograd; flat features are ordered (height, width, channel)."""
    p = iter(parameters)

    def kernel() -> Tensor:
        return next(p).permute(3, 2, 0, 1)

    def dense(x: Tensor) -> Tensor:
        return x @ next(p) + next(p)

    def norm(x: Tensor) -> Tensor:
        return F.group_norm(x, 32)

    if name == "linear":
        return dense(x.flatten(1))
    if name == "mlp":
        return dense(dense(x.flatten(1)).relu())
    if name == "cnn":
        for _ in range(2):
            x = F.max_pool2d(F.conv2d(x, next(p), next(p), padding=2).relu(), 2)
        return dense(dense(x.permute(0, 2, 3, 1).flatten(1)).relu())
    if name == "vgg11":
        for i in range(8):
            x = F.conv2d(x, kernel() if i else next(p), next(p), padding=1).relu()
            x = F.max_pool2d(x, 2) if i in {0, 1, 3, 5, 7} else x
        return dense(dense(dense(x.permute(0, 2, 3, 1).flatten(1)).relu()).relu())
    x = F.max_pool2d(norm(F.conv2d(x, next(p), stride=2, padding=3)).relu(), 3, 2, 1)
    for stride in (1, 1, 2, 1, 2, 1, 2, 1):
        y = norm(F.conv2d(x, kernel() if stride == 1 else next(p), stride=stride, padding=1)).relu()
        y = norm(F.conv2d(y, kernel(), padding=1))
        x = (y + (x if stride == 1 else norm(F.conv2d(x, next(p), stride=2)))).relu()
    return dense(x.mean((2, 3)))


@pytest.mark.parametrize(("name", "shape", "classes", "dimension"), SIZES)
def test_networks_have_exactly_the_stated_number_of_parameters(name, shape, classes, dimension):
    assert build(name, shape=shape, classes=classes, hidden=64).dimension == dimension


@pytest.mark.parametrize(
    ("name", "shape", "devices"),
    [
        ("linear", (1, 8, 8), 2),
        ("linear", (60,), 1),
        ("mlp", (1, 8, 8), 2),
        ("cnn", (1, 9, 13), 1),
        ("cnn", (3, 16, 16), 3),
        ("vgg11", (3, 32, 32), 1),
        ("vgg11", (3, 33, 32), 2),
        ("resnet18", (1, 28, 28), 2),
        ("resnet18", (3, 40, 33), 1),
    ],
)
def test_backward_passes_give_the_gradient_of_autograd(name, shape, devices):
    check_gradients(name, shape, devices, examples=3)


@pytest.mark.parametrize(("name", "shape"), [("vgg11", (3, 32, 32)), ("resnet18", (1, 28, 28))])
def test_the_gradient_of_a_single_example_survives_the_reuse_of_scratch_memory(name, shape):
    check_gradients(name, shape, devices=1, examples=1)


def check_gradients(name: str, shape: tuple[int, ...], devices: int, examples: int) -> None:
    """Two steps with the same scratch memory, g + g/2 in the velocity, against autograd."""
    network = build(name, shape=shape, classes=7, hidden=16)
    # In double precision: in single precision, rounding can change the result of a ReLU or a pooling.
    draw, double = torch.Generator().manual_seed(5), {"dtype": torch.float64}
    x = torch.randn(devices, examples, *shape, generator=draw, **double)
    y, weights = (
        torch.randint(0, 7, (devices, examples), generator=draw),
        torch.rand(devices, examples, generator=draw, **double),
    )
    rows = start(network) + 0.01 * torch.randn(devices, network.dimension, generator=draw, **double)
    velocity = torch.full_like(rows, torch.nan)  # momentum 0 ignores the previous velocity
    scratch = Scratch()
    with one_thread_each():
        for momentum in (0.0, 0.5):
            tape = Tape(scratch, keep=True)
            logits = network.forward(network.stacked(rows, velocity, momentum), x, tape)
            losses, gradient = cross_entropy(logits, y, weights)
            tape.back(gradient)
        for i in range(devices):
            parameters = [t.clone().requires_grad_() for t in tensors(network, rows[i])]
            each = F.cross_entropy(plain(name, parameters, x[i]), y[i], reduction="none")
            gradients = torch.autograd.grad((each * weights[i]).sum(), parameters)
            torch.testing.assert_close(losses[i], (each * weights[i]).sum().detach())
            for got, wanted in zip(tensors(network, velocity[i]), gradients, strict=True):
                assert (got - 1.5 * wanted).norm() <= 1e-9 * wanted.norm() + 1e-12


@pytest.mark.parametrize(("name", "shape", "classes", "dimension"), SIZES)
def test_initial_values_depend_only_on_the_generator(name, shape, classes, dimension):
    network = build(name, shape=shape, classes=classes, hidden=64)
    assert torch.equal(start(network), start(network))
    assert not torch.equal(start(network), network.initial(generator(1, Purpose.MODEL)))


@pytest.mark.parametrize("name", ["vgg11", "resnet18"])
def test_a_deep_network_initially_passes_its_input_signal_to_its_output(name):
    network = build(name, shape=(3, 32, 32), classes=10, hidden=64)
    x = torch.randn(20, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    spread = network.logits(start(network), x, Scratch()).std(0).mean()
    assert 0.05 < spread < 5


def test_evaluation_keeps_no_scratch_memory_and_equals_the_training_pass():
    network = build("vgg11", shape=(3, 32, 32), classes=10, hidden=64)
    theta, scratch = start(network), Scratch()
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    rows = theta.unsqueeze(0)
    trained = network.forward(network.stacked(rows, rows, 0.0), x.unsqueeze(0), Tape(Scratch(), keep=True))[0]
    assert torch.equal(network.logits(theta, x, scratch), trained)
    assert scratch.mark == 0


def test_initial_values_of_small_networks_lie_within_one_over_the_root_of_their_inputs():
    network = build("mlp", shape=(1, 8, 8), classes=10, hidden=32)
    for values, inputs in zip(tensors(network, start(network)), (64, 64, 32, 32), strict=True):
        assert 0.9 * inputs**-0.5 < np.abs(values.numpy()).max() <= inputs**-0.5 or values.numel() < 50


@pytest.mark.parametrize(("name", "shape"), [("cnn", (64,)), ("cnn", (1, 3, 8)), ("vgg11", (3, 28, 28))])
def test_examples_that_are_no_images_or_too_small_are_refused(name, shape):
    with pytest.raises(InputError, match=r"model\.name"):
        build(name, shape=shape, classes=10, hidden=8)
