"""What an effect of the channel is: its settings, and what it does to gains, signals, levels, laws and privacy."""

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from pfels.arrays import DeviceIds, Gains, Reals
from pfels.runtime.lazy_torch import Tensor
from pfels.seeding import Purpose, Seed, scalars

if TYPE_CHECKING:
    from pfels.uplink.effects.cell import Cell


class Effect(BaseModel):
    """The base of all effects: a frozen table of settings, each with a default, a range and a description.

    A new effect overrides what it changes; by default nothing changes, and with its default settings an effect must
    change nothing. All random numbers come from `numbers`, so that they are functions of (seed, effect, round, device).
    `needs` names what a scheme must be able to cope with (`registry.GROUPS`); with other schemes the effect is refused.
    `privacy` says in a sentence what it costs in privacy.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    needs: ClassVar[str] = "waveform"
    privacy: ClassVar[str] = ""

    @property
    def active(self) -> bool:
        """Whether any setting differs from its default."""
        return self != type(self)()

    def check(self, cell: "Cell") -> None:
        """A ValueError of one line for settings that make no sense in this cell."""

    def losses(self, seed: Seed, t: int, devices: DeviceIds) -> Reals | None:
        """By which factor each device's gain is smaller in round t, to every antenna; devices know it. At least 1."""
        return None

    def typical_losses(self) -> Reals | None:
        """Equally likely quantiles of the law of `losses`, which is public: a level for all rounds follows from it."""
        return None

    def log_errors(self, seed: Seed, t: int, devices: DeviceIds) -> Gains | None:
        """The logarithm of each device's true gain over the one that it knows: nepers, plus j times radians."""
        return None

    @property
    def margin(self) -> float:
        """The maximum of |h|/|ĥ|, true over known gain: a device may arrive so much stronger, and is priced for it."""
        return 1.0

    def amplified(self, rows: Tensor, *, subcarriers: int) -> Tensor:
        """The signals as they leave the amplifiers, one row per device, scaled to any length: never longer."""
        return rows

    def numbers(
        self,
        draw: Callable[[np.random.Generator, int], NDArray[np.float64]],
        seed: Seed,
        t: int,
        devices: DeviceIds,
    ) -> Reals:
        """One random number per device in round t, such as `lambda g, n: g.uniform(size=n)` draws it."""
        name = f"{type(self).__module__}:{type(self).__qualname__}".encode()
        offset = int.from_bytes(hashlib.sha256(name).digest()[:2], "little") << 40  # device ids are far below
        found: Reals = scalars(draw, seed, Purpose.EFFECT, devices=devices + offset, round=t)
        return found
