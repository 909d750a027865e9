"""Physical units, path loss and digital links, held against numbers worked out by hand or by other means."""

import math

import numpy as np
import pytest
from scipy import constants
from scipy.optimize import minimize_scalar

from pfels.uplink import digital, units
from pfels.uplink.path_loss import SCENARIOS, breakpoint_m, path_loss_db


def test_boltzmann_s_constant_is_that_of_the_si():
    assert constants.Boltzmann == units.BOLTZMANN


def test_the_paper_s_cifar_10_run_radiates_6_4_mJ_at_5_dB_and_66_dB():
    """Printed: Σ‖x‖² = 2.55e11. kT = 4.0039e-21 J at 290 K, F = 3.1623, half of it 6.3307e-21 J; 66 dB = 3.9811e6."""
    noise = units.noise_density_j(temperature_k=290.0, noise_figure_db=5.0)
    assert noise / 2 == pytest.approx(6.3307e-21, rel=1e-4)
    unit = units.joules_per_unit(noise_density_j=noise, reference_loss_db=66.0)
    assert unit == pytest.approx(6.3307e-21 * 3.98107e6, rel=1e-4)
    assert 2.55e11 * unit == pytest.approx(6.4e-3, rel=0.005)


def test_dbm_and_watts_are_inverse():
    assert units.watts(23.0) == pytest.approx(0.19953, rel=1e-4)
    assert units.dbm(units.watts(-47.25)) == pytest.approx(-47.25)
    assert units.decibels(units.ratio(13.0)) == pytest.approx(13.0)


@pytest.mark.parametrize(
    ("scenario", "distance_m", "loss_db"),
    [
        # d₃D = √(d² + 8.5²); the breakpoint is at 4·9·0.5·3.5e9/3e8 = 210 m
        ("umi-los", 100.0, 32.4 + 21 * 2.001567 + 10.88136),
        ("umi-los", 200.0, 91.6112),
        ("umi-los", 1000.0, 32.4 + 40 * 3.0000157 + 10.88136 - 9.5 * math.log10(210**2 + 72.25)),
        ("umi-nlos", 100.0, 35.3 * 2.001567 + 22.4 + 21.3 * 0.544068),
        ("umi-nlos", 200.0, 115.2288),
        # d₃D = √(d² + 23.5²); the breakpoint is at 4·24·0.5·3.5e9/3e8 = 560 m
        ("uma-los", 100.0, 28 + 22 * 2.011670 + 10.88136),
        ("uma-los", 1000.0, 28 + 40 * 3.000120 + 10.88136 - 9 * math.log10(560**2 + 552.25)),
        ("uma-nlos", 1000.0, 13.54 + 39.08 * 3.000120 + 10.88136),
    ],
)
def test_path_loss_is_that_of_the_table(scenario: str, distance_m: float, loss_db: float):
    assert path_loss_db(scenario, distance_m=distance_m, carrier_ghz=3.5) == pytest.approx(loss_db, abs=2e-4)


@pytest.mark.parametrize("place", list(SCENARIOS))
def test_loss_is_continuous_at_the_breakpoint_and_never_less_without_line_of_sight(place: str):
    bend = breakpoint_m(SCENARIOS[place], carrier_ghz=3.5)
    before, after = (path_loss_db(f"{place}-los", distance_m=bend * x, carrier_ghz=3.5) for x in (1 - 1e-9, 1 + 1e-9))
    assert after == pytest.approx(before, abs=0.2)  # the coefficients of the table are rounded
    for distance in np.geomspace(10, 5000, 40):
        los, nlos = (path_loss_db(f"{place}-{s}", distance_m=float(distance), carrier_ghz=3.5) for s in ("los", "nlos"))
        assert nlos >= los


@pytest.mark.parametrize("amplifier_w", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_no_other_power_sends_a_bit_for_less_energy(amplifier_w: float):
    def cost(log_snr: float) -> float:
        return float((amplifier_w * math.exp(log_snr) + 0.1) / math.log1p(math.exp(log_snr)))

    best = digital.cheapest_snr(amplifier_w=np.array([amplifier_w]), circuit_w=0.1)[0]
    found = minimize_scalar(cost, bounds=(-30, 40), method="bounded", options={"xatol": 1e-9})
    assert best == pytest.approx(math.exp(found.x), rel=1e-5)
    assert cost(math.log(best)) <= found.fun * (1 + 1e-12)


def test_an_upload_keeps_to_its_limit_and_carries_its_bits():
    gains, limits = np.array([1.0, 0.01, 1e-4]), np.array([2.0, 2.0, 2.0])
    sent = digital.upload(
        bits=1000.0, snr_per_j=gains**2, limit_j=limits, drawn_per_j=3.0, circuit_w=0.1, elements_per_s=1.0
    )
    assert np.all(sent.element_j <= limits)
    assert sent.element_j[0] < limits[0]  # less is cheaper
    assert sent.element_j[2] == limits[2]
    assert sent.elements * np.log2(1 + sent.element_j * gains**2) == pytest.approx(np.full(3, 1000.0))


def test_at_low_snr_a_bit_costs_log_2_times_the_noise_whatever_the_power():
    """The wideband limit: E_b ≥ N₀·log 2, here in units of N₀ after the gap."""
    sent = digital.upload(
        bits=1.0,
        snr_per_j=np.ones(2),
        limit_j=np.array([1e-9, 1e-6]),
        drawn_per_j=1.0,
        circuit_w=0.0,
        elements_per_s=1.0,
    )
    assert sent.elements * sent.element_j == pytest.approx(np.full(2, math.log(2)), rel=1e-6)
