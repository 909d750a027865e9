"""3×3 convolutions by Winograd's minimal filtering: fewer multiplications, all in large matrix products.

An output tile of m×m pixels comes from an input tile of (m+2)×(m+2) as Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A (Lavin and Gray,
arXiv 1509.09308): (m+2)² multiplications per pair of channels instead of 9m². Between the transforms there is one
matrix product per position of the (m+2)², over all tiles and channels. The transforms are matrix products too, with
the Kronecker squares of Bᵀ, G and Aᵀ; the backward pass applies their transposes.

Where factors are rounded, everything between the images is: with tiles of 2×2 the error is about twice that of rounding
the factors of a plain convolution, and ten times with tiles of 4×4, which are therefore not used then.
"""

from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pfels.training.layers import Parameter, Tape
from pfels.training.products import multiply


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


@dataclass(frozen=True)
class _Grid:
    """The tiles of images (c, n, height, width, ·): `down`×`across` output tiles of m×m pixels per image."""

    c: int
    n: int
    height: int
    width: int
    by: _Transform

    @classmethod
    def of(cls, x: Tensor) -> Self:
        """The grid of these images. On small images large tiles save little: many products with few rows each."""
        c, n, height, width, _ = x.shape
        return cls(c, n, height, width, _F4 if min(height, width) >= 8 and x.dtype != torch.bfloat16 else _F2)

    @property
    def down(self) -> int:
        return -(-self.height // self.by.m)

    @property
    def across(self) -> int:
        return -(-self.width // self.by.m)

    @property
    def padded_shape(self) -> tuple[int, ...]:
        """The shape (c, n, ·, ·) of the images with a border of one pixel, extended to whole tiles."""
        return (self.c, self.n, self.down * self.by.m + 2, self.across * self.by.m + 2)

    def windows(self, padded: Tensor) -> Tensor:
        """The overlapping input tiles of padded images as a view (c, m+2, m+2, n, down, across, ·)."""
        m, s = self.by.m, padded.stride()
        shape = (self.c, m + 2, m + 2, self.n, self.down, self.across, padded.shape[-1])
        return padded.as_strided(shape, (s[0], s[2], s[3], s[1], m * s[2], m * s[3], 1))

    def add_windows(self, padded: Tensor, windows: Tensor) -> None:
        """The transpose of `windows`: add every input tile to the padded images."""
        m, last_row, last_column = self.by.m, self.down * self.by.m - self.by.m, self.across * self.by.m - self.by.m
        for i in range(m + 2):
            for j in range(m + 2):
                padded[:, :, i : i + last_row + 1 : m, j : j + last_column + 1 : m] += windows[:, i, j]

    def join(self, tiles: Tensor) -> Tensor:
        """Images, never a view, from output tiles (c, m, m, n, down, across, ·)."""
        ordered = tiles.permute(0, 3, 4, 1, 5, 2, 6).clone(memory_format=torch.contiguous_format)
        images = ordered.view(self.c, self.n, self.down * self.by.m, self.across * self.by.m, -1)
        return images[:, :, : self.height, : self.width].contiguous()

    def split(self, images: Tensor) -> Tensor:
        """The transpose of `join`: output tiles (c, m·m, n·down·across·channels)."""
        m, down, across = self.by.m, self.down, self.across
        g = F.pad(images, (0, 0, 0, across * m - self.width, 0, down * m - self.height))
        g = g.view(self.c, self.n, down, m, across, m, -1).permute(0, 3, 5, 1, 2, 4, 6)
        return g.reshape(self.c, m * m, -1)


def convolve_3x3(tape: Tape, x: Tensor, weight: Parameter) -> Tensor:
    """A same-size convolution with kernels (c, 3, 3, in, out), without bias; images (c, n, height, width, in)."""
    c, n, height, width, inputs = x.shape
    if height == width == 1:
        return _centre(tape, x, weight)
    given, x = x.dtype, tape.rounded(x)
    grid, outputs = _Grid.of(x), weight.value.shape[-1]
    by, m = grid.by, grid.by.m
    tiles, places = n * grid.down * grid.across, (m + 2) ** 2
    scratch, mark = tape.scratch, tape.scratch.mark

    def take(*shape: int) -> Tensor:
        return scratch.take(*shape, like=x)

    def times(matrix: Tensor, columns: Tensor, out: Tensor) -> None:
        torch.bmm(matrix.to(x).expand(c, -1, -1), columns, out=out.view(c, len(matrix), -1))

    data, kernel = take(c * places, tiles, inputs), take(c * places, inputs, outputs)
    kept, image = scratch.mark, take(*grid.padded_shape, inputs).zero_()
    image[:, :, 1 : height + 1, 1 : width + 1] = x
    windows = grid.windows(image)
    shape = windows.shape
    times(by.data, take(*shape).copy_(windows).view(c, places, -1), data)
    times(by.kernel, tape.rounded(weight.value).view(c, 9, -1), kernel)
    scratch.give_back(kept)
    products = multiply(data, kernel, out=take(c * places, tiles, outputs))
    output_tiles = take(c, m, m, n, grid.down, grid.across, outputs)
    times(by.output, products.view(c, places, -1), output_tiles)
    y = grid.join(output_tiles).to(given)
    scratch.give_back(kept if tape.keep else mark)

    def back(g: Tensor) -> Tensor:
        by_products = take(c * places, tiles, outputs)
        times(by.output.mT, grid.split(tape.rounded(g)), by_products)
        used = scratch.mark
        by_kernel = multiply(data.mT, by_products, out=take(c * places, inputs, outputs))
        weight.learn_product(by.kernel.mT.to(x).expand(c, -1, -1), by_kernel.view(c, places, -1))
        scratch.give_back(used)
        by_data = multiply(by_products, kernel.mT, out=take(c * places, tiles, inputs))
        by_windows, out = take(*shape), take(*grid.padded_shape, inputs).zero_()
        times(by.data.mT, by_data.view(c, places, -1), by_windows)
        grid.add_windows(out, by_windows)
        scratch.give_back(mark)
        return out[:, :, 1 : height + 1, 1 : width + 1].to(given, memory_format=torch.contiguous_format, copy=True)

    tape.add(back)
    return y


def _centre(tape: Tape, x: Tensor, weight: Parameter) -> Tensor:
    """The same convolution for images of one pixel, which uses only the centre of the kernels."""
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
