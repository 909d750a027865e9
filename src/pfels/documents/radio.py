"""The radio's part of `pfels plan`: watts, joules and seconds."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict


class Joules(TypedDict):
    """What devices spend."""

    radiated: float  # what their antennas send out; part of what the amplifier draws
    amplifier: float  # what the power amplifiers draw
    circuit: float  # what the rest of the radio draws while it sends or receives
    compute: float  # what local training draws
    total: float  # amplifier, circuit and compute


class TransmitPower(TypedDict):
    """The power of a transmission (one device in one round), averaged over its slots, in dBm."""

    mean: float  # mean over the transmissions
    p99: float  # their 99 % quantile
    peak: float  # their maximum, plus the peak-to-average ratio of the waveform


class DigitalCase(TypedDict):
    """A digital training under other assumptions; the broadcasts and the local training stay."""

    airtime_s: float  # seconds of uploads
    total_j: float  # what all devices draw in the whole training, to compare with `energy_j.total`
    mean_dbm: float | None  # mean power of the uploads; null: there are none


class RadioPlan(TypedDict):
    """What a scheme asks of the devices' radios."""

    link: Literal["over the air", "digital"]  # all at once, or one upload after the other
    bandwidth_hz: float  # width of the band
    airtime_s: float  # seconds of uploads, by the frame
    downlink_s: float  # seconds of broadcasts of the model
    energy_j: Joules  # of the whole training, all devices
    per_round_j: Joules  # per device and round: mean over all devices that take part in a round
    tx_power_dbm: TransmitPower | None  # null: nobody sends
    battery_share: float | None  # of the battery of a device that takes part, mean, whole training; null: none does
    alternatives: NotRequired[
        dict[str, DigitalCase]
    ]  # digital: without the slowest tenth of uploads, up to 23 dBm, both


class RadioUnits(TypedDict):
    """The units that a plan is in."""

    frame: str  # paper or nr
    subcarriers: int  # of the band
    slot_s: float  # length of a slot
    slot_coordinates: int  # coordinates that a slot carries
    noise_j: float  # σ₀² in joules: kTF/2
    reference_loss_db: float  # path loss at a gain of 1
    mean_loss_db: float  # path loss at the mean gain
    joules_per_energy: float  # joules radiated per unit of `energy`
    compute_s: float  # seconds of local training per round and device
    compute_from: Literal["stated", "flops", "measured"]  # where compute_s is from
