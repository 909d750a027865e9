"""run.precision = "bfloat16": what is rounded, what is not, and where it is refused."""

import sys

import numpy as np
import pytest
import torch
from torch import Tensor

import pfels
from pfels.cli import main
from pfels.errors import InputError
from pfels.runtime.memory import Scratch
from pfels.runtime.threads import OrderedPool, one_thread_each
from pfels.seeding import Purpose, generator
from pfels.training import precision, sgd, winograd
from pfels.training.batches import Batch
from pfels.training.layers import LARGE, Parameter, Tape, convolve, dense
from pfels.training.local import LocalTraining
from pfels.training.networks import build
from pfels.training.winograd import convolve_3x3
from tests.training.test_engines import SHAPES, RandomFederation, train_cohort

BF16 = torch.bfloat16
ROUNDING = 2**-9  # the maximum relative error of one rounding to bfloat16


def relative_error(got: Tensor, wanted: Tensor) -> float:
    return float((got.double() - wanted).norm() / wanted.norm())


def passes(layer, weight: Tensor, x: Tensor, g: Tensor, factors: torch.dtype | None) -> list[Tensor]:
    """A layer's output, the gradient by its input and the one by its weight."""
    parameter = Parameter(weight, torch.zeros_like(weight), 0.0)
    tape = Tape(Scratch(), keep=True, factors=factors)
    with one_thread_each():
        y = layer(tape, x, parameter)
        by_input = tape.back(g)
    assert by_input is not None
    return [y, by_input, parameter.velocity]


def convolve_5x5(tape: Tape, x: Tensor, weight: Parameter) -> Tensor:
    return convolve(tape, x, weight, padding=2)


def dense_without_bias(tape: Tape, x: Tensor, weight: Parameter) -> Tensor:
    bias = torch.zeros(1, weight.value.shape[2], dtype=x.dtype)
    return dense(tape, x, weight, Parameter(bias, bias.clone(), 0.0))


# Each factor is rounded once, and so is each result: three independent errors of at most ROUNDING, √3 together.
# Winograd's tiles of 2×2 round the products too, and each output is a sum of several with either sign.
@pytest.mark.parametrize(
    ("layer", "weight", "x", "outputs", "bound"),
    [
        (convolve_5x5, (1, 32, 16, 5, 5), (1, 9, 14, 14, 16), 32, 3**0.5),
        (dense_without_bias, (1, 800, 64), (1, 40, 800), 64, 3**0.5),
        (convolve_3x3, (1, 3, 3, 32, 48), (1, 7, 9, 10, 32), 48, 4.0),
        (convolve_3x3, (1, 3, 3, 32, 48), (1, 7, 4, 4, 32), 48, 4.0),
    ],
)
def test_rounded_products_are_off_by_a_few_roundings(layer, weight, x, outputs, bound):
    draw = torch.Generator().manual_seed(2)
    w, images = torch.randn(weight, generator=draw), torch.randn(x, generator=draw).relu()
    g = torch.randn((*x[:-1], outputs), generator=draw)
    exact = passes(layer, w.double(), images.double(), g.double(), None)
    for got, wanted in zip(passes(layer, w, images, g, BF16), exact, strict=True):
        assert got.dtype == torch.float32
        assert ROUNDING / 8 < relative_error(got, wanted) <= bound * ROUNDING


def test_large_tiles_would_be_off_by_several_times_as_much(monkeypatch):
    draw = torch.Generator().manual_seed(2)
    w, images = torch.randn(1, 3, 3, 32, 48, generator=draw), torch.randn(1, 7, 8, 8, 32, generator=draw).relu()
    g = torch.randn(1, 7, 8, 8, 48, generator=draw)
    exact = passes(convolve_3x3, w.double(), images.double(), g.double(), None)
    small = passes(convolve_3x3, w, images, g, BF16)
    monkeypatch.setattr(winograd, "_F2", winograd._F4)
    large = passes(convolve_3x3, w, images, g, BF16)
    for bad, good, wanted in zip(large, small, exact, strict=True):
        assert relative_error(bad, wanted) > 4 * relative_error(good, wanted)


