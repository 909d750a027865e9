"""The link budget in watts, joules and seconds, added up by hand from the draws of the same seed."""

import json
import math
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

from pfels.config.load import load_config
from pfels.config.tree import Config
from pfels.experiment import loop
from pfels.experiment.link import link_of
from pfels.experiment.units import reference_loss_db, training_seconds
from pfels.report.text import duration, joules
from pfels.studies import measure
from pfels.studies.plan import plan
from tests.conftest import small

BOLTZMANN = 1.380649e-23
UNIT_J = BOLTZMANN * 290 * 10**0.5 / 2 * 10**6.6  # kTF/2 at 5 dB, and 66 dB


def radio_of(config: Config, scheme: str) -> Any:
    return plan(config, schemes=[scheme])["schemes"][scheme]["radio"]


def test_the_plan_of_the_paper_s_run_radiates_what_the_paper_s_energy_is_in_joules():
    row = plan("cifar10", schemes=["pfels"])["schemes"]["pfels"]
    assert row["radio"]["energy_j"]["radiated"] == pytest.approx(row["energy"] * UNIT_J, rel=1e-12)
    assert row["radio"]["energy_j"]["radiated"] == pytest.approx(6.4e-3, rel=0.02)  # seed 0: 6.50 mJ, print: 6.43 mJ
    assert row["radio"]["bandwidth_hz"] == 49.5e6
    assert row["radio"]["airtime_s"] == pytest.approx(row["airtime_s"])


def test_joules_are_those_of_the_energy_whatever_the_noise_s_scale(scheme: str):
    """σ₀ = 3 multiplies powers and energies by 9, and a joule stays a joule."""
    one, other = (plan(small(scheme=scheme, channel__noise_std=std), schemes=[scheme]) for std in (1.0, 3.0))
    rows = one["schemes"][scheme], other["schemes"][scheme]
    if rows[0]["energy"] is not None:
        assert rows[1]["energy"] == pytest.approx(9 * rows[0]["energy"])
        assert rows[0]["radio"]["energy_j"]["radiated"] == pytest.approx(rows[0]["energy"] * UNIT_J)
    assert rows[1]["radio"]["energy_j"] == pytest.approx(rows[0]["radio"]["energy_j"])


@pytest.mark.parametrize("frame", ["paper", "nr"])
def test_an_over_the_air_training_adds_up(frame: str):
    config = small(radio__frame=frame, radio__circuit_w=0.2, radio__compute_w=3.0, radio__compute_s=0.5)
    row = plan(config, schemes=["pfels"])["schemes"]["pfels"]
    link = link_of(config)
    plans = [link.scheme.prepare(link.draws, t) for t in range(config.rounds)]
    airs = [p.require_air() for p in plans]
    slot_s = 0.01 if frame == "paper" else 0.001  # k = 183 coordinates fit one slot
    power = np.concatenate([air.energy_bounds for air in airs]) * UNIT_J / slot_s
    width, d = 49.5e6, link.setting.dimension
    weakest = np.array([np.abs(air.gains).min() for air in airs])
    snr = 10**1.3 * weakest**2 / 10**6.6 / (BOLTZMANN * 290 * 10**0.5 * width)  # 43 dBm
    downlink = 32 * d / (width * np.log2(1 + snr / 10**0.3))
    cohort, rounds = config.cohort.size, config.rounds
    prefix = 0.0 if frame == "paper" else 144 / 2048
    radio = row["radio"]
    assert radio["link"] == "over the air"
    assert radio["airtime_s"] == pytest.approx(rounds * slot_s)
    assert radio["downlink_s"] == pytest.approx(downlink.sum())
    assert radio["tx_power_dbm"]["mean"] == pytest.approx(10 * math.log10(power.mean() * 1000))
    assert radio["tx_power_dbm"]["p99"] == pytest.approx(10 * math.log10(np.quantile(power, 0.99) * 1000))
    assert radio["tx_power_dbm"]["peak"] == pytest.approx(10 * math.log10(power.max() * 1000) + 11.2)
    spent = radio["energy_j"]
    assert spent["amplifier"] == pytest.approx(spent["radiated"] * (1 + prefix) / 0.35)
    assert spent["circuit"] == pytest.approx(0.2 * cohort * (rounds * slot_s + downlink.sum()))
    assert spent["compute"] == pytest.approx(3.0 * 0.5 * cohort * rounds)
    assert spent["total"] == pytest.approx(spent["amplifier"] + spent["circuit"] + spent["compute"])
    for key, value in radio["per_round_j"].items():
        assert value == pytest.approx(spent[key] / (cohort * rounds))
    devices = len(set(np.concatenate([p.cohort for p in plans]).tolist()))
    assert radio["battery_share"] == pytest.approx(spent["total"] / devices / (15 * 3600))


def test_a_digital_training_adds_up():
    config = small(scheme="fedavg", radio__frame="nr")
    radio = radio_of(config, "fedavg")
    draws, d = link_of(small()).draws, link_of(small()).setting.dimension
    seconds = radiated = 0.0
    for t in range(config.rounds):
        cohort = draws.cohort(t)
        for h, limit in zip(np.abs(draws.gains(t, cohort)), draws.powers(cohort) / d, strict=True):
            rate = math.log2(1 + h**2 * limit / (2 * 10**0.3))  # a complex dimension has the noise 2σ₀²
            elements = 8 * d / rate
            seconds += math.ceil(elements / (3300 * 13)) * 0.001
            radiated += elements * limit * UNIT_J
    assert radio["link"] == "digital"
    assert radio["airtime_s"] == pytest.approx(seconds)
    assert radio["energy_j"]["radiated"] == pytest.approx(radiated)
    assert radio["energy_j"]["circuit"] == pytest.approx(0.1 * (seconds + config.cohort.size * radio["downlink_s"]))


