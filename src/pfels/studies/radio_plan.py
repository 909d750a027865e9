"""The radio's part of a plan as a document: totals, transmit power, and digital links under other assumptions."""

import math

import numpy as np

from pfels.arrays import Reals
from pfels.config.tree import Config
from pfels.documents.radio import DigitalCase, Joules, RadioPlan, RadioUnits, TransmitPower
from pfels.experiment.link import frame_of
from pfels.experiment.units import joules_per_energy, noise_density_j, reference_loss_db, training_seconds
from pfels.studies.radio import RadioCosts, RadioTrace, drawn_per_j, radio_costs
from pfels.uplink.units import dbm, decibels

WEAKEST = 0.1  # share of the uploads without which a digital training is priced too
DEVICE_DBM = 23.0  # what a handset may send: power class 3 (3GPP TS 38.101-1)


def radio_plan(trace: RadioTrace, config: Config, *, dimension: int) -> RadioPlan:
    """What the radios of a training do, in one document."""
    costs = radio_costs(trace, config, dimension=dimension)
    total, uploads = _joules(costs), costs.uploads
    taken, present = max(sum(trace.present), 1), trace.participating
    per_round: Joules = {
        "radiated": total["radiated"] / taken,
        "amplifier": total["amplifier"] / taken,
        "circuit": total["circuit"] / taken,
        "compute": total["compute"] / taken,
        "total": total["total"] / taken,
    }
    found: RadioPlan = {
        "link": "over the air" if trace.over_air else "digital",
        "bandwidth_hz": frame_of(config).bandwidth_hz,
        "airtime_s": float(costs.airtime_s.sum()),
        "downlink_s": float(costs.downlink_s.sum()),
        "energy_j": total,
        "per_round_j": per_round,
        "tx_power_dbm": _power(uploads.radiated_j / uploads.seconds, config.radio.peak_to_average_db),
        "battery_share": total["total"] / present / (config.radio.battery_wh * 3600) if present else None,
    }
    if not trace.over_air:
        free = radio_costs(trace, config, dimension=dimension, limit_dbm=DEVICE_DBM)
        found["alternatives"] = {
            "without_weakest": _case(costs, config, left_out=WEAKEST),
            "at_23_dbm": _case(free, config, left_out=0.0),
            "at_23_dbm_without_weakest": _case(free, config, left_out=WEAKEST),
        }
    return found


def _joules(costs: RadioCosts) -> Joules:
    parts = (costs.radiated_j, costs.amplifier_j, costs.circuit_j, costs.compute_j)
    radiated, amplifier, circuit, compute = (math.fsum(part) for part in parts)
    return {
        "radiated": radiated,
        "amplifier": amplifier,
        "circuit": circuit,
        "compute": compute,
        "total": amplifier + circuit + compute,
    }


def _power(power: Reals, peak_to_average_db: float) -> TransmitPower | None:
    if not len(power) or not power.max() > 0:
        return None
    return {
        "mean": dbm(float(power.mean())),
        "p99": dbm(float(np.quantile(power, 0.99))),
        "peak": dbm(float(power.max())) + peak_to_average_db,
    }


def _case(costs: RadioCosts, config: Config, *, left_out: float) -> DigitalCase:
    """A digital training without the share of its uploads that take longest."""
    uploads = costs.uploads
    count = int(left_out * len(uploads.seconds))
    slowest, rest = np.split(np.argsort(-uploads.seconds, kind="stable"), [count])
    seconds, power = (
        float(uploads.seconds[slowest].sum()),
        _power(uploads.radiated_j[rest] / uploads.seconds[rest], 0.0),
    )
    drawn = drawn_per_j(config) * float(uploads.radiated_j[slowest].sum()) + config.radio.circuit_w * seconds
    return {
        "airtime_s": float(costs.airtime_s.sum()) - seconds,
        "total_j": float(costs.total_j.sum()) - drawn,
        "mean_dbm": None if power is None else power["mean"],
    }


def radio_units(config: Config, *, measured: bool) -> RadioUnits:
    """The units that a plan of this config is in; `measured` says that its `compute_s` was measured here."""
    radio, frame, loss = config.radio, frame_of(config), reference_loss_db(config)
    return {
        "frame": radio.frame,
        "carrier_ghz": radio.carrier_ghz,
        "bandwidth_hz": frame.bandwidth_hz,
        "subcarriers": frame.subcarriers,
        "slot_s": frame.slot_s,
        "slot_coordinates": frame.capacity,
        "noise_j": noise_density_j(config) / 2,
        "reference_loss_db": loss,
        "mean_loss_db": loss - decibels(config.channel.gain_mean**2),
        "joules_per_energy": joules_per_energy(config),
        "peak_to_average_db": radio.peak_to_average_db,
        "battery_wh": radio.battery_wh,
        "upload_bits": radio.upload_bits,
        "shannon_gap_db": radio.shannon_gap_db,
        "compute_s": training_seconds(config),
        "compute_from": "measured" if measured else "flops" if radio.compute_s is None else "stated",
    }
