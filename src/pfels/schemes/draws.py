"""Every random draw of a training by its address: cohorts, gains, power limits, index sets, noise, batch orders."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import DeviceIds, Gains, Reals
from pfels.privacy.events import Sampling
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.setting import Setting
from pfels.seeding import BLOCK, Purpose, Seed, generator
from pfels.uplink import channel, cohort, compression
from pfels.uplink.spectrum import Spectrum

T = TypeVar("T")
D = TypeVar("D", bound=np.generic)


@dataclass(frozen=True)
class Draws:
    """The draws of one seed: pure functions of (seed, purpose, round, device) and of the setting.

    `device` is where tensors go. `start` is the initial model, from which `public-top-k` measures how far each
    coordinate has moved.
    """

    setting: Setting
    seed: Seed
    device: str = "cpu"
    start: Tensor | None = None

    def cohort(self, t: int) -> DeviceIds:
        """The devices drawn for round t."""
        s, draw = self.setting, generator(self.seed, Purpose.COHORT, round=t)
        if s.sampling is Sampling.TURNS:
            return cohort.by_turns(_order(self.seed, s.devices), groups=s.groups, round=t)
        return cohort.sample(draw, devices=s.devices, size=s.cohort_size, sampling=s.sampling.value)

    def gains(self, t: int, devices: DeviceIds) -> Gains:
        """The complex gain with which each device sends in round t; with fading, the effective one."""
        means = self.mean_gains(t, devices)
        if not self.setting.cell.fading.active:
            return means
        gains: Gains = means / np.sqrt(self.inversion_costs(t, devices))
        return gains

    def mean_gains(self, t: int, devices: DeviceIds) -> Gains:
        """The complex channel gain of each device in round t, over all subcarriers."""
        return self.setting.cell.mean_gains(self.seed, t, devices)

    def inversion_costs(self, t: int, devices: DeviceIds) -> Reals:
        """By how much fading raises the energy of each device in round t."""
        cell = self.setting.cell
        return cell.fading.inversion_costs(cell.fading.draw_powers(self.seed, t, devices, band=cell.band))

    def spectrum(self, t: int, devices: DeviceIds) -> Spectrum | None:
        """What differs between the subcarriers of these devices in round t; None where nothing does."""
        cell = self.setting.cell
        if not cell.fading.active and not cell.timing.active:
            return None
        return Spectrum(self.seed, t, devices, cell.band, cell.fading, cell.timing)

    def other_strengths(self, t: int, devices: DeviceIds, *, antennas: int) -> Reals:
        """|h| from each device to the receiver's antennas other than the first in round t, one row per antenna."""
        return self.setting.cell.other_strengths(self.seed, t, devices, antennas=antennas)

    def gain_errors(self, t: int, devices: DeviceIds) -> Gains | None:
        """The true gain of each device in round t over the one that it knows; None where devices know it."""
        return self.setting.cell.errors(self.seed, t, devices)

    def powers(self, devices: DeviceIds) -> Reals:
        """The power limit of each device, the same in every round."""
        s, law = self.setting, self.setting.cell.power
        return channel.draw_powers(
            seed=self.seed, devices=devices, dimension=s.dimension, noise_std=s.noise_std,
            low_db=law.low_db, high_db=law.high_db, scale=law.scale,
        )  # fmt: skip

    def cohort_channels(self, t: int, devices: DeviceIds) -> tuple[Reals, Reals]:
        """|h| over all subcarriers and Pᵢ/d of each device in round t."""
        return np.abs(self.mean_gains(t, devices)), self.powers(devices) / self.setting.dimension

    def rand_k(self, t: int) -> Tensor:
        """The shared index set of round t, uniform over all k-subsets."""
        s, draw = self.setting, generator(self.seed, Purpose.MASK, round=t)
        return compression.rand_k(draw, dimension=s.dimension, kept=s.kept).to(self.device)

    def index_set(self, t: int, theta: Tensor) -> Tensor:
        """The shared index set of round t as `compression.kind` has it; it may depend on the released model."""
        if self.setting.mask == "rand-k":
            return self.rand_k(t)
        assert self.start is not None, "public-top-k needs the initial model"
        draw = generator(self.seed, Purpose.MASK, round=t)
        return compression.public_top_k(draw, theta.cpu() - self.start, kept=self.setting.kept).to(theta.device)

    def block(self, t: int, count: int) -> Tensor | None:
        """The block of coordinates that round t carries, if they are cut into `count` blocks; None: all of them."""
        return None if count == 1 else _blocks(self.seed, self.setting.dimension, count)[t % count].to(self.device)

    def receiver_noise(self, t: int, width: int) -> Tensor:
        """The receiver's noise of round t on `width` subcarriers."""
        draw = generator(self.seed, Purpose.CHANNEL_NOISE, round=t)
        return channel.receiver_noise(draw, width=width, std=self.setting.noise_std).to(self.device)

    def device_noise(self, t: int, device: int, *, width: int, std: float) -> Tensor:
        """The noise that one device adds to the `width` numbers that it sends in round t."""
        draw = generator(self.seed, Purpose.DEVICE_NOISE, round=t, device=device)
        return channel.receiver_noise(draw, width=width, std=std).to(self.device)

    def batch_order(self, t: int, device: int) -> np.random.Generator:
        """The generator of a device's batch order in round t."""
        return generator(self.seed, Purpose.BATCHES, round=t, device=device)


