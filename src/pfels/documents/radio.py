"""The radio's part of `pfels plan`: watts, joules and seconds."""

from typing import NotRequired

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

    link: str  # `over the air`, all at once, or `digital`, one upload after the other
    bandwidth_hz: float  # width of the band
    airtime_s: float  # seconds of uploads, by the frame
    downlink_s: float  # seconds of broadcasts of the model
    energy_j: Joules  # of the whole training, all devices
    per_round_j: Joules  # per device and round: mean over all devices that take part in a round
    tx_power_dbm: TransmitPower | None  # null: nobody sends
    battery_share: float | None  # of the battery of a device that takes part, mean, whole training; null: none does
    alternatives: NotRequired[dict[str, DigitalCase]]  # digital links without the slowest tenth, at 23 dBm, and both


class RadioUnits(TypedDict):
    """The units that a plan is in."""

    frame: str  # paper or nr
    carrier_ghz: float  # carrier frequency
    bandwidth_hz: float  # width of the band
    subcarriers: int  # of the band
    slot_s: float  # length of a slot
    slot_coordinates: int  # coordinates that a slot carries
    noise_j: float  # σ₀² in joules: kTF/2
    reference_loss_db: float  # path loss at a gain of 1
    mean_loss_db: float  # path loss at the mean gain
    joules_per_energy: float  # joules radiated per unit of `energy`
    peak_to_average_db: float  # of the waveform
    battery_wh: float  # a device's battery
    upload_bits: int  # bits per coordinate on digital links
    shannon_gap_db: float  # distance of digital links from the Shannon rate
    compute_s: float  # seconds of local training per round and device
    compute_from: str  # where compute_s is from: stated, flops or measured
