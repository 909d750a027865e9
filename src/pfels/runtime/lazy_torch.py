"""PyTorch, loaded when it is first used: a link's plan needs none of it, and takes less time than the loading.

The modules that settle a round before anyone trains take `torch` and `Tensor` from here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:

    class _Later:
        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("torch"), name)

    torch, Tensor = _Later(), Any

__all__ = ["Tensor", "torch"]
