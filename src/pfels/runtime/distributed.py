"""The processes (ranks) that share one run under torchrun; a run without torchrun has a single rank.

Each rank trains its share of a cohort, and an all-reduce adds up what they send: gloo between CPUs, NCCL between
GPUs. All ranks then hold the same model. Rank 0 leads: only it reads and writes the run directory, evaluates and
prints.
"""

import atexit
import os
from dataclasses import dataclass
from typing import Self

from pfels.errors import RunError
from pfels.runtime.lazy_torch import Tensor, torch


@dataclass(frozen=True)
class Ranks:
    """The rank of this process, the number of ranks, and the device it computes on."""

    rank: int = 0
    size: int = 1
    device: str = "cpu"

    @classmethod
    def join(cls, device: str) -> Self:
        """Join the ranks that torchrun started; without torchrun, this process is the only rank."""
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
        """The number of this machine's cores available to this rank."""
        return max(1, len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))

    def share(self, count: int) -> slice:
        """This rank's slice of `count` items; the slices of all ranks, in rank order, cover every item once."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def all_reduce(self, part: Tensor) -> Tensor:
        """The sum of the tensors of all ranks, in place."""
        if self.size > 1:
            try:
                torch.distributed.all_reduce(part)
            except RuntimeError:
                raise RunError("another process of this run has stopped; see its own error message") from None
        return part

    def gather(self, part: list[float]) -> list[float]:
        """The lists of all ranks, concatenated in rank order."""
        if self.size == 1:
            return part
        lengths = torch.zeros(self.size, dtype=torch.int64, device=self.device)
        lengths[self.rank] = len(part)
        ends = self.all_reduce(lengths).cumsum(0).tolist()
        combined = torch.zeros(ends[-1], dtype=torch.float64, device=self.device)
        combined[ends[self.rank] - len(part) : ends[self.rank]] = torch.tensor(part, dtype=torch.float64)
        return self.all_reduce(combined).tolist()

    def stopped(self, stop: bool) -> bool:
        """Whether the run ends here: what the leading rank says."""
        if self.size == 1:
            return stop
        flag = torch.tensor([int(stop)], device=self.device)
        try:
            torch.distributed.broadcast(flag, src=0)
        except RuntimeError:
            raise RunError("another process of this run has stopped; see its own error message") from None
        return bool(flag)

    def send_start(self, start: "Start") -> None:
        """Send the start state to all other ranks."""
        if self.size > 1:
            blob = torch.frombuffer(bytearray(start.to_bytes()), dtype=torch.uint8).to(self.device)
            torch.distributed.broadcast(torch.tensor([len(blob)], device=self.device), src=0)
            torch.distributed.broadcast(blob, src=0)

    def receive_start(self) -> "Start":
        """The start state that the leading rank sent."""
        size = torch.zeros(1, dtype=torch.int64, device=self.device)
        try:
            torch.distributed.broadcast(size, src=0)
            blob = torch.empty(int(size), dtype=torch.uint8, device=self.device)
            torch.distributed.broadcast(blob, src=0)
        except RuntimeError:
            raise RunError("the leading process stopped before the run began; see its own error message") from None
        return Start.from_bytes(blob.cpu().numpy().tobytes())


def launched() -> bool:
    """Whether torchrun started this process."""
    return bool(torch.distributed.is_torchelastic_launched())


@dataclass(frozen=True)
class Start:
    """The state from which all ranks start: the engine, the number of rounds done, and the state tensors."""

    engine: str
    round: int
    tensors: dict[str, Tensor]

    def to_bytes(self) -> bytes:
        """The state in the safetensors format of checkpoints, so that nothing from another machine is unpickled."""
        from safetensors.torch import save

        header = torch.tensor([self.round, *self.engine.encode()])
        return save({"start": header, **self.tensors})

    @classmethod
    def from_bytes(cls, blob: bytes) -> Self:
        """The inverse of `to_bytes`."""
        from safetensors.torch import load

        tensors = load(blob)
        done, *engine = tensors.pop("start").tolist()
        return cls(bytes(engine).decode(), done, tensors)
