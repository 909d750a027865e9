"""What a training asks of the devices' radios: watts, joules and seconds, over the air or over digital links."""

import math
from dataclasses import dataclass, field

import numpy as np

from pfels.arrays import Reals, Rounds
from pfels.config.tree import Config
from pfels.experiment.forecast import forecast
from pfels.experiment.link import frame_of, link_of
from pfels.experiment.units import joules_per_energy, noise_density_j, reference_loss_db, training_seconds
from pfels.schemes.draws import Draws
from pfels.schemes.plan import RoundPlan
from pfels.uplink import digital
from pfels.uplink.units import ratio, watts

MODEL_BITS = 32  # the server broadcasts every parameter as a float32


@dataclass
class RadioTrace:
    """The rounds of a training as its radios see them, in the units of the channel.

    Per round: E‖x‖² of every sender, where they send over the air; |h| and Pᵢ/d of every device of the cohort; the
    coordinates sent; how many devices train and how many take part at all, which includes those that repeat something.
    """

    devices: int
    over_air: bool = False
    energies: list[Reals] = field(default_factory=list)
    strengths: list[Reals] = field(default_factory=list)
    limits: list[Reals] = field(default_factory=list)
    coordinates: list[int] = field(default_factory=list)
    trained: list[int] = field(default_factory=list)
    present: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._seen = np.zeros(self.devices, bool)

    def add(self, plan: RoundPlan, draws: Draws) -> None:
        """Add one more round; `draws` has the channels of its cohort."""
        self.over_air = plan.air is not None
        if plan.air is not None:
            self.energies.append(plan.air.energy_bounds)
        strengths, limits = draws.cohort_channels(plan.round, plan.cohort)
        self.strengths.append(strengths)
        self.limits.append(limits)
        self.coordinates.append(plan.subcarriers)
        self.trained.append(len(plan.training))
        # Only those who repeat something take part without having been drawn: their echo ends before their next turn.
        self.present.append(len(plan.cohort) + len(plan.repeating))
        self._seen[plan.cohort] = True

    @property
    def participating(self) -> int:
        """The number of devices that take part in at least one round."""
        return int(self._seen.sum())


@dataclass(frozen=True)
class Uploads:
    """Every transmission of a training: its round, what it radiates, and how long it is on the air."""

    rounds: Rounds
    radiated_j: Reals
    seconds: Reals


@dataclass(frozen=True)
class RadioCosts:
    """What a training costs, one value per round; joules are those of all its devices together."""

    uploads: Uploads
    radiated_j: Reals
    amplifier_j: Reals
    circuit_j: Reals
    compute_j: Reals
    airtime_s: Reals
    downlink_s: Reals

    @property
    def total_j(self) -> Reals:
        """What devices draw: radiated joules are part of what the amplifier draws."""
        return self.amplifier_j + self.circuit_j + self.compute_j


def radio_costs(trace: RadioTrace, config: Config, *, dimension: int, limit_dbm: float | None = None) -> RadioCosts:
    """The trace of a training priced in the units of this config, whose model has so many parameters.

    `limit_dbm` replaces the devices' power limits on digital links.
    """
    radio, frame, rounds = config.radio, frame_of(config), len(trace.coordinates)
    uploads = _over_air(trace, config) if trace.over_air else _digital(trace, config, dimension, limit_dbm)
    at = uploads.rounds
    radiated = np.bincount(at, uploads.radiated_j, rounds).astype(float)
    sending_s = np.bincount(at, uploads.seconds, rounds).astype(float)
    airtime = np.array([frame.slots(n) for n in trace.coordinates]) * frame.slot_s if trace.over_air else sending_s
    downlink = _downlink_s(trace, config, dimension)
    receiving_s = downlink * np.array([len(cohort) for cohort in trace.strengths])
    return RadioCosts(
        uploads=uploads,
        radiated_j=radiated,
        amplifier_j=radiated * drawn_per_j(config),
        circuit_j=radio.circuit_w * (sending_s + receiving_s),
        compute_j=radio.compute_w * training_seconds(config) * np.array(trace.trained, float),
        airtime_s=airtime,
        downlink_s=downlink,
    )


def costs_of_run(config: Config, *, limit_dbm: float | None = None) -> RadioCosts:
    """What a run of this config will cost, round by round: its cohorts and channels are drawn, nobody trains.

    `limit_dbm` replaces the devices' power limits on digital links.
    """
    link, trace = link_of(config), RadioTrace(config.data.devices)
    forecast(
        {config.scheme: link}, rounds=config.rounds, frame=frame_of(config),
        observe=lambda name, plan, draws: trace.add(plan, draws),
    )  # fmt: skip
    return radio_costs(trace, config, dimension=link.setting.dimension, limit_dbm=limit_dbm)


def drawn_per_j(config: Config) -> float:
    """What the amplifier draws for a joule of data, the cyclic prefix included."""
    return (1 + frame_of(config).prefix_share) / config.radio.amplifier_efficiency


def _over_air(trace: RadioTrace, config: Config) -> Uploads:
    """All senders of a round at once, for as long as its slots last."""
    frame, counts = frame_of(config), [len(energies) for energies in trace.energies]
    seconds = np.array([frame.slots(n) for n in trace.coordinates]) * frame.slot_s
    return Uploads(
        rounds=np.repeat(np.arange(len(counts)), counts),
        radiated_j=np.concatenate([np.zeros(0), *trace.energies]) * joules_per_energy(config),
        seconds=np.repeat(seconds, counts),
    )


def _digital(trace: RadioTrace, config: Config, dimension: int, limit_dbm: float | None) -> Uploads:
    """One device of the cohort after the other, on the whole band, within the power per resource element that devices
    have over the air: Pᵢ/d."""
    frame, radio = frame_of(config), config.radio
    strengths = np.concatenate([np.zeros(0), *trace.strengths])
    limits_j = np.concatenate([np.zeros(0), *trace.limits]) * joules_per_energy(config)
    per_s = frame.capacity / frame.slot_s
    if limit_dbm is not None:
        limits_j = np.full_like(strengths, watts(limit_dbm) / per_s)
    sent = digital.upload(
        bits=dimension * radio.upload_bits, snr_per_j=strengths**2 * _snr_per_j(config), limit_j=limits_j,
        drawn_per_j=drawn_per_j(config), circuit_w=radio.circuit_w, elements_per_s=per_s,
    )  # fmt: skip
    counts = [len(cohort) for cohort in trace.strengths]
    return Uploads(
        rounds=np.repeat(np.arange(len(counts)), counts),
        radiated_j=sent.elements * sent.element_j,
        seconds=np.ceil(sent.elements / frame.capacity) * frame.slot_s,
    )


def _snr_per_j(config: Config) -> float:
    """The SNR, less the Shannon gap, of a joule in one complex dimension at a gain of 1."""
    loss, gap = ratio(reference_loss_db(config)), ratio(config.radio.shannon_gap_db)
    return 1 / (loss * noise_density_j(config) * gap)


def _downlink_s(trace: RadioTrace, config: Config, dimension: int) -> Reals:
    """Seconds in each round for the model to reach the whole cohort, at the rate that its weakest member decodes."""
    width = frame_of(config).bandwidth_hz
    weakest = np.array([strengths.min(initial=math.inf) for strengths in trace.strengths])
    snr = watts(config.radio.server_dbm) / width * weakest**2 * _snr_per_j(config)
    return digital.broadcast_s(bits=dimension * MODEL_BITS, bandwidth_hz=width, snr=snr)
