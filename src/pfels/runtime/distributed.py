"""The processes that share one run under torchrun; a run by itself is the only one of its kind.

Each rank trains its share of a cohort, and what they send is added up by an all-reduce: gloo between CPUs, NCCL
between GPUs. All ranks then hold the same model. The first one leads: it alone reads and writes the run directory,
evaluates and prints.
"""

import atexit
import os
from dataclasses import dataclass
from typing import Self

from pfels.errors import RunError
from pfels.runtime.lazy_torch import Tensor, torch


@dataclass(frozen=True)
class Ranks:
    """This process's place among those that share a run, and the device it computes on."""

    rank: int = 0
    size: int = 1
    device: str = "cpu"

    @classmethod
    def join(cls, device: str) -> Self:
        """The ranks of this run: those that torchrun started, or this process alone."""
        dist = torch.distributed
        if not launched():
            return cls(device=device)
        if not dist.is_initialized():
            dist.init_process_group("gloo" if device == "cpu" else "nccl")
            atexit.register(dist.destroy_process_group)
        here = f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" else device
        return cls(dist.get_rank(), dist.get_world_size(), here)

    @property
    def leads(self) -> bool:
        """Whether this rank writes, evaluates and prints."""
        return self.rank == 0

    @property
    def cores(self) -> int:
        """How many of this machine's cores are this rank's."""
        return max(1, len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))

    def share(self, count: int) -> slice:
        """This rank's part of so many things in order; the parts of all ranks, in their order, are all of them."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def total(self, part: Tensor) -> Tensor:
        """The sum of all ranks' tensors, in place."""
        if self.size > 1:
            try:
                torch.distributed.all_reduce(part)
            except RuntimeError:
                raise RunError("another process of this run has ended; its own message says why") from None
        return part

    def joined(self, part: list[float]) -> list[float]:
        """All ranks' lists, one behind the other."""
        if self.size == 1:
            return part
        lengths = torch.zeros(self.size, dtype=torch.int64, device=self.device)
        lengths[self.rank] = len(part)
        ends = self.total(lengths).cumsum(0).tolist()
        everything = torch.zeros(ends[-1], dtype=torch.float64, device=self.device)
        everything[ends[self.rank] - len(part) : ends[self.rank]] = torch.tensor(part, dtype=torch.float64)
        return self.total(everything).tolist()

    def tell(self, start: "Start") -> None:
        """Send all other ranks what they start from."""
        if self.size > 1:
            blob = torch.frombuffer(bytearray(start.to_bytes()), dtype=torch.uint8).to(self.device)
            torch.distributed.broadcast(torch.tensor([len(blob)], device=self.device), src=0)
            torch.distributed.broadcast(blob, src=0)

    def hear(self) -> "Start":
        """What the leading rank starts from."""
        size = torch.zeros(1, dtype=torch.int64, device=self.device)
        try:
            torch.distributed.broadcast(size, src=0)
            blob = torch.empty(int(size), dtype=torch.uint8, device=self.device)
            torch.distributed.broadcast(blob, src=0)
        except RuntimeError:
            raise RunError("the leading process has ended before the run began; its own message says why") from None
        return Start.from_bytes(blob.cpu().numpy().tobytes())


def launched() -> bool:
    """Whether torchrun started this process."""
    return bool(torch.distributed.is_torchelastic_launched())


@dataclass(frozen=True)
class Start:
    """Where a run stands when its ranks begin to work on it: the engine, the rounds done, and the state's tensors."""

    engine: str
    round: int
    tensors: dict[str, Tensor]

    def to_bytes(self) -> bytes:
        """In the format of a checkpoint, which nothing has to be unpickled from."""
        about = torch.tensor([self.round, *self.engine.encode()])
        from safetensors.torch import save

        return save({"start": about, **self.tensors})

    @classmethod
    def from_bytes(cls, blob: bytes) -> Self:
        """What `to_bytes` made."""
        from safetensors.torch import load

        tensors = load(blob)
        done, *engine = tensors.pop("start").tolist()
        return cls(bytes(engine).decode(), done, tensors)
