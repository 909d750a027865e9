"""PyTorch, imported on first use: a link budget does not need it and takes less time than the import.

Modules that prepare rounds without training import `torch` and `Tensor` from here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:

    class _LazyTorch:
        def __getattr__(self, name: str) -> Any:
            found = getattr(import_module("torch"), name)
            setattr(self, name, found)  # from now on it is found without asking here
            return found

    torch, Tensor = _LazyTorch(), Any

__all__ = ["Tensor", "torch"]
