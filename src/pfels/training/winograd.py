"""3×3 convolutions by Winograd's minimal filtering: fewer multiplications, all of them large matrix products.

An output tile of m×m pixels comes from an input tile of (m+2)×(m+2) as Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A (Lavin and Gray,
arXiv 1509.09308): (m+2)² products for each pair of channels where the plain sum takes 9m². Between the transforms
there is one matrix product for each of the (m+2)² places, over all tiles and channels. The transforms are matrix
products too, with the Kronecker squares of Bᵀ, G and Aᵀ; the way back applies their transposes.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pfels.training.layers import Parameter, Tape


@dataclass(frozen=True)
class _Transform:
    """The Kronecker squares of Bᵀ, G and Aᵀ for output tiles of m×m."""

    m: int
    data: Tensor
    kernel: Tensor
    output: Tensor


def _transform(m: int, data: list[list[float]], kernel: list[list[float]], output: list[list[float]]) -> _Transform:
    squares = [torch.kron(t, t) for t in (torch.tensor(rows, dtype=torch.float64) for rows in (data, kernel, output))]
    return _Transform(m, *squares)


_F2 = _transform(
    2,
    [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
    [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
    [[1, 1, 1, 0], [0, 1, -1, -1]],
)

_F4 = _transform(
    4,
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ],
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ],
    [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
)


def convolve_3x3(tape: Tape, x: Tensor, weight: Parameter) -> Tensor:
    """A same-size convolution with kernels (c, 3, 3, in, out), without a bias; images (c, n, height, width, in)."""
    c, n, height, width, inputs = x.shape
    if height == width == 1:
        return _centre(tape, x, weight)
    outputs = weight.value.shape[-1]
    # On smaller maps the larger tiles save little, since they leave few rows to each of many products.
    by = _F4 if min(height, width) >= 8 else _F2
    m, a = by.m, by.m + 2
    down, across = -(-height // m), -(-width // m)
    tiles, places = n * down * across, a * a
    scratch, mark = tape.scratch, tape.scratch.mark

    def take(*shape: int) -> Tensor:
        return scratch.take(*shape, like=x)

    def times(matrix: Tensor, columns: Tensor, out: Tensor) -> None:
        torch.bmm(matrix.to(x).expand(c, -1, -1), columns, out=out.view(c, len(matrix), -1))

    def padded() -> Tensor:
        return take(c, n, down * m + 2, across * m + 2, inputs).zero_()

    data, kernel = take(c * places, tiles, inputs), take(c * places, inputs, outputs)
    kept, image = scratch.mark, padded()
    image[:, :, 1 : height + 1, 1 : width + 1] = x
    s = image.stride()
    shape, strides = (c, a, a, n, down, across, inputs), (s[0], s[2], s[3], s[1], m * s[2], m * s[3], 1)
    windows = take(*shape).copy_(image.as_strided(shape, strides))
    times(by.data, windows.view(c, places, -1), data)
    times(by.kernel, weight.value.view(c, 9, -1), kernel)
    scratch.give_back(kept)
    products = torch.bmm(data, kernel, out=take(c * places, tiles, outputs))
    y = take(c, m, m, n, down, across, outputs)
    times(by.output, products.view(c, places, -1), y)
    y = y.permute(0, 3, 4, 1, 5, 2, 6).reshape(c, n, down * m, across * m, outputs)
    scratch.give_back(kept if tape.keep else mark)

    def back(g: Tensor) -> Tensor:
        g = F.pad(g, (0, 0, 0, across * m - width, 0, down * m - height))
        g = g.view(c, n, down, m, across, m, outputs).permute(0, 3, 5, 1, 2, 4, 6)
        by_products = take(c * places, tiles, outputs)
        times(by.output.mT, g.reshape(c, m * m, -1), by_products)
        used = scratch.mark
        by_kernel = torch.bmm(data.mT, by_products, out=take(c * places, inputs, outputs))
        weight.learn_product(by.kernel.mT.to(x).expand(c, -1, -1), by_kernel.view(c, places, -1))
        scratch.give_back(used)
        by_data = torch.bmm(by_products, kernel.mT, out=take(c * places, tiles, inputs))
        by_windows, out = take(*shape), padded()
        times(by.data.mT, by_data.view(c, places, -1), by_windows)
        for i in range(a):
            for j in range(a):
                out[:, :, i : i + down * m - m + 1 : m, j : j + across * m - m + 1 : m] += by_windows[:, i, j]
        scratch.give_back(mark)
        return out[:, :, 1 : height + 1, 1 : width + 1].contiguous()

    tape.add(back)
    return y[:, :, :height, :width].contiguous()


def _centre(tape: Tape, x: Tensor, weight: Parameter) -> Tensor:
    """The same convolution of images of one pixel, which only the kernels' centre ever meets."""
    c, n = x.shape[:2]
    flat, kernel = x.view(c, n, -1), weight.value[:, 1, 1]

    def back(g: Tensor) -> Tensor:
        g = g.view(c, n, -1)
        by_kernel = torch.zeros_like(weight.value)
        torch.bmm(flat.mT, g, out=by_kernel[:, 1, 1])
        weight.learn(by_kernel)
        return torch.bmm(g, kernel.mT).view(x.shape)

    tape.add(back)
    return torch.bmm(flat, kernel).view(c, n, 1, 1, -1)
