"""Products of matrices in single precision, by whichever of PyTorch's two libraries is faster at them.

oneDNN uses wider instructions than MKL on CPUs other than Intel's, and takes half the time there unless the matrices
are small. On one machine the sizes alone decide, so the same product always has the same bits.
"""

import torch
from torch import Tensor

ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise")  # not in every build of PyTorch
SMALL = 2**21  # multiplications of a product that is done before oneDNN has begun


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x·W + b for one matrix of examples."""
    if _is_for_onednn(x, len(x) * weight.numel()):
        return _by_onednn(x, weight, bias)
    return torch.addmm(bias, x, weight)


def product(a: Tensor, b: Tensor) -> Tensor:
    """ab, for stacks of matrices. With fewer than 16 columns the transposed product is three times as fast; columns
    then lie next to each other in memory, not rows."""
    return torch.bmm(a, b) if b.shape[-1] >= 16 else torch.bmm(b.mT, a.mT).mT


def multiply(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    """ab, for stacks of matrices, in `out`."""
    if _is_for_onednn(a, a[0].numel() * b.shape[-1]):
        for x, y, xy in zip(a, b, out, strict=True):
            xy.copy_(_by_onednn(x, y))
        return out
    return torch.bmm(a, b, out=out)


def _is_for_onednn(a: Tensor, multiplications: int) -> bool:
    return ONEDNN and a.device.type == "cpu" and a.dtype == torch.float32 and multiplications > SMALL


def _by_onednn(x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, y.mT, bias, "none", [], "")
    return found
