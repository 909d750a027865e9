"""A round as time samples, beside the model that multiplies every coordinate by one number."""

import doctest
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfels.seeding import Purpose, generator
from pfels.uplink import tdl, waveform
from pfels.uplink.channel import phase_correction, superpose
from pfels.uplink.waveform import Grid

DEVICES, WIDTH, K = 8, 200, 48
GRID = Grid.of(subcarriers=K, spacing_hz=15e3)
BETA, FADE_LIMIT_DB = 0.3, 6.0


def draws(stream: int) -> np.random.Generator:
    return generator(17, Purpose.DEVICE_NOISE, round=stream)


def complex_normal(stream: int, *shape: int) -> np.ndarray:
    return draws(stream).normal(size=(*shape, 2)).view(np.complex128)[..., 0] / math.sqrt(2)


class Round:
    """Signals of some devices, their channels, and what the server reads: by the model, and through the waveform."""

    def __init__(self, model: str, *, gain_db: float = 0.0, phase_deg: float = 0.0, timing_s: float = 0.0) -> None:
        self.rows = draws(1).normal(size=(DEVICES, WIDTH))
        self.order = draws(2).permutation(K)
        self.gains = 0.05 * complex_normal(3, DEVICES)
        self.errors = 10 ** (draws(4).uniform(-gain_db, gain_db, DEVICES) / 20) * np.exp(
            1j * np.deg2rad(draws(5).uniform(-phase_deg, phase_deg, DEVICES))
        )
        self.offsets = draws(6).permutation(np.linspace(-timing_s, timing_s, DEVICES))
        self.delays, self.taps, self.selective = np.zeros((DEVICES, 1)), np.ones((DEVICES, 1)), np.ones((DEVICES, K))
        if model != "flat":
            profile = tdl.PROFILES[model]
            drawn, spread = complex_normal(7, DEVICES, len(profile.delays)), 200e-9
            self.delays = np.tile(np.array(profile.delays) * spread, (DEVICES, 1))
            self.taps = drawn * np.sqrt(profile.powers)
            self.selective = tdl.response(drawn, profile, GRID.frequencies_hz, delay_spread_s=spread)
        self.used = np.abs(self.selective) ** 2 >= 10 ** (-FADE_LIMIT_DB / 10)

    def modelled(self) -> np.ndarray:
        """Σᵢ β·vᵢ[j]·1{used}·Re(eᵢ·e^{−j2πfΔτᵢ}), f the subcarrier of coordinate j."""
        ramps = np.exp(-2j * np.pi * np.outer(self.offsets, GRID.frequencies_hz))
        subcarrier = self.order[np.arange(WIDTH) % K]
        factors = self.used * (self.errors[:, None] * ramps).real
        return (BETA * self.rows * factors[:, subcarrier]).sum(0)

    def received(self, *, early: int = 0) -> np.ndarray:
        """The same through time samples."""
        inverse = np.where(self.used, BETA / (self.gains[:, None] * self.selective), 0)
        sent = waveform.to_symbols(self.rows, order=self.order) * inverse[:, None, :]
        amplitudes = (self.gains * self.errors)[:, None] * self.taps
        delays = self.delays + self.offsets[:, None]
        samples = waveform.superposed(sent, GRID, amplitudes=amplitudes, delays_s=delays)
        read = waveform.from_symbols(waveform.demodulate(samples, GRID, early=early), order=self.order, width=WIDTH)
        return read.real

    def difference(self, *, early: int = 0) -> float:
        modelled = self.modelled()
        return float(np.linalg.norm(self.received(early=early) - modelled) / np.linalg.norm(modelled))


# The waveform by its definition


def by_definition(symbols: np.ndarray, grid: Grid, delay_s: float) -> np.ndarray:
    """x(t − τ) at every sample, each a sum of K exponentials of the symbol that is on the air at that time."""
    useful, whole = 1 / grid.spacing_hz, 1 / grid.spacing_hz + grid.prefix_s
    found = np.zeros(len(symbols) * grid.length, complex)
    for n in range(len(found)):
        t = n * grid.step_s - delay_s
        m = math.floor(t / whole + 1e-12)
        if 0 <= m < len(symbols):
            u = t - m * whole - grid.prefix_s
            assert u < useful
            found[n] = np.sum(symbols[m] * np.exp(2j * np.pi * grid.frequencies_hz * u)) / math.sqrt(grid.size)
    return found


@settings(deadline=None)  # the machine may be busy
@given(st.floats(-2.5, 2.5), st.integers(1, 9))
def test_the_samples_are_the_waveform_of_the_definition_at_any_delay(delay_in_symbols: float, subcarriers: int):
    """Early or late, by parts of a sample, beyond the prefix, and by more than the transmission lasts."""
    grid = Grid.of(subcarriers=subcarriers, spacing_hz=15e3)
    symbols, delay = complex_normal(0, 2, subcarriers), delay_in_symbols * grid.length * grid.step_s
    late = delay / grid.step_s
    if 0 < abs(late - round(late)) < 1e-6:  # which symbol is on the air at this very sample is a matter of rounding
        delay = round(late) * grid.step_s
    made = waveform.stream(symbols, grid, delay_s=delay)
    np.testing.assert_allclose(made, by_definition(symbols, grid, delay), atol=1e-9)


def test_the_useful_part_of_a_symbol_has_the_energy_of_its_subcarriers():
    symbols = complex_normal(0, 3, K)
    useful = waveform.stream(symbols, GRID).reshape(3, -1)[:, GRID.prefix :]
    assert np.sum(np.abs(useful) ** 2, axis=1) == pytest.approx(np.sum(np.abs(symbols) ** 2, axis=1), rel=1e-12)


