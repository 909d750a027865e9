"""What a round settles before anyone trains, and what it leaves when it has been played."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from pfels.arrays import DeviceIds, Gains, Reals
from pfels.documents.run import Replies
from pfels.errors import GuardError
from pfels.privacy.events import RoundEvent, noise_multiplier_at
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.setting import Setting
from pfels.uplink import power
from pfels.uplink.channel import phase_correction, superpose

Memory = Mapping[int, Tensor]  # what devices keep from round to round, by device


@dataclass(frozen=True)
class AirLink:
    """Simultaneous transmission on one channel: gains and power limits of the senders, the level β at which all
    arrive, the limit that set it, the norm bound of what is sent before scaling, and the share k/d of coordinates sent.
    """

    gains: Gains
    powers: Reals
    beta: float
    limit: str
    bound: float
    share: float

    @property
    def energy_bounds(self) -> Reals:
        """The maximum of E‖xᵢ‖² for each sender."""
        return power.expected_energy(self.gains, beta=self.beta, bound=self.bound, share=self.share)


@dataclass(frozen=True)
class RoundPlan:
    """Who takes part in a round, what it releases, and how many channel uses it takes.

    `cohort` was drawn; `sending` are those of it who transmit. `air` is absent where every device has an ideal link of
    its own. `claimed_epsilon` is the paper's ε per round where the scheme makes that claim.
    """

    round: int
    cohort: DeviceIds
    sending: DeviceIds
    event: RoundEvent
    subcarriers: int
    claimed_epsilon: float | None
    air: AirLink | None

    @classmethod
    def make(
        cls,
        setting: Setting,
        t: int,
        cohort: DeviceIds,
        *,
        sending: DeviceIds | None = None,
        subcarriers: int,
        noise_multiplier: float | None = None,
        single_noise_multiplier: float | None = None,
        cohort_dependent: bool,
        claimed: bool,
        air: AirLink | None = None,
    ) -> Self:
        """The plan of round t.

        Over the air the noise multiplier follows from the level, z = σ₀/(βs); on ideal links the scheme states it, and
        `single_noise_multiplier` is that of what the server sees of one device alone, where it differs.
        """
        transmitters = cohort if sending is None else sending
        if air is not None:
            noise_multiplier = noise_multiplier_at(beta=air.beta, bound=air.bound, noise_std=setting.noise_std)
        assert noise_multiplier is not None, "on ideal links a scheme states its noise multiplier; 0 is none"
        event = RoundEvent(
            noise_multiplier=noise_multiplier,
            server_noise_multiplier=noise_multiplier if single_noise_multiplier is None else single_noise_multiplier,
            devices=setting.devices,
            cohort_size=setting.cohort_size,
            sampling=setting.sampling,
            participants=tuple(transmitters.tolist()),
            cohort_dependent=cohort_dependent,
        )
        return cls(t, cohort, transmitters, event, subcarriers, setting.epsilon if claimed else None, air)

    @classmethod
    def over_air(cls, setting: Setting, t: int, cohort: DeviceIds, air: AirLink, *, width: int, claimed: bool) -> Self:
        """The plan of a cohort whose signals add up on `width` subcarriers, at a level that depends on its members."""
        return cls.make(setting, t, cohort, subcarriers=width, cohort_dependent=True, claimed=claimed, air=air)

    def __post_init__(self) -> None:
        air, senders = self.air, len(self.sending)
        if self.event.participants != tuple(self.sending.tolist()):
            raise GuardError("the event's participants are not the devices that send")
        if air is not None:
            if not len(air.gains) == len(air.powers) == senders:
                raise GuardError(f"{senders} devices send, with {len(air.gains)} gains and {len(air.powers)} powers")
            power.check_power(air.energy_bounds, air.powers)

    @property
    def waiting(self) -> DeviceIds:
        """Devices that were drawn and do not send."""
        return np.setdiff1d(self.cohort, self.sending)

    def arriving(self, signals: Tensor, places: slice) -> Tensor:
        """What reaches the server of the signals of some senders: over the air their superposition (eq. (7), without
        the noise), on ideal links their sum."""
        if self.air is None:
            return signals.sum(0)
        gains = self.air.gains[places]
        return superpose(signals, gains, correction=phase_correction(gains))

    def transmit(self, projected: Tensor, places: slice) -> Tensor:
        """The signals xᵢ = (β/|hᵢ|)·AΔᵢ of some senders (eq. (31)); refused if one could break a limit."""
        air = self.require_air()
        return power.transmit(
            projected, air.gains[places], air.powers[places], beta=air.beta, bound=air.bound, share=air.share
        )

    @property
    def beta(self) -> float:
        """The level β at which all signals arrive."""
        return self.require_air().beta

    def require_air(self) -> AirLink:
        """The air link of a scheme that transmits over the air."""
        assert self.air is not None, "this scheme does not transmit over the air"
        return self.air


@dataclass(frozen=True)
class RoundResult:
    """What a round left: the server's estimate, and what the ledger records of it.

    `unheard` are senders of whom nothing usable arrived. `energy` is the sum of ‖x‖² over all transmissions, None on
    ideal links. `device_energy` is that of each sender, in order; a deployment leaves it out, since it would tell the
    norm of a device's update. `kept` is what devices remember. `replies` counts a deployment's messages, and `lost`
    marks a round that was interrupted and is not repeated.
    """

    estimate: Tensor
    train_loss: float | None
    unheard: int
    energy: float | None
    device_energy: tuple[float, ...] | None = None
    kept: Memory = field(default_factory=dict)
    replies: Replies | None = None
    lost: bool = False