def test_products_are_summed_in_float32():
    n = 4096  # a sum of ones in bfloat16 would end at 256
    y, _, _ = passes(dense_without_bias, torch.ones(1, n, 32), torch.ones(1, 20, n), torch.ones(1, 20, 32), BF16)
    assert torch.equal(y, torch.full_like(y, n))


def test_steps_too_small_for_bfloat16_still_add_up():
    network = build("cnn", shape=(1, 12, 12), classes=5, hidden=128)
    theta = network.initial(generator(0, Purpose.MODEL))
    x, y = (part[None] for part in RandomFederation((1, 12, 12), [10]).one(0))
    steps = [Batch(None, None, None)] * 3

    def update(factors: torch.dtype | None) -> Tensor:
        rule = sgd.Rule(1e-4, 0.9, factors)
        with one_thread_each():
            return sgd.train(network, theta, x=x, y=y, batches=steps, rule=rule, scratch=Scratch())[0].clone()

    rounded, wanted = update(BF16), update(None)
    lost = theta.to(BF16) + wanted[0].to(BF16) == theta.to(BF16)
    assert lost[wanted[0] != 0].float().mean() > 0.9
    assert relative_error(rounded, wanted.double()) < 0.05


@pytest.mark.parametrize("name", ["cnn", "vgg11", "resnet18"])
def test_rounded_training_is_the_same_to_the_bit_for_any_number_of_workers(name):
    network, counts = build(name, shape=SHAPES[name], classes=5, hidden=128), [3, 4]

    def train(workers: int) -> tuple[Tensor, np.ndarray]:
        federation = RandomFederation(SHAPES[name], counts)
        work = LocalTraining(network, federation, 0.05, 1, 3, 0.9, "threaded", OrderedPool(workers), BF16)  # type: ignore[arg-type]
        return train_cohort(work, [0, 1, 2, 3])

    (alone, losses), (together, other_losses) = train(1), train(3)
    assert torch.isfinite(alone).all()
    assert torch.equal(alone, together)
    assert np.array_equal(losses, other_losses)


def test_a_network_without_large_products_is_not_rounded():
    assert LARGE > 64 * 32
    demo = {"rounds": 2, "run.eval_every": 2}
    one, two = (
        pfels.run(pfels.load_config("demo", {**demo, "run.precision": p})).parameters for p in ("float32", "bfloat16")
    )
    assert np.array_equal(one, two)


def test_no_privacy_figure_depends_on_the_precision():
    cnn = {"rounds": 2, "run.eval_every": 2, "model.name": "cnn"}
    for scheme in ("pfels", "pfels-plus", "dp-fedavg"):
        one, two = (
            pfels.run(pfels.load_config("demo", {**cnn, "scheme": scheme, "run.precision": p}))
            for p in ("float32", "bfloat16")
        )
        assert not np.array_equal(one.parameters, two.parameters)
        assert one.summary["privacy"] == two.summary["privacy"]
        for a, b in zip(one.records, two.records, strict=True):
            assert a["privacy"] == b["privacy"]


def test_a_cpu_without_bfloat16_is_refused_with_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_f": True, "avx512_bf16": False})
    out = tmp_path / "run"
    monkeypatch.setattr(sys, "argv", ["pfels", "run", "demo", "-s", "run.precision=bfloat16", "--out", str(out)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.err.strip().splitlines() == [said.err.strip()]
    assert 'run.precision = "bfloat16"' in said.err
    assert "use float32" in said.err
    assert not out.exists()


def test_bfloat16_is_refused_away_from_the_cpu():
    with pytest.raises(InputError, match="only on the CPU"):
        precision.factors("bfloat16", device="cuda")
    assert precision.factors("float32", device="cuda") is None
