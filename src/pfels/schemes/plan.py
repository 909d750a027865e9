"""What a round settles before anyone trains, and what it leaves when it has been played."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from pfels.arrays import DeviceIds, Gains, Reals, Rounds
from pfels.documents.run import Replies
from pfels.errors import GuardError
from pfels.privacy.events import RoundEvent, noise_multiplier_at
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.memory import Kept
from pfels.schemes.setting import Setting
from pfels.uplink import power
from pfels.uplink.channel import phase_correction, superpose
from pfels.uplink.spectrum import Spectrum


@dataclass(frozen=True)
class AirLink:
    """Simultaneous transmission on one channel: gains and power limits of the senders, the level β at which all
    arrive, the limit that set it, the norm bound of what is sent before scaling, and the share k/d of coordinates sent.

    With `weights`, one per sender, the signal of sender i arrives at level weights[i]·β instead. With `added`, sender i
    adds Gaussian noise of expected energy added[i] to its signal. `gains` are those that the senders know; `errors` are
    the true ones over them, and `spectrum` is what differs between subcarriers. `energy_bounds` follow from the rest:
    the maximum of E‖xᵢ‖² for each sender, the noise that it adds included.
    """

    gains: Gains
    powers: Reals
    beta: float
    limit: str
    bound: float
    share: float
    weights: Reals | None = None
    added: Reals | None = None
    errors: Gains | None = None
    spectrum: Spectrum | None = None
    energy_bounds: Reals = field(init=False)

    def __post_init__(self) -> None:
        beta = self.beta if self.weights is None else self.levels
        signal = power.expected_energy(self.gains, beta=beta, bound=self.bound, share=self.share)
        object.__setattr__(self, "energy_bounds", signal if self.added is None else signal + self.added)

    @property
    def used_share(self) -> float:
        """The expected share of a sender's subcarriers that it uses."""
        return 1.0 if self.spectrum is None else self.spectrum.used_share

    @property
    def true_gains(self) -> Gains:
        """The gains of the channel itself."""
        return self.gains if self.errors is None else self.gains * self.errors

    @property
    def levels(self) -> Reals:
        """The level at which each sender's signal arrives."""
        return np.full(len(self.gains), self.beta) if self.weights is None else self.weights * self.beta

    def added_std(self, place: int, *, width: int) -> float:
        """The standard deviation of the noise that one sender adds to each of `width` coordinates, as transmitted."""
        return 0.0 if self.added is None else math.sqrt(self.added[place] / width)

    def longest(self, place: int, *, width: int) -> float:
        """The norm that nothing honest that one sender transmits exceeds; noise would once in 10²⁰ times."""
        signal = float(self.levels[place] / abs(self.gains[place]) * self.bound)
        return signal + self.added_std(place, width=width) * (math.sqrt(width) + 10.0)

    def noise_std(self, receiver: float, *, width: int, margin: float = 1.0) -> float:
        """The standard deviation of all the noise that arrives on each of `width` coordinates; `receiver` is σ₀.

        What devices add may arrive weaker than planned by a factor of up to `margin`.
        """
        if self.added is None:
            return receiver
        added = float(np.sum(np.abs(self.gains) ** 2 * self.added)) / margin**2
        return math.sqrt(receiver**2 + added / width)


class Echo(NamedTuple):
    """What a plan whose devices repeat says of it. The first `fresh` senders train, the others repeat what they sent
    before (None: all train). `used_until` is the last round that uses what devices and server keep of this one (None:
    no end is known). `turns` is the round in which each sender learned what it sends (None: in this one)."""

    fresh: int | None = None
    used_until: int | None = None
    turns: Rounds | None = None


WITHOUT_ECHO = Echo()


