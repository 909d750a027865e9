"""What devices have spent, device by device, in a form to which a round adds at the same cost however many there are.

Values never change: adding a round gives a new one and leaves the old as it was, so that an interrupted round costs
nothing. Most of the content is shared between the two; what was added last is small, and copied.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import DeviceIds, Reals

RECENT = 4096  # devices whose latest sums are kept apart: as many as are copied in a few microseconds
RECENT_LEVELS = 64
SMALL = 64  # up to this many times a round's devices, adding all up anew is as quick


class Columns(NamedTuple):
    """Devices in rising order of id, what each has spent, and how often it took part."""

    ids: DeviceIds
    sums: Reals
    counts: NDArray[np.int64]


class Most(NamedTuple):
    """The device that has spent most, of several the one of lowest id."""

    spent: float = 0.0
    times: int = 0
    device: int = -1


@dataclass(frozen=True, eq=False)
class Spent:
    """Sums and counts of those who ever took part: `settled` up to some round, and `recent`, which takes precedence."""

    settled: Columns
    most: Most
    recent: Mapping[int, tuple[float, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Columns) -> Self:
        """What these columns say."""
        if not len(columns.ids):
            return cls(columns, Most())
        at = int(np.argmax(columns.sums))
        return cls(columns, Most(float(columns.sums[at]), int(columns.counts[at]), int(columns.ids[at])))

    def after(self, who: DeviceIds, costs: Reals) -> Self:
        """The same with one more participation of each of these devices, which are different ones, at these costs."""
        if len(self.settled.ids) < SMALL * len(who):
            return self._after_many(who, costs)
        sums, counts = _found(self.settled, who)
        recent, most = dict(self.recent), self.most
        rows = zip(who.tolist(), sums.tolist(), counts.tolist(), costs.tolist(), strict=True)
        for device, settled, count, cost in rows:
            total, times = recent.get(device, (settled, count))
            recent[device] = now = (total + cost, times + 1)
            if now[0] > most.spent or (now[0] == most.spent and (device <= most.device or most.device < 0)):
                most = Most(*now, device)
        if len(recent) <= RECENT:
            return type(self)(self.settled, most, recent)
        return type(self)(_merged(self.settled, recent), most)

    def _after_many(self, who: DeviceIds, costs: Reals) -> Self:
        """The same where the round is no small part of what is there: all of it is added up anew."""
        order = np.argsort(who)
        who, (ids, sums, counts) = who[order], self.columns()
        places = np.searchsorted(ids, who)
        new = np.append(ids, -1)[places] != who
        if not new.any():
            sums, counts = sums.copy(), counts.copy()
            sums[places] += costs[order]
            counts[places] += 1
            return type(self).of(Columns(ids, sums, counts))
        here = places + np.cumsum(new) - new
        sums, counts = np.insert(sums, places[new], 0.0), np.insert(counts, places[new], 0)
        sums[here] += costs[order]
        counts[here] += 1
        return type(self).of(Columns(np.insert(ids, places[new], who[new]), sums, counts))

    def columns(self) -> Columns:
        """Everything, in rising order of id."""
        return _merged(self.settled, self.recent) if self.recent else self.settled


def _found(columns: Columns, who: DeviceIds) -> tuple[Reals, NDArray[np.int64]]:
    """What these devices have spent and how often they took part; 0 for new ones."""
    if not len(columns.ids):
        return np.zeros(len(who)), np.zeros(len(who), np.int64)
    places = np.minimum(np.searchsorted(columns.ids, who), len(columns.ids) - 1)
    known = columns.ids[places] == who
    return np.where(known, columns.sums[places], 0.0), np.where(known, columns.counts[places], 0)


def _merged(columns: Columns, recent: Mapping[int, tuple[float, int]]) -> Columns:
    who = np.array(sorted(recent), np.int64)
    sums = np.array([recent[device][0] for device in who.tolist()])
    counts = np.array([recent[device][1] for device in who.tolist()], np.int64)
    places = np.searchsorted(columns.ids, who)
    new = np.append(columns.ids, -1)[places] != who
    ids = np.insert(columns.ids, places[new], who[new])
    here = np.searchsorted(ids, who)
    all_sums, all_counts = np.insert(columns.sums, places[new], 0.0), np.insert(columns.counts, places[new], 0)
    all_sums[here], all_counts[here] = sums, counts
    return Columns(ids, all_sums, all_counts)


class Tally(Mapping[float, int]):
    """How many rounds had each noise multiplier."""

    def __init__(self, settled: Mapping[float, int], recent: Mapping[float, int] | None = None) -> None:
        self._settled, self._recent = settled, recent or {}

    def plus(self, value: float) -> "Tally":
        """The same with one more round."""
        recent = {**self._recent, value: self[value] + 1 if value in self else 1}
        return Tally(self._settled, recent) if len(recent) <= RECENT_LEVELS else Tally({**self._settled, **recent})

    def __getitem__(self, value: float) -> int:
        return self._recent[value] if value in self._recent else self._settled[value]

    def __contains__(self, value: object) -> bool:  # not by asking for it: a Counter has an answer to everything
        return value in self._recent or value in self._settled

    def __iter__(self) -> Iterator[float]:
        yield from self._settled
        yield from (value for value in self._recent if value not in self._settled)

    def __len__(self) -> int:
        return sum(1 for _ in self)
