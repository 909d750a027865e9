"""Norms of flat update vectors, clipping that never exceeds the bound, and the sensitivity guard."""

from pfels.errors import GuardError
from pfels.runtime.lazy_torch import Tensor, torch

# Clipping targets a norm this much below the bound, so that later float32 rounding (a few parts in 1e7) can never
# raise a transmission above its sensitivity.
_ROUNDING_MARGIN = 1e-6
_SMALLEST_FACTOR = 1e-30  # below it float32 loses precision, so a row is scaled in two steps
# Below this bound the denormal steps of float32 (2⁻¹⁴⁹ each) may add up to more than the margin, in up to 10¹⁴ numbers.
_DENORMAL_BOUND = 1e-25
_BLOCK = 2**17
_ROUGH = 1.01  # a sum of 2¹⁷ squares in single precision is off by less than 2¹⁷·2⁻²⁴ = 0.8 %, in whatever order
_UNDERFLOW = 1e-15  # and by less than that where squares are too small for single precision


def norms(rows: Tensor) -> Tensor:
    """The Euclidean norm of every row, accumulated in double precision."""
    if rows.shape[-1] <= _BLOCK:
        lengths: Tensor = torch.linalg.vector_norm(rows, dim=-1, dtype=torch.float64)
        return lengths
    squares = rows.new_zeros(len(rows), dtype=torch.float64)
    for block in torch.split(rows, _BLOCK, dim=-1):  # PyTorch copies its whole input to double precision first
        squares += torch.linalg.vector_norm(block, dim=-1, dtype=torch.float64).square()
    return squares.sqrt()


def clip(rows: Tensor, *, bound: float) -> Tensor:
    """Scale every row, in place, to a norm of at most `bound`; rows below it stay bit-identical."""
    if not len(rows):
        return rows
    scale = (bound * (1 - _ROUNDING_MARGIN) / norms(rows)).clamp_(max=1.0)
    smallest = float(scale.min())
    if not smallest >= _SMALLEST_FACTOR:
        tiny, root = scale < _SMALLEST_FACTOR, scale.sqrt()
        rows.mul_(torch.where(tiny, root, 1.0).to(rows.dtype).unsqueeze(-1))
        scale = torch.where(tiny, root, scale)
    if not smallest >= 1:
        rows.mul_(scale.to(rows.dtype).unsqueeze(-1))
    return rows if bound >= _DENORMAL_BOUND else _shortened(rows, bound=bound)


def _shortened(rows: Tensor, *, bound: float) -> Tensor:
    """Rows of a tiny bound, in place: scaled in double precision and rounded toward zero number by number, so that
    rounding never lengthens one."""
    exact = rows.double()
    exact.mul_((bound * (1 - _ROUNDING_MARGIN) / norms(exact)).clamp_(max=1.0).unsqueeze(-1))
    rounded = exact.to(rows.dtype)
    inward = torch.nextafter(rounded, torch.zeros_like(rounded))
    return rows.copy_(torch.where(rounded.abs() > exact.abs(), inward, rounded))


def _rough_norms(rows: Tensor) -> Tensor:
    """The norms in single precision, a fourth of the time: enough to see that a row is far below a bound."""
    blocks = [torch.linalg.vector_norm(block, dim=-1) for block in torch.split(rows, _BLOCK, dim=-1)]
    longest: Tensor = blocks[0] if len(blocks) == 1 else torch.stack(blocks).norm(dim=0)
    return longest


def check_sensitivity(rows: Tensor, *, bound: float) -> Tensor:
    """The rows unchanged, or a GuardError if a norm exceeds `bound`, on which every privacy figure relies."""
    if not len(rows) or float(_rough_norms(rows).max()) * _ROUGH + _UNDERFLOW <= bound:
        return rows
    maximum = float(norms(rows).max())
    if not maximum <= bound:
        raise GuardError(f"an update of norm {maximum:.6g} exceeds its sensitivity bound {bound:.6g}: not transmitted")
    return rows


def silence_non_finite(rows: Tensor) -> Tensor:
    """A mask of the finite rows; the others are set to zero in place, as if never sent."""
    finite = torch.isfinite(rows.sum(-1))  # a cheap first test: a finite sum has only finite terms
    if not bool(finite.all()):
        finite = torch.isfinite(norms(rows))
        rows[~finite] = 0.0
    return finite