@dataclass(frozen=True)
class RoundPlan:
    """Who takes part in a round, what it releases, and how many channel uses it takes.

    `cohort` was drawn; `sending` are the devices that transmit, of which some may repeat what they sent (`echo`). `air`
    is absent where every device has an ideal link. `claimed_epsilon` is the paper's ε per round where the scheme makes
    that claim. `divisor` is the number of devices by which the server divides the sum.
    """

    round: int
    cohort: DeviceIds
    sending: DeviceIds
    event: RoundEvent
    subcarriers: int
    claimed_epsilon: float | None
    air: AirLink | None
    divisor: float
    echo: Echo = WITHOUT_ECHO

    @classmethod
    def over_air(
        cls,
        setting: Setting,
        t: int,
        cohort: DeviceIds,
        air: AirLink,
        *,
        width: int,
        claimed: bool = False,
        sending: DeviceIds | None = None,
        divisor: float | None = None,
        cohort_dependent: bool = True,
        echo: Echo = WITHOUT_ECHO,
    ) -> Self:
        """The plan of round t whose signals add up on `width` subcarriers; the server divides by `divisor`, or by r.

        The noise multiplier follows from the level and the noise that arrives, z = σ/(βs), with s for a device that
        arrives as strong as its gain error allows. `cohort_dependent` is False only where level, index set and divisor
        do not depend on who was drawn.
        """
        sending, margin = cohort if sending is None else sending, setting.cell.margin
        arriving = air.noise_std(setting.noise_std, width=width, margin=margin)
        z = noise_multiplier_at(beta=air.beta, bound=air.bound * margin, noise_std=arriving)
        weights = None if air.weights is None else tuple(air.weights.tolist())
        event = _event(setting, sending, z=z, cohort_dependent=cohort_dependent, weights=weights)
        claim, count = setting.epsilon if claimed else None, setting.cohort_size if divisor is None else divisor
        return cls(t, cohort, sending, event, width, claim, air, count, echo)

    @classmethod
    def ideal(
        cls,
        setting: Setting,
        t: int,
        cohort: DeviceIds,
        *,
        z: float,
        upload_z: float | None = None,
        claimed: bool = False,
        cohort_dependent: bool = True,
    ) -> Self:
        """The plan of round t in which each device of the cohort uploads its whole update over an ideal link.

        z is the noise multiplier of the sum, 0 for none, and `upload_z` that of one upload, where it differs.
        """
        event = _event(setting, cohort, z=z, upload_z=upload_z, cohort_dependent=cohort_dependent)
        claim, used = setting.epsilon if claimed else None, len(cohort) * setting.dimension
        return cls(t, cohort, cohort, event, used, claim, None, setting.cohort_size)

    def __post_init__(self) -> None:
        air, senders = self.air, len(self.sending)
        if self.event.participants != tuple(self.sending.tolist()):
            raise GuardError("the event's participants are not the devices that send")
        if air is not None:
            if not len(air.gains) == len(air.powers) == senders:
                raise GuardError(f"{senders} devices send, with {len(air.gains)} gains and {len(air.powers)} powers")
            power.check_power(air.energy_bounds, air.powers)

    @property
    def training(self) -> DeviceIds:
        """Devices that train and send."""
        return self.sending[: self.echo.fresh]

    @property
    def repeating(self) -> DeviceIds:
        """Devices that repeat what they sent at their turn."""
        return self.sending[len(self.training) :]

    @property
    def ends(self) -> Rounds | None:
        """The last round that uses what each sender sends; None where no end is known."""
        turns, until = self.echo.turns, self.echo.used_until
        return None if turns is None or until is None else turns + (until - self.round)

    @property
    def waiting(self) -> DeviceIds:
        """Devices that were drawn and do not send."""
        return np.setdiff1d(self.cohort, self.sending)

    def arriving(self, signals: Tensor, places: slice) -> Tensor:
        """What reaches the server of the signals of some senders: over the air their superposition (eq. (7), without
        the noise), on ideal links their sum."""
        if self.air is None:
            return signals.sum(0)
        true, correction = self.air.true_gains[places], phase_correction(self.air.gains[places])
        if self.air.spectrum is not None:
            return self.air.spectrum.superpose(signals, true * correction, places)
        return superpose(signals, true, correction=correction)

    def arriving_levels(self, places: slice) -> Reals:
        """The levels at which the signals of some senders arrive, with the phases of their channels cancelled."""
        return self.arriving_weights(places).real

    def arriving_weights(self, places: slice) -> Gains:
        """The same with what is left of the phases."""
        air = self.require_air()
        known, true = air.gains[places], air.true_gains[places]
        weights: Gains = (true * phase_correction(known)) * (air.levels[places] / np.abs(known))
        return weights

    def transmit(self, projected: Tensor, places: slice) -> Tensor:
        """The signals xᵢ = (β/|hᵢ|)·AΔᵢ of some senders (eq. (31)); refused if one could break a limit."""
        air = self.require_air()
        signals = power.transmit(
            projected, air.gains[places], air.powers[places], beta=air.levels[places], bound=air.bound, share=air.share
        )
        if air.spectrum is None:
            return signals
        sent = air.spectrum.invert(signals, places)
        return power.within(sent, air.powers[places]) if air.share == 1 else sent

    def check_signals(self, signals: Tensor, places: slice) -> Reals:
        """The energies of the signals of some senders, or a GuardError if one arrives with more than its norm bound."""
        air, spent = self.require_air(), power.energy(signals)
        reached = spent if air.spectrum is None else power.energy(air.spectrum.reach(signals, places))
        power.check_signals(reached, air.gains[places], beta=air.levels[places], bound=air.bound)
        return spent

    @property
    def beta(self) -> float:
        """The level β at which all signals arrive."""
        return self.require_air().beta

    def require_air(self) -> AirLink:
        """The air link of a scheme that transmits over the air."""
        assert self.air is not None, "this scheme does not transmit over the air"
        return self.air


def _event(
    setting: Setting,
    sending: DeviceIds,
    *,
    z: float,
    cohort_dependent: bool,
    upload_z: float | None = None,
    weights: tuple[float, ...] | None = None,
) -> RoundEvent:
    return RoundEvent(
        noise_multiplier=z,
        server_noise_multiplier=z if upload_z is None else upload_z,
        devices=setting.devices,
        cohort_size=setting.cohort_size,
        sampling=setting.sampling,
        participants=tuple(sending.tolist()),
        cohort_dependent=cohort_dependent,
        weights=weights,
    )


@dataclass(frozen=True)
class RoundResult:
    """What a round left: the server's estimate, and what the ledger records of it.

    `unheard` are senders of whom nothing usable arrived. `energy` is the sum of ‖x‖² over all transmissions, None on
    ideal links. `device_energy` is that of each sender, in order; a deployment leaves it out, since it would tell the
    norm of a device's update. `repeated` is how many were heard that repeat what they sent. `kept` is what devices
    remember, and `decoded` what the server does. `replies` counts a deployment's messages, and `lost` marks a round
    that was interrupted and is not repeated.
    """

    estimate: Tensor
    train_loss: float | None
    unheard: int
    energy: float | None
    device_energy: tuple[float, ...] | None = None
    repeated: int = 0
    kept: Mapping[int, Kept] = field(default_factory=dict)
    decoded: Tensor | None = None
    replies: Replies | None = None
    lost: bool = False
