"""What devices and server keep from round to round, and how a checkpoint holds it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from pfels.arrays import DeviceIds, Reals
from pfels.runtime.lazy_torch import Tensor, torch

if TYPE_CHECKING:
    from pfels.schemes.plan import RoundPlan, RoundResult


@dataclass(frozen=True)
class Kept:
    """What a device keeps: a vector, its norm where it will be sent again, and the last round that uses it (None: no
    end is known)."""

    row: Tensor
    norm: float = 0.0
    used_until: int | None = None


@dataclass(frozen=True)
class Turn:
    """What the devices of one turn keep to repeat it, in order of id, and the sum of their vectors."""

    devices: DeviceIds
    rows: Sequence[Tensor]
    norms: Reals
    total: Tensor


@dataclass(frozen=True)
class Memory:
    """`devices`: what each device keeps. `decoded`: what the server decoded in earlier rounds, by round. `turns`: the
    devices that repeat what they keep, turn by turn, by the last round that uses it."""

    devices: Mapping[int, Kept] = field(default_factory=dict)
    decoded: Mapping[int, Tensor] = field(default_factory=dict)
    turns: Mapping[int, Turn] = field(default_factory=dict)

    @classmethod
    def of(cls, devices: Mapping[int, Kept], decoded: Mapping[int, Tensor] | None = None) -> Self:
        """The memory of these devices, turn by turn."""
        return cls(devices, decoded or {}, _turns(devices))

    def after(self, plan: "RoundPlan", result: "RoundResult") -> Self:
        """The memory after one more round, without what no later round uses."""
        t = plan.round
        if not result.kept and result.decoded is None:
            return self
        devices, turns = {**self.devices, **result.kept}, {**self.turns, **_turns(result.kept)}
        for end in [end for end in turns if end <= t]:
            for device in turns.pop(end).devices.tolist():
                if devices[device].used_until == end:
                    del devices[device]
        decoded = dict(self.decoded)
        if result.decoded is not None and plan.echo.used_until is not None:
            span = plan.echo.used_until - t
            decoded = {u: x for u, x in {**self.decoded, t: result.decoded}.items() if u + span > t}
        return type(self)(devices, decoded, turns)

    def tensors(self) -> dict[str, Tensor]:
        """The memory as tensors by name; nothing where nothing is kept."""
        found: dict[str, Tensor] = {}
        if self.devices:
            kept = [self.devices[device] for device in sorted(self.devices)]
            ends = [-1 if each.used_until is None else each.used_until for each in kept]
            found["memory.ids"] = torch.tensor(sorted(self.devices))
            found["memory.norms"] = torch.tensor([each.norm for each in kept], dtype=torch.float64)
            found["memory.used_until"] = torch.tensor(ends)
            found["memory.sizes"] = torch.tensor([len(each.row) for each in kept])
            found["memory"] = torch.cat([each.row.cpu() for each in kept])
        if self.decoded:
            found["decoded.rounds"] = torch.tensor(sorted(self.decoded))
            found["decoded.sizes"] = torch.tensor([len(self.decoded[u]) for u in sorted(self.decoded)])
            found["decoded"] = torch.cat([self.decoded[u].cpu() for u in sorted(self.decoded)])
        return found

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor], device: str) -> Self:
        """The memory that a checkpoint holds."""
        devices, decoded = dict[int, Kept](), dict[int, Tensor]()
        if "memory" in tensors:
            flat, ids = tensors["memory"].to(device), tensors["memory.ids"].tolist()
            if "memory.sizes" not in tensors:  # version 0.1 before echo: rows of one length, which nobody repeats
                return cls({i: Kept(row) for i, row in zip(ids, flat, strict=True)})
            rows = torch.split(flat, tensors["memory.sizes"].tolist())
            about = (tensors[f"memory.{name}"].tolist() for name in ("norms", "used_until"))
            for i, row, norm, end in zip(ids, rows, *about, strict=True):
                devices[i] = Kept(row, norm, None if end < 0 else end)
        if "decoded" in tensors:
            sums = torch.split(tensors["decoded"].to(device), tensors["decoded.sizes"].tolist())
            decoded = dict(zip(tensors["decoded.rounds"].tolist(), sums, strict=True))
        return cls.of(devices, decoded)


def _turns(devices: Mapping[int, Kept]) -> dict[int, Turn]:
    by_end: dict[int, list[int]] = defaultdict(list)
    for device in sorted(devices):
        if (end := devices[device].used_until) is not None:
            by_end[end].append(device)
    return {end: _turn(ids, [devices[device] for device in ids]) for end, ids in by_end.items()}


def _turn(ids: list[int], kept: list[Kept]) -> Turn:
    """The vectors are added up one by one in order of id: the same bits after a restart."""
    rows = [each.row for each in kept]
    total = rows[0].clone()
    for row in rows[1:]:
        total.add_(row)
    return Turn(np.array(ids, np.int64), rows, np.array([each.norm for each in kept]), total)
