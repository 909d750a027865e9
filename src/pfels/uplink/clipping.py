"""Parameters as one flat vector, norms, and clipping that is exact at the bound and safe at zero."""

from pfels.errors import GuardError
from pfels.runtime.lazy_torch import Tensor, torch

# Clipping aims this much below the bound, so that float32 rounding anywhere on the way to the receiver (a few
# parts in 1e7) can never lift a transmission above its sensitivity.
_ROUNDING_MARGIN = 1e-6
_SMALLEST_FACTOR = 1e-30  # below it float32 runs out of digits, so a row is scaled in two steps
_BLOCK = 2**17


def norms(rows: Tensor) -> Tensor:
    """The Euclidean norm of every row, accumulated in double precision."""
    squares = rows.new_zeros(len(rows), dtype=torch.float64)
    for block in torch.split(rows, _BLOCK, dim=-1):  # PyTorch copies all it is given into double precision first
        squares += torch.linalg.vector_norm(block, dim=-1, dtype=torch.float64).square()
    return squares.sqrt()


def clip(rows: Tensor, *, bound: float) -> Tensor:
    """Every row scaled down, in place, to a norm of at most `bound`; shorter rows keep every bit."""
    lengths = norms(rows)
    aim = bound * (1 - _ROUNDING_MARGIN)
    if bool((lengths > aim).any()):
        scale = torch.where(lengths > aim, aim / lengths.clamp(min=torch.finfo(torch.float64).tiny), 1.0)
        tiny = scale < _SMALLEST_FACTOR
        if bool(tiny.any()):
            root = scale.sqrt()
            rows.mul_(torch.where(tiny, root, 1.0).to(rows.dtype).unsqueeze(-1))
            scale = torch.where(tiny, root, scale)
        rows.mul_(scale.to(rows.dtype).unsqueeze(-1))
    return rows


def check_sensitivity(rows: Tensor, *, bound: float) -> Tensor:
    """The rows as they are, or a GuardError if one is longer than `bound`: every privacy figure rests on that."""
    longest = float(norms(rows).max()) if len(rows) else 0.0
    if not longest <= bound:
        raise GuardError(f"an update of norm {longest:.6g} exceeds its sensitivity bound {bound:.6g}: not transmitted")
    return rows


def silence_non_finite(rows: Tensor) -> Tensor:
    """A mask of the rows that are finite; the others are set to zero in place, as if never sent."""
    finite = torch.isfinite(rows.sum(-1))  # a sum is finite only where all its terms are, and is soon found
    if not bool(finite.all()):
        finite = torch.isfinite(norms(rows))
        rows[~finite] = 0.0
    return finite
