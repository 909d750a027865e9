"""The cell: the receiver's noise, the law of gains, the power limits of devices, the band, and all effects on it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final, Self, TypeVar

import numpy as np

from pfels.arrays import DeviceIds, Gains, Reals
from pfels.errors import InputError
from pfels.runtime.lazy_torch import Tensor
from pfels.seeding import Seed
from pfels.uplink.channel import SnrLaw
from pfels.uplink.effects.amplifier import Amplifier
from pfels.uplink.effects.antennas import Antennas
from pfels.uplink.effects.effect import Effect
from pfels.uplink.effects.fading import Fading
from pfels.uplink.effects.gain import Gain
from pfels.uplink.effects.knowledge import GainKnowledge, PhaseKnowledge
from pfels.uplink.effects.silence import Silence
from pfels.uplink.effects.timing import Timing
from pfels.uplink.frame import Band

# The effects of this package, whose settings stand in the table [channel], in the order in which they are listed.
EFFECTS: Final[tuple[type[Effect], ...]] = (
    Gain, Silence, Antennas, GainKnowledge, PhaseKnowledge, Timing, Amplifier, Fading,
)  # fmt: skip
E = TypeVar("E", bound=Effect)


@cache
def installed_effects() -> Mapping[str, type[Effect]]:
    """The effects of installed packages (entry point `pfels.effects`), by the name of their table in the config."""
    found: dict[str, type[Effect]] = {}
    for point in entry_points(group="pfels.effects"):
        try:
            kind = point.load()
        except Exception as error:
            raise InputError(f"{point.name}: {point.value} cannot be loaded ({error})") from None
        if not isinstance(kind, type) or not issubclass(kind, Effect) or point.name in found:
            raise InputError(f"{point.name}: {point.value} must be a pfels.uplink.effects.effect.Effect, one per name")
        found[point.name] = kind
    return found


@dataclass(frozen=True)
class Cell:
    """What everybody knows of the channel before the first round.

    σ₀ is `noise_std`. `effects` are those that are active, `gain` apart: what none of them changes stays as it is sent.
    """

    noise_std: float
    power: SnrLaw
    gain: Gain = field(default_factory=Gain)
    effects: tuple[Effect, ...] = ()
    band: Band = field(default_factory=Band)

    @classmethod
    def of(cls, channel: Mapping[str, Any], others: Iterable[Effect], *, band: Band) -> Self:
        """The cell of a config's table [channel] and of the effects of other packages."""
        made = [kind(**{name: channel[name] for name in kind.model_fields if name in channel}) for kind in EFFECTS]
        power = SnrLaw(channel["snr_min_db"], channel["snr_max_db"], channel["snr_scale"])
        gain, *rest = made
        assert isinstance(gain, Gain)
        active = tuple(each for each in (*rest, *others) if each.active)
        return cls(channel["noise_std"], power, gain, active, band)

    def check(self) -> None:
        """A ValueError of one line for what does not go together."""
        self.gain.check(self)
        for each in self.effects:
            each.check(self)

    def effect(self, kind: type[E]) -> E:
        """The effect of this kind; with its defaults, where it is not active."""
        return next((each for each in self.effects if isinstance(each, kind)), None) or kind()

    @property
    def antennas(self) -> int:
        """The antennas of the server."""
        return self.effect(Antennas).antennas

    @property
    def silent_below(self) -> float:
        """The gain below which devices stay silent, with schemes that let them."""
        return self.effect(Silence).silent_below

    @property
    def clipping_db(self) -> float | None:
        """What amplifiers clip."""
        return self.effect(Amplifier).clipping_db

    @property
    def fading(self) -> Fading:
        """What differs between the subcarriers."""
        return self.effect(Fading)

    @property
    def timing(self) -> Timing:
        """How early or late devices are."""
        return self.effect(Timing)

    @property
    def prefix_us(self) -> float:
        """The length of the cyclic prefix."""
        return self.band.prefix_s * 1e6

    @property
    def margin(self) -> float:
        """The maximum of |h|/|ĥ|: how much stronger than planned a device may arrive."""
        return math.prod(each.margin for each in self.effects)

    @property
    def gain_floor(self) -> float:
        """The minimum |ĥ| with which a device sends."""
        return max(self.silent_below, self.gain.gain_min)

    @property
    def exposure_bound(self) -> float:
        """The maximum of Σₘ|hₘ|²/|ĥ₀|² over a device's channels to all antennas, relative to that of the first one: by
        how much several antennas can raise what a transmission costs, whatever is drawn."""
        return self.effect(Antennas).exposure_bound(strongest=self.gain.gain_max, weakest=self.gain_floor)

    def mean_gains(self, seed: Seed, t: int, devices: DeviceIds) -> Gains:
        """The complex gain of each device in round t, over all subcarriers."""
        gains = self.gain.draw_gains(seed, t, devices)
        for each in self.effects:
            if (losses := each.losses(seed, t, devices)) is not None:
                gains = gains / losses
        return gains

    def other_strengths(self, seed: Seed, t: int, devices: DeviceIds, *, antennas: int) -> Reals:
        """|h| from each device to the receiver's antennas other than the first in round t, one row per antenna."""
        strengths = self.gain.draw_elsewhere(seed, t, devices, antennas=antennas)
        for each in self.effects:
            if (losses := each.losses(seed, t, devices)) is not None:
                strengths = strengths / losses
        return strengths

    def errors(self, seed: Seed, t: int, devices: DeviceIds) -> Gains | None:
        """The true gain of each device in round t over the one that it knows; None where devices know it."""
        logs = [found for each in self.effects if (found := each.log_errors(seed, t, devices)) is not None]
        if not logs:
            return None
        errors: Gains = np.exp(np.sum(np.array(logs, np.complex128), axis=0))
        return errors

    def amplified(self, rows: Tensor) -> Tensor:
        """The signals as they leave the amplifiers, one row per device."""
        for each in self.effects:
            rows = each.amplified(rows, subcarriers=self.band.subcarriers)
        return rows

    def carried(self, needed: Reals) -> Reals:
        """P(|h| ≥ level and |h| ≥ `silent_below`) of the gain that a device sends with, from public laws alone."""
        levels = np.maximum(needed, self.silent_below)
        losses = [found for each in self.effects if (found := each.typical_losses()) is not None]
        if self.fading.active:
            losses.append(np.sqrt(self.fading.typical_costs(self.band)))
        if not losses:
            return self.gain.exceeds(levels)
        total = losses[0]
        for each in losses[1:]:
            total = np.outer(total, each).ravel()
        shares: Reals = self.gain.exceeds(np.outer(total, levels)).mean(0)
        return shares
