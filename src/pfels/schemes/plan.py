"""What a round settles before anyone trains, and what is counted while it is played."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pfels.arrays import Gains, Ids, Reals
from pfels.privacy.events import RoundEvent
from pfels.runtime.distributed import Ranks
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.uplink.channel import phase_correction, superpose
from pfels.uplink.power import energy, expected_energy

if TYPE_CHECKING:
    from pfels.training.local import LocalUpdates


@dataclass(frozen=True)
class Air:
    """Transmission at once on one channel: gains and power limits of the cohort, the level β at which all arrive,
    the limit that set it, the norm bound of what is sent before scaling, and the share k/d of coordinates sent."""

    gains: Gains
    powers: Reals
    beta: float
    limit: str
    bound: float
    share: float

    @property
    def energy_bounds(self) -> Reals:
        """The most that E‖xᵢ‖² can be, for each member of the cohort."""
        return expected_energy(self.gains, beta=self.beta, bound=self.bound, share=self.share)


@dataclass(frozen=True)
class Link:
    """Who takes part in a round, what it releases, and how many symbols it puts on the air.

    `cohort` was drawn and `sending` are those of it who transmit. `air` is absent where every device has an ideal link
    of its own. `claimed_epsilon` is the paper's per-round ε where the scheme makes that claim.
    """

    round: int
    cohort: Ids
    sending: Ids
    event: RoundEvent
    subcarriers: int
    claimed_epsilon: float | None
    air: Air | None

    @property
    def waiting(self) -> Ids:
        """Those who were drawn and do not send."""
        return np.setdiff1d(self.cohort, self.sending)

    def arriving(self, signals: Tensor, places: slice) -> Tensor:
        """What reaches the server of the signals of some senders: over the air their superposition (eq. (7), without
        the noise), on links of their own the sum that it forms."""
        if self.air is None:
            return signals.sum(0)
        gains = self.air.gains[places]
        return superpose(signals, gains, correction=phase_correction(gains))

    @property
    def on_air(self) -> Air:
        """The air, of a scheme that uses it."""
        assert self.air is not None, "this scheme does not transmit over the air"
        return self.air


@dataclass
class Tally:
    """What is counted while a round is played: losses, devices that diverged, the energy of each transmission, and
    what devices hold back for a later round (`memory` is what they held back before). `notes` go into the record."""

    memory: Mapping[int, Tensor] = field(default_factory=dict)
    held_back: dict[int, Tensor] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    energies: list[float] = field(default_factory=list)
    silent: int = 0
    notes: dict[str, Any] = field(default_factory=dict)

    def learned(self, part: "LocalUpdates", finite: Tensor) -> None:
        """Note the losses of the devices whose training stayed finite, and count the others."""
        self.losses += part.losses[finite.cpu().numpy()].tolist()
        self.silent += int((~finite).sum())

    def sent(self, signals: Tensor) -> None:
        """Note the energy of each transmission."""
        self.energies += energy(signals).tolist()

    def gather(self, ranks: Ranks, *, like: Tensor) -> None:
        """Take in what the other ranks have counted, in cohort order, and what their devices hold back (as `like`)."""
        if ranks.size == 1:
            return
        self.losses, self.energies = ranks.joined(self.losses), ranks.joined(self.energies)
        self.silent = int(sum(ranks.joined([float(self.silent)])))
        nothing = torch.zeros_like(like)
        for device in map(int, ranks.joined([float(device) for device in self.held_back])):
            self.held_back[device] = ranks.total(self.held_back.get(device, nothing).clone())

    @property
    def mean_loss(self) -> float | None:
        """The mean training loss over the devices that sent something finite; None where it is not finite itself."""
        if not self.losses or not all(map(math.isfinite, self.losses)):
            return None
        return math.fsum(self.losses) / len(self.losses)
