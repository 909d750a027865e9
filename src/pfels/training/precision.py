"""What `run.precision` stands for: the type to which local training rounds the factors of its large products.

Products are summed in float32, and parameters, velocities and evaluation stay in float32. No privacy figure depends on
it: updates are clipped and transmitted in float32, whatever they were computed with.
"""

from collections.abc import Mapping
from typing import Any

import torch

from pfels.errors import InputError

INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16")  # the last one on ARM


def factors(name: str, *, device: str) -> torch.dtype | None:
    """The type of factors; None: they are not rounded. An InputError where the machine cannot multiply it."""
    if name == "float32":
        return None
    if device != "cpu":
        raise InputError(f'run.precision = "{name}": only on the CPU, and run.device is {device}; use float32')
    if not has_bfloat16():
        raise InputError(f'run.precision = "{name}": PyTorch finds no avx512_bf16 in this CPU; use float32')
    return torch.bfloat16


def has_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 itself. Others would emulate it, slower than float32."""
    able: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # an older PyTorch does not say
    return any(able.get(name, False) for name in INSTRUCTIONS)