def test_the_prefix_adds_at_most_half_the_energy_of_real_symbols():
    """x(T − t) = x(t)* for real X, so the energy in the last T_c of a symbol is also in the first, and both are at most
    the whole. A pulse at t = 0 comes close: half of it is in the prefix."""
    for symbols in (draws(0).normal(size=(3, K)).astype(complex), np.ones((1, K), complex)):
        samples = waveform.stream(symbols, GRID).reshape(len(symbols), -1)
        prefix = np.sum(np.abs(samples[:, : GRID.prefix]) ** 2, axis=1)
        assert np.all(prefix <= np.sum(np.abs(symbols) ** 2, axis=1) / 2)
    assert prefix[0] > 0.3 * K


# The model and the waveform


IMPAIRED = {"gain_db": 1.0, "phase_deg": 40.0, "timing_s": GRID.prefix_s / 8}


@pytest.mark.parametrize("model", ["flat", "tdl-a", "tdl-c"])
@pytest.mark.parametrize("impairments", [{}, *({key: value} for key, value in IMPAIRED.items()), IMPAIRED])
def test_the_model_is_the_waveform_while_all_arrives_within_the_prefix(model: str, impairments: dict[str, float]):
    assert Round(model, **impairments).difference(early=math.ceil(GRID.prefix / 8)) <= 1e-9


def test_what_rounds_add_up_in_a_flat_channel_is_what_the_waveform_delivers():
    """The function that schemes use, in single precision as they do, with errors of gain and phase."""
    flat = Round("flat", gain_db=1.0, phase_deg=40.0)
    signals = torch.from_numpy(BETA * flat.rows / np.abs(flat.gains)[:, None]).float()
    arriving = superpose(signals, flat.gains * flat.errors, correction=phase_correction(flat.gains))
    received = flat.received()
    assert np.linalg.norm(arriving.numpy() - received) <= 1e-6 * np.linalg.norm(received)


def test_in_a_selective_channel_some_subcarriers_are_used_and_others_are_not():
    """So that the agreement above is about both."""
    for model in ("tdl-a", "tdl-c"):
        assert 0.5 < Round(model).used.mean() < 1


def test_an_early_device_needs_a_window_that_begins_earlier():
    """A window that begins τ before the useful part lies within all symbols if offsets of ±τ and echoes of up to τ_L
    satisfy 2τ + τ_L ≤ T_c. Offsets within the prefix, τ + τ_L ≤ T_c, are not enough, wherever the window begins."""
    longest = tdl.PROFILES["tdl-c"].longest * 200e-9
    early = math.floor((GRID.prefix_s - longest) / 2 / GRID.step_s)
    assert Round("tdl-c", timing_s=early * GRID.step_s).difference(early=early) <= 1e-9
    assert Round("tdl-c", timing_s=early * GRID.step_s).difference(early=0) > 1e-3
    within = GRID.prefix_s - longest
    assert all(Round("tdl-c", timing_s=within).difference(early=each) > 1e-3 for each in range(GRID.prefix + 1))


@pytest.mark.parametrize("beyond", [1 / 64, 1 / 8, 1 / 2])
def test_an_offset_beyond_the_prefix_costs_twice_its_share_of_the_symbol(beyond: float):
    """A window that misses a share q of its symbol and has that of the neighbour's instead: of white symbols on all N
    bins the error power is q² + q(1 − q) of what is lost, and q of what comes in, 2q in all."""
    grid = Grid(256, 15e3, 256, 18)
    symbols = complex_normal(0, 400, 256)
    delay = grid.prefix_s + beyond / grid.spacing_hz
    ramp = np.exp(-2j * np.pi * grid.frequencies_hz * delay)
    read = waveform.demodulate(waveform.stream(symbols, grid, delay_s=delay), grid)[1:]
    errors = np.mean(np.abs(read - symbols[1:] * ramp) ** 2, axis=1)
    assert np.mean(errors) == pytest.approx(2 * beyond, abs=5 * np.std(errors) / math.sqrt(len(errors)))


def test_the_noise_of_a_coordinate_has_the_variance_of_a_sample_in_I_and_in_Q():
    symbols, std = 5000, 0.7
    noise = waveform.sample_noise(draws(8), samples=symbols * GRID.length, std=std)
    read = waveform.demodulate(noise, GRID, early=7)
    for part in (read.real, read.imag):
        assert np.mean(part**2) == pytest.approx(std**2, rel=5 * math.sqrt(2 / part.size))
    assert np.mean(read.real * read.imag) == pytest.approx(0, abs=5 * std**2 / math.sqrt(read.size))
    neighbours = np.mean(read.real[:, 1:] * read.real[:, :-1])
    assert neighbours == pytest.approx(0, abs=5 * std**2 / math.sqrt(read.size))


def test_rows_come_back_from_their_symbols():
    rows = draws(9).normal(size=(2, WIDTH))
    order = draws(10).permutation(K)
    for row, symbols in zip(rows, waveform.to_symbols(rows, order=order), strict=True):
        assert np.array_equal(waveform.from_symbols(symbols, order=order, width=WIDTH), row)


def test_a_window_outside_of_the_prefix_is_refused():
    with pytest.raises(ValueError, match="must be within the prefix of 18 samples"):
        waveform.demodulate(np.zeros(GRID.length, complex), GRID, early=GRID.prefix + 1)


def test_the_examples_in_docstrings_give_the_stated_results():
    assert doctest.testmod(waveform).attempted > 0
    assert doctest.testmod(waveform).failed == 0
