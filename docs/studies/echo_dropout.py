"""PFELS-echo with devices that leave for good, for docs/studies/echo.py."""

from dataclasses import dataclass, field, fields
from typing import Literal

import numpy as np
from pydantic import Field

from pfels.arrays import DeviceIds, Gains
from pfels.schemes.draws import Draws
from pfels.schemes.echo_level import EchoSettings, echo_level
from pfels.schemes.pfels_echo import PfelsEcho
from pfels.schemes.plan import RoundPlan
from pfels.schemes.registry import SchemeEntry, register, scheme_entry
from pfels.schemes.setting import Setting


class DropOutSettings(EchoSettings):
    """The table `[echo-dropout]`: the share of the devices that leave for good, each at some round of the training."""

    weights: Literal["square-root", "optimised"] = "optimised"
    share: float = Field(default=0.0, ge=0, lt=1)


@dataclass(frozen=True)
class Leaving(Draws):
    """Draws in which nothing arrives from a device any more once it has left."""

    share: float = 0.0

    def gains(self, t: int, devices: DeviceIds) -> Gains:
        """As drawn, and almost nothing after a device's last round."""
        s, draw = self.setting, np.random.Generator(np.random.Philox(key=self.seed + 17))
        leaves = draw.permutation(s.devices) < round(self.share * s.devices)
        last = draw.integers(0, s.rounds, s.devices)
        gone = leaves[devices] & (t > last[devices])
        return np.where(gone, 1e-12, Draws.gains(self, t, devices))


@dataclass(frozen=True)
class EchoWithDropOut(PfelsEcho):
    """PFELS-echo with devices that leave for good; the server does not know, and decodes as if all were there."""

    leaving: dict[int, Leaving] = field(default_factory=dict)

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """As PFELS-echo, with the draws of those who are still there."""
        own = self.setting.own
        assert isinstance(own, DropOutSettings)
        if id(draws) not in self.leaving:
            same = {each.name: getattr(draws, each.name) for each in fields(Draws)}
            self.leaving[id(draws)] = Leaving(**same, share=own.share)
        return super().prepare(self.leaving[id(draws)], t)


def _with_drop_out(setting: Setting) -> EchoWithDropOut:
    return EchoWithDropOut(setting, echo_level(setting))


_entry = scheme_entry("pfels-echo")  # registered at import, so that the processes of a sweep know it too
register(
    "echo-dropout",
    SchemeEntry(_with_drop_out, _entry.uses, sampling=_entry.sampling, budget=_entry.budget, settings=DropOutSettings),
)
