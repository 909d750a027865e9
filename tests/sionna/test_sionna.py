"""The echoes and the waveform beside those of Sionna, an independent link-level simulator."""

import math

import numpy as np
import pytest
import torch
from sionna.phy import config
from sionna.phy.channel import ApplyTimeChannel, cir_to_ofdm_channel, cir_to_time_channel, subcarrier_frequencies
from sionna.phy.channel.tr38901 import TDL
from sionna.phy.ofdm import OFDMDemodulator, OFDMModulator

from pfels.seeding import Purpose, generator
from pfels.uplink import tdl, waveform

SPREAD_S, SPACING_HZ = 300e-9, 15e3
MODELS = {"tdl-a": "A", "tdl-c": "C"}
GRID = waveform.Grid(subcarriers=96, spacing_hz=SPACING_HZ, size=96, prefix=12)  # Sionna uses all bins of its FFT
SYMBOLS = 5


def complex_normal(stream: int, *shape: int) -> np.ndarray:
    draw = generator(23, Purpose.DEVICE_NOISE, round=stream)
    return draw.normal(size=(*shape, 2)).view(np.complex128)[..., 0] / math.sqrt(2)


def theirs(model: str) -> TDL:
    """Without movement, in double precision."""
    return TDL(MODELS[model], SPREAD_S, 3.5e9, precision="double", device="cpu")


@pytest.mark.parametrize("model", MODELS)
def test_power_delay_profiles_are_the_same(model: str):
    ours, other = tdl.PROFILES[model], theirs(model)
    np.testing.assert_allclose(np.array(ours.delays) * SPREAD_S, other.delays.numpy(), rtol=1e-12)
    np.testing.assert_allclose(ours.powers, other.mean_powers.numpy(), rtol=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_the_frequency_response_of_given_paths_is_the_same(model: str):
    """Their paths in our formula: G(f) = Σₗ √pₗ·aₗ·e^{−j2πfτₗ}, where √pₗ·aₗ are the paths' amplitudes."""
    amplitudes, delays = theirs(model)(50, 1, 1.0)
    frequencies = subcarrier_frequencies(301, SPACING_HZ, precision="double")
    expected = cir_to_ofdm_channel(frequencies, amplitudes, delays)[:, 0, 0, 0, 0, 0]
    profile = tdl.PROFILES[model]
    taps = amplitudes[:, 0, 0, 0, 0, :, 0].numpy() / np.sqrt(profile.powers)
    ours = tdl.subcarrier_frequencies(301, spacing_hz=SPACING_HZ)
    np.testing.assert_allclose(ours, frequencies.numpy())
    np.testing.assert_allclose(tdl.response(taps, profile, ours, delay_spread_s=SPREAD_S), expected.numpy(), atol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_mean_power_and_correlation_over_frequency_are_the_same_within_standard_errors(model: str):
    """E[G(f)·G(f + Δ)*] of both, over independent draws. Sionna's taps are sums of 20 sinusoids, ours are Gaussian: of
    second order both are exact, and of fourth order they differ by up to 1/20, which the measured errors contain."""
    draws, steps = 4000, np.array([0, 1, 5, 20, 60, 150])
    frequencies = tdl.subcarrier_frequencies(301, spacing_hz=SPACING_HZ)
    profile = tdl.PROFILES[model]
    ours = tdl.response(complex_normal(1, draws, len(profile.delays)), profile, frequencies, delay_spread_s=SPREAD_S)
    config.seed = 23
    amplitudes, delays = theirs(model)(draws, 1, 1.0)
    other = cir_to_ofdm_channel(torch.from_numpy(frequencies), amplitudes, delays)[:, 0, 0, 0, 0, 0].numpy()
    exact = np.exp(2j * np.pi * np.outer(steps * SPACING_HZ, np.array(profile.delays) * SPREAD_S)) @ profile.powers
    for step, value in zip(steps, exact, strict=True):
        for each in (ours, other):
            products = each[:, 0] * each[:, step].conj()
            error = np.std(products) / math.sqrt(draws)
            assert abs(np.mean(products) - value) < 5 * error


def test_modulator_and_demodulator_are_the_same():
    symbols = complex_normal(2, SYMBOLS, GRID.subcarriers)
    sent = OFDMModulator(GRID.prefix, precision="double", device="cpu")(torch.from_numpy(symbols))
    np.testing.assert_allclose(waveform.stream(symbols, GRID), sent.numpy(), atol=1e-12)
    read = OFDMDemodulator(GRID.size, 0, GRID.prefix, precision="double", device="cpu")(sent)
    np.testing.assert_allclose(waveform.demodulate(sent.numpy(), GRID), read.numpy(), atol=1e-12)


@pytest.mark.parametrize(
    "last", [GRID.prefix, 2 * GRID.prefix, GRID.size + 30], ids=["within", "beyond", "symbols late"]
)
def test_a_time_channel_makes_the_same_of_echoes_within_and_beyond_the_prefix(last: int):
    """Echoes at whole samples, which Sionna's sinc filter meets exactly: there, samples are filtered with the taps;
    here, the waveform is evaluated at the delayed times. Three devices, from bits to received symbols."""
    devices, places = 3, np.array([0, 1, 4, last])
    symbols = complex_normal(3, devices, SYMBOLS, GRID.subcarriers)
    amplitudes = complex_normal(4, devices, len(places))
    delays = np.tile(places * GRID.step_s, (devices, 1))

    samples = OFDMModulator(GRID.prefix, precision="double", device="cpu")(torch.from_numpy(symbols))
    length, filter_length = samples.shape[-1], last + 1
    paths = torch.from_numpy(amplitudes)[None, None, None, :, None, :, None]
    taps = cir_to_time_channel(1 / GRID.step_s, paths, torch.from_numpy(delays)[None, None], 0, last)
    taps = taps.expand(-1, -1, -1, -1, -1, length + filter_length - 1, -1)
    channel = ApplyTimeChannel(length, filter_length, precision="double", device="cpu")
    arriving = channel(samples[None, :, None], taps)[0, 0, 0, :length]
    expected = OFDMDemodulator(GRID.size, 0, GRID.prefix, precision="double", device="cpu")(arriving)

    ours = waveform.superposed(symbols, GRID, amplitudes=amplitudes, delays_s=delays)
    np.testing.assert_allclose(ours, arriving.numpy(), atol=1e-10)
    np.testing.assert_allclose(waveform.demodulate(ours, GRID), expected.numpy(), atol=1e-10)