def test_digital_links_are_priced_over_the_channel_of_the_others():
    """fedavg does not use the channel's settings, but its price does."""
    names = ["pfels", "fedavg"]
    plain, stronger = (
        plan("demo", schemes=names, overrides={"rounds": 4, **gain}) for gain in ({}, {"channel.gain_max": 0.01})
    )
    rows = [each["schemes"]["fedavg"]["radio"] for each in (plain, stronger)]
    assert rows[1]["airtime_s"] > 2 * rows[0]["airtime_s"]


def test_more_power_and_fewer_weak_devices_shorten_digital_uploads():
    radio = radio_of(load_config("demo", {"scheme": "fedavg", "rounds": 40}), "fedavg")
    cases = radio["alternatives"]
    for less, more in (("without_weakest", None), ("at_23_dbm", None), ("at_23_dbm_without_weakest", "at_23_dbm")):
        other = (
            {"airtime_s": radio["airtime_s"], "total_j": radio["energy_j"]["total"]} if more is None else cases[more]
        )
        assert cases[less]["airtime_s"] < other["airtime_s"]
        assert cases[less]["total_j"] < other["total_j"]
    assert cases["at_23_dbm"]["mean_dbm"] <= 23


def test_with_a_scenario_the_mean_gain_has_its_path_loss():
    config = small(radio__scenario="umi-los", radio__distance_m=200.0)
    assert reference_loss_db(config) + -20 * math.log10(0.1) == pytest.approx(91.6112, abs=1e-4)
    assert plan(config)["radio"]["mean_loss_db"] == pytest.approx(91.6112, abs=1e-4)
    near = radio_of(config, "pfels")["energy_j"]["radiated"]
    ratio = near / radio_of(small(), "pfels")["energy_j"]["radiated"]
    assert 10 * math.log10(ratio) == pytest.approx(reference_loss_db(config) - 66)


def test_repeating_what_was_sent_costs_radio_time_but_no_training():
    config = small(scheme="pfels-echo", compression__ratio=1.0)
    radio, plans = radio_of(config, "pfels-echo"), link_of(config)
    rounds = [plans.scheme.prepare(plans.draws, t) for t in range(config.rounds)]
    assert any(len(each.repeating) for each in rounds)
    trained = sum(len(each.training) for each in rounds)
    assert radio["energy_j"]["compute"] == pytest.approx(2.0 * training_seconds(config) * trained)


def test_a_measured_time_replaces_the_estimate_and_is_named(monkeypatch: pytest.MonkeyPatch):
    assert measure.measured_training_s(small()) > 0
    monkeypatch.setattr(measure, "measured_training_s", lambda config: 1.25)
    planned = plan(small(), schemes=["pfels"], measure=True)
    assert (planned["radio"]["compute_s"], planned["radio"]["compute_from"]) == (1.25, "measured")
    assert plan(small())["radio"]["compute_from"] == "flops"
    assert plan(small(radio__compute_s=2.0))["radio"]["compute_from"] == "stated"


def test_a_run_ends_with_the_joules_that_it_radiated():
    summary = loop.run(small()).summary
    assert summary["radiated_j"] == pytest.approx(summary["energy"] * UNIT_J)
    assert loop.run(small(scheme="fedavg")).summary["radiated_j"] is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0002, "0.2 ms"), (0.3, "0.3 s"), (59.96, "60 s"), (725.0, "12 min 5 s"), (3599.7, "1 h 0 min"),
        (17740.0, "4 h 56 min"), (1_890_000.0, "21 d 21 h"), (4.2645e12, "140,000 years"), (1e20, "3.2e12 years"),
    ],
)  # fmt: skip
def test_a_time_has_two_units_at_most(seconds: float, words: str):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("energy", "words"),
    [(6.504e-3, "6.5 mJ"), (999.9, "1 kJ"), (6.13e6, "6.13 MJ"), (0.0, "0 J"), (1.3e-13, "130 fJ"), (2e17, "2e17 J")],
)
def test_an_energy_has_three_digits_and_a_prefix(energy: float, words: str):
    assert joules(energy) == words


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("radio.distance_m=0", "radio.distance_m = 0: must be a finite number in [10, 5000]"),
        ("radio.bandwidth_mhz=0.01", "radio.bandwidth_mhz = 0.01: less than one subcarrier; must be at least 0.015"),
        ("radio.scenario=rural", "radio.scenario = 'rural': must be one of none, umi-los, umi-nlos, uma-los, uma-nlos"),
        ("radio.amplifier_efficiency=0", "radio.amplifier_efficiency = 0: must be a finite number in (0, 1]"),
    ],
)
def test_wrong_units_are_refused_in_one_line(pfels: Callable[..., CompletedProcess[str]], setting: str, line: str):
    answer = pfels("plan", "demo", "-s", setting)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.strip().splitlines() == [answer.stderr.strip()]
    assert line in answer.stderr


def test_the_promised_fields_are_there_for_every_scheme(pfels: Callable[..., CompletedProcess[str]]):
    for row in json.loads(pfels("plan", "demo", "-s", "rounds=5", "--json").stdout)["schemes"].values():
        radio = row["radio"]
        assert {"bandwidth_hz", "airtime_s", "energy_j", "tx_power_dbm"} <= set(radio)
        assert {"radiated", "circuit", "compute"} <= set(radio["energy_j"])
        assert set(radio["tx_power_dbm"]) == {"mean", "p99", "peak"}
