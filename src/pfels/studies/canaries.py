"""Canary devices: each has a direction of its own, along which it sends as much as it can, or nothing at all.

A canary is a device of the plan like any other; it only does not train. Whether it is in is decided by a fair coin: if
it is, its update is huge, so that a clip has to cut it; if not, its data are emptied and its update is zero.

From round to round a canary turns its direction around at random. Two canaries whose directions overlap by chance then
disturb each other now one way and now the other, and what the real devices learn adds up to nothing along any of them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfels.arrays import DeviceIds, Rounds
from pfels.schemes.draws import Draws
from pfels.seeding import Purpose, generator
from pfels.training.batches import Orders
from pfels.training.local import LocalTraining, Made, chunks
from pfels.training.updates import LocalUpdates

HUGE = 1e3  # times the norm bound
MOST_KEPT = 2**29  # signs that are kept rather than drawn again
PATTERNS = 16  # ways to turn around from round to round; each canary has one of them
_SIGNS, _COINS, _TURNS = 0, 1, 2  # the rounds of the addresses of directions, coins and patterns

Coins = NDArray[np.bool_]


@dataclass
class Canaries:
    """The devices from `first` on, `count` of them, in a model of `dimension` parameters, over `rounds` rounds. `kept`
    holds the signs that have been drawn."""

    seed: int
    first: int
    count: int
    dimension: int
    rounds: int
    kept: dict[int, Tensor] = field(default_factory=dict, repr=False)

    def coins(self) -> Coins:
        """Who is included."""
        coins: Coins = generator(self.seed, Purpose.CANARY, round=_COINS).random(self.count) < 0.5
        return coins

    def among(self, devices: DeviceIds) -> NDArray[np.int64]:
        """The places of canaries in a list of devices."""
        return np.flatnonzero(devices >= self.first)

    @cached_property
    def patterns(self) -> Tensor:
        """Which way round each pattern stands in each round: 1 or −1, one row per pattern."""
        drawn = generator(self.seed, Purpose.CANARY, round=_TURNS).integers(0, 2, (PATTERNS, self.rounds))
        return torch.from_numpy(2 * drawn - 1).float()

    def turned(self, devices: DeviceIds, rounds: Rounds) -> Tensor:
        """Which way round each of some canaries stands in a round, one round each."""
        return self.patterns[torch.from_numpy((devices - self.first) % PATTERNS), torch.from_numpy(rounds)]

    def signs(self, devices: Sequence[int], indices: Tensor | None) -> list[Tensor]:
        """The directions of some canaries on an index set before they turn around: 1 or −1 everywhere, as small
        integers, so that every index set cuts all of them to the same length."""
        return [self._signs(device) if indices is None else self._signs(device)[indices] for device in devices]

    def _signs(self, device: int) -> Tensor:
        if device not in self.kept:
            bits = generator(self.seed, Purpose.CANARY, round=_SIGNS, device=device).bytes(-(-self.dimension // 8))
            ones = np.unpackbits(np.frombuffer(bits, np.uint8), count=self.dimension).astype(np.int8)
            signs = torch.from_numpy(2 * ones - 1)
            if self.count * self.dimension > MOST_KEPT:
                return signs
            self.kept[device] = signs
        return self.kept[device]


@dataclass(frozen=True)
class CanaryTraining(LocalTraining):
    """The local training of one round with canaries among the devices. Real devices train once, however often they are
    asked: `learned` keeps their updates and losses."""

    canaries: Canaries
    included: Coins
    bound: float
    round: int
    indices: Tensor | None
    learned: dict[int, tuple[Tensor, float]]

    def chunks(self, cohort: int) -> list[slice]:
        """The parts of a cohort of this size whose signals are added up together."""
        return chunks("batched", cohort=cohort, dimension=self.network.dimension)

    def map(
        self, theta: Tensor, devices: Sequence[int], orders: Orders, work: Callable[[LocalUpdates], Made]
    ) -> Iterator[Made]:
        """What `work` makes of the updates of all `devices`, real or canary, in chunks in cohort order."""
        missing = [device for device in devices if device < self.canaries.first and device not in self.learned]

        def learn(part: LocalUpdates) -> None:
            for device, row, loss in zip(missing[part.places], part.updates, part.losses.tolist(), strict=True):
                self.learned[device] = row.clone(), loss

        for _ in LocalTraining.map(self, theta, missing, orders, learn):
            pass
        for places in self.chunks(len(devices)):
            some = [self._update(device, theta) for device in devices[places]]
            losses = np.array([loss for _, loss in some])
            yield work(LocalUpdates(places, torch.stack([row for row, _ in some]), losses))

    def _update(self, device: int, theta: Tensor) -> tuple[Tensor, float]:
        if device < self.canaries.first:
            return self.learned[device]
        row = torch.zeros_like(theta)
        if self.included[device - self.canaries.first]:
            on = slice(None) if self.indices is None else self.indices
            way = self.canaries.turned(np.array([device]), np.array([self.round]))
            signs = self.canaries.signs([device], self.indices)[0]
            row[on] = (HUGE * self.bound / math.sqrt(len(signs)) * way * signs).to(theta)
        return row, 0.0


class QuietDraws(Draws):
    """The same draws without any noise."""

    def receiver_noise(self, t: int, width: int) -> Tensor:
        """None."""
        return torch.zeros(width, device=self.device)

    def device_noise(self, t: int, device: int, *, width: int, std: float) -> Tensor:
        """None."""
        return torch.zeros(width, device=self.device)
