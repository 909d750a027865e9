"""Products by oneDNN and by MKL: the same up to rounding, whichever of them the sizes choose."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from pfels.runtime.memory import Scratch
from pfels.runtime.threads import OrderedPool, one_thread_each
from pfels.training import products
from pfels.training.layers import Parameter, Tape
from pfels.training.products import SMALL, linear, multiply, product
from pfels.training.winograd import convolve_3x3


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def error(found: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest error, relative to the largest sum of magnitudes that a product of these factors could have."""
    exact = a.double() @ b.double()
    return float((found.double() - exact).abs().max() / (a.double().abs() @ b.double().abs()).max())


@pytest.mark.parametrize("shape", [(3, 5, 7, 4), (2, 160, 130, 120), (2, 1, 2000, 1500)])
def test_a_stack_of_products_is_exact_up_to_rounding_in_any_layout(shape: tuple[int, int, int, int]):
    count, rows, inner, columns = shape
    a, b = random(count, rows, inner), random(count, inner, columns)
    turned = (a.mT.contiguous().mT, b.mT.contiguous().mT)
    for x, y in [(a, b), (turned[0], b), (a, turned[1]), turned]:
        out = torch.full((count, rows, columns), float("nan"))
        found = multiply(x, y, out=out)
        assert found is out
        assert error(found, a, b) < 3e-7


def test_the_sizes_decide_who_multiplies(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[int, ...]] = []

    def counted(x: torch.Tensor, y: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        asked.append(tuple(x.shape))
        return x @ y

    monkeypatch.setattr(products, "ONEDNN", True)
    monkeypatch.setattr(products, "_by_onednn", counted)
    side = 128  # 128³ = 2²¹ multiplications
    assert side**3 == SMALL
    for rows in (side, side + 1):
        a, b = random(2, rows, side), random(2, side, side)
        multiply(a, b, out=torch.empty(2, rows, side))
        linear(a[0], b[0], torch.zeros(side))
    assert asked == 3 * [(side + 1, side)], "two of a stack and one alone, above the limit only"


def test_without_onednn_the_results_are_the_same_up_to_rounding(monkeypatch: pytest.MonkeyPatch):
    a, b, bias = random(2, 160, 130), random(2, 130, 120), random(120)
    with_it = multiply(a, b, out=torch.empty(2, 160, 120)), linear(a[0], b[0], bias)
    monkeypatch.setattr(products, "ONEDNN", False)
    without = multiply(a, b, out=torch.empty(2, 160, 120)), linear(a[0], b[0], bias)
    for one, other in zip(with_it, without, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_the_bits_do_not_depend_on_the_number_of_workers():
    parts = [(random(2, 160, 130) * i, random(2, 130, 120)) for i in range(1, 9)]

    def work(part: tuple[torch.Tensor, torch.Tensor], scratch: Scratch) -> torch.Tensor:
        return multiply(*part, out=torch.empty(2, 160, 120))

    with one_thread_each():
        alone, together = (list(OrderedPool(workers).map(work, parts)) for workers in (1, 3))
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))


def test_convolutions_large_enough_for_onednn_are_plain_ones_up_to_rounding():
    x, kernels, g = random(1, 9, 16, 16, 128), random(1, 3, 3, 128, 128) / 34, random(1, 9, 16, 16, 128)
    tape, velocity = Tape(Scratch(), keep=True), torch.zeros_like(kernels)
    y = convolve_3x3(tape, x, Parameter(kernels, velocity, momentum=0.0))
    by_input = tape.back(g)
    image, plain = x[0].permute(0, 3, 1, 2).requires_grad_(), kernels[0].permute(3, 2, 0, 1).requires_grad_()
    wanted = F.conv2d(image, plain, padding=1)
    wanted.backward(g[0].permute(0, 3, 1, 2))
    assert by_input is not None
    assert image.grad is not None
    assert plain.grad is not None
    for found, exact in [
        (y[0].permute(0, 3, 1, 2), wanted.detach()),
        (by_input[0].permute(0, 3, 1, 2), image.grad),
        (velocity[0].permute(3, 2, 0, 1), plain.grad),
    ]:
        assert (found - exact).norm() <= 1e-5 * exact.norm()


@pytest.mark.parametrize("columns", [3, 15, 16, 40])
def test_few_columns_lie_next_to_each_other(columns: int):
    a, b = random(4, 9, 20), random(4, 20, columns)
    found = product(a, b)
    assert error(found, a, b) < 3e-7
    assert found.mT.is_contiguous() == (columns < 16)