@lru_cache(maxsize=4)  # one order serves a whole run
def _order(seed: Seed, devices: int) -> DeviceIds:
    """All devices in the order of their turns."""
    order = generator(seed, Purpose.TURNS).permutation(devices)
    order.setflags(write=False)
    return order


@lru_cache(maxsize=2)
def _blocks(seed: Seed, dimension: int, count: int) -> list[Tensor]:
    """The blocks of coordinates that take turns."""
    return compression.blocks(generator(seed, Purpose.BLOCKS), dimension=dimension, count=count)


class DrawCache:
    """Draws kept for schemes that share a seed and a channel, so that many schemes cost one drawing.

    Gains and powers are kept by blocks of devices, as the seed tree gives them. Powers never change and stay; of the
    rounds, the latest `rounds` are kept.
    """

    def __init__(self, rounds: int = 3) -> None:
        self.rounds = rounds
        self._rounds: dict[int, dict[object, Any]] = {}
        self._always: dict[object, Any] = {}

    def get(self, t: int | None, key: object, draw: Callable[[], T]) -> T:
        """What was drawn under this key in round t (None: for all rounds), or else what `draw` draws now."""
        kept = self._always if t is None else self._rounds.setdefault(t, {})
        if key not in kept:
            kept[key] = draw()
        if len(self._rounds) > self.rounds:
            del self._rounds[next(iter(self._rounds))]
        drawn: T = kept[key]
        return drawn


@dataclass(frozen=True)
class CachedDraws(Draws):
    """Draws that take cohorts, gains and powers from a cache, which may be shared with draws of the same `law`."""

    cache: DrawCache = field(default_factory=DrawCache)

    @property
    def law(self) -> tuple[object, ...]:
        """All that the cached draws depend on, except the sampling, which is part of their keys."""
        s = self.setting
        return (self.seed, s.devices, s.cohort_size, s.dimension, s.cell)

    def cohort(self, t: int) -> DeviceIds:
        """The devices drawn for round t."""
        drawn = self.cache.get(t, self.setting.sampling, lambda: Draws.cohort(self, t))
        drawn.setflags(write=False)  # others share it
        return drawn

    def mean_gains(self, t: int, devices: DeviceIds) -> Gains:
        """The complex channel gain of each device in round t, over all subcarriers."""
        return self._by_block(t, "gains", devices, lambda block: Draws.mean_gains(self, t, block))

    def inversion_costs(self, t: int, devices: DeviceIds) -> Reals:
        """By how much fading raises the energy of each device in round t."""
        key = ("inversion costs", devices.tobytes())
        return self.cache.get(t, key, lambda: Draws.inversion_costs(self, t, devices))

    def cohort_channels(self, t: int, devices: DeviceIds) -> tuple[Reals, Reals]:
        """|h| over all subcarriers and Pᵢ/d of each device in round t."""
        key = ("channels", devices.tobytes())
        return self.cache.get(t, key, lambda: Draws.cohort_channels(self, t, devices))

    def powers(self, devices: DeviceIds) -> Reals:
        """The power limit of each device, the same in every round."""
        return self._by_block(None, "powers", devices, lambda block: Draws.powers(self, block))

    def _by_block(
        self, t: int | None, what: str, devices: DeviceIds, draw: Callable[[DeviceIds], NDArray[D]]
    ) -> NDArray[D]:
        if self.setting.devices <= BLOCK:
            return self._block(t, what, 0, draw)[devices]
        drawn = np.resize(draw(devices[:0]), len(devices))
        for i in np.unique(devices // BLOCK).tolist():
            inside = devices // BLOCK == i
            drawn[inside] = self._block(t, what, i, draw)[devices[inside] - i * BLOCK]
        return drawn

    def _block(self, t: int | None, what: str, i: int, draw: Callable[[DeviceIds], NDArray[D]]) -> NDArray[D]:
        last = min((i + 1) * BLOCK, self.setting.devices)
        return self.cache.get(t, (what, i), lambda: draw(np.arange(i * BLOCK, last)))
