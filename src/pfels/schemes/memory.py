"""What devices and server keep from round to round, and how a checkpoint holds it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

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
class Memory:
    """`devices`: what each device keeps. `decoded`: what the server decoded in earlier rounds, by round. `sums`: what
    the devices of a turn keep to repeat it, added up, by the last round that uses it."""

    devices: Mapping[int, Kept] = field(default_factory=dict)
    decoded: Mapping[int, Tensor] = field(default_factory=dict)
    sums: Mapping[int, Tensor] = field(default_factory=dict)

    def after(self, plan: "RoundPlan", result: "RoundResult") -> Self:
        """The memory after one more round, without what no later round uses."""
        t = plan.round
        if not result.kept and result.decoded is None:
            return self
        devices = {
            device: kept
            for device, kept in {**self.devices, **result.kept}.items()
            if kept.used_until is None or kept.used_until > t
        }
        decoded = dict(self.decoded)
        if result.decoded is not None and plan.used_until is not None:
            span = plan.used_until - t
            decoded = {u: x for u, x in {**self.decoded, t: result.decoded}.items() if u + span > t}
        sums = {end: total for end, total in {**self.sums, **_sums(result.kept)}.items() if end > t}
        return type(self)(devices, decoded, sums)

    def turns(self) -> dict[int, dict[int, Kept]]:
        """The devices that repeat what they keep, turn by turn: by the last round that uses it."""
        return _turns(self.devices)

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
        return cls(devices, decoded, _sums(devices))


def _turns(devices: Mapping[int, Kept]) -> dict[int, dict[int, Kept]]:
    turns: dict[int, dict[int, Kept]] = defaultdict(dict)
    for device, kept in sorted(devices.items()):
        if kept.used_until is not None:
            turns[kept.used_until][device] = kept
    return dict(turns)


def _sums(devices: Mapping[int, Kept]) -> dict[int, Tensor]:
    """The sum of each turn, its devices added one by one in order of id: the same bits after a restart."""
    sums = {}
    for end, turn in _turns(devices).items():
        first, *others = (kept.row for kept in turn.values())
        sums[end] = first.clone()
        for row in others:
            sums[end].add_(row)
    return sums
