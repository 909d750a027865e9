"""Clipping of peaks: what it keeps, what it never does, and that it is what becomes of the samples."""

import doctest
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfels.seeding import Purpose, generator
from pfels.uplink import waveform
from pfels.uplink.clipping import norms
from pfels.uplink.effects import amplifier
from pfels.uplink.effects.amplifier import clip_peaks, peaks_db

LEVELS = st.floats(-10, 12)
SIZES = st.tuples(st.integers(1, 90), st.integers(1, 40))  # w, K


def rows_of(count: int, width: int, *, seed: int = 0, dtype: type = np.float64) -> torch.Tensor:
    return torch.from_numpy(generator(seed, Purpose.DEVICE_NOISE).standard_t(2, size=(count, width)).astype(dtype))


def by_samples(rows: torch.Tensor, *, clipping_db: float, subcarriers: int) -> tuple[np.ndarray, np.ndarray]:
    """All that arrives on the K subcarriers, complex, (r, w), and the energy of the clipped samples, by NumPy."""
    size = 1 << (4 * subcarriers - 1).bit_length()
    grid = waveform.Grid(subcarriers, 15e3, size, size // 8)
    width, order = rows.shape[1], np.arange(subcarriers)
    arriving, energies = [], []
    for symbols in waveform.to_symbols(rows.double().numpy(), order=order):
        mean = np.sum(np.abs(symbols) ** 2) / (size * max(width / subcarriers, 1))
        samples = waveform.stream(symbols, grid)
        clipped = waveform.clip_envelope(samples, limit=math.sqrt(mean) * 10 ** (clipping_db / 20))
        useful = clipped.reshape(-1, grid.length)[:, grid.prefix :]
        energies.append(np.sum(np.abs(useful) ** 2))
        arriving.append(waveform.from_symbols(waveform.demodulate(clipped, grid), order=order, width=width))
    return np.array(arriving), np.array(energies)


@settings(deadline=None)  # the machine may be busy
@given(SIZES, LEVELS)
def test_clipping_never_lengthens_a_row(size: tuple[int, int], level: float):
    width, subcarriers = size
    rows = rows_of(3, width)
    before, after = norms(rows), norms(clip_peaks(rows, clipping_db=level, subcarriers=subcarriers))
    assert torch.all(after <= before * (1 + 1e-12))


@pytest.mark.parametrize("level", [-3.0, 3.0, 6.0, 9.0])
def test_single_precision_lengthens_a_row_by_less_than_the_margin_that_clipping_to_the_bound_leaves(level: float):
    rows = rows_of(20, 5000, dtype=np.float32)
    clipped = clip_peaks(rows, clipping_db=level, subcarriers=600)
    assert torch.all(norms(clipped) <= norms(rows) * (1 + 5e-7))


@settings(deadline=None)  # the machine may be busy
@given(SIZES, LEVELS)
def test_clipped_rows_are_what_the_receiver_reads_of_clipped_samples_and_nothing_arrives_in_Q(size, level: float):
    width, subcarriers = size
    rows = rows_of(2, width)
    arriving, energies = by_samples(rows, clipping_db=level, subcarriers=subcarriers)
    clipped = clip_peaks(rows, clipping_db=level, subcarriers=subcarriers)
    scale = float(rows.abs().max())
    np.testing.assert_allclose(clipped.numpy(), arriving.real, atol=1e-12 * scale)
    np.testing.assert_allclose(arriving.imag, 0, atol=1e-12 * scale)
    assert np.all(energies <= norms(rows).square().numpy() * (1 + 1e-12))  # in all N bins together


@settings(deadline=None)  # the machine may be busy
@given(SIZES, LEVELS, st.sampled_from([1e-25, 1e-9, 0.3, -1.0, 7.0, 1e12]))
def test_a_row_c_times_as_long_is_clipped_to_c_times_as_much(size, level: float, c: float):
    width, subcarriers = size
    rows = rows_of(2, width)
    scaled = clip_peaks(c * rows, clipping_db=level, subcarriers=subcarriers)
    same = c * clip_peaks(rows, clipping_db=level, subcarriers=subcarriers)
    np.testing.assert_allclose(scaled.numpy(), same.numpy(), atol=1e-12 * abs(c) * float(rows.abs().max()))


def test_small_numbers_in_single_precision_are_clipped_too():
    """Their squares are zero in single precision."""
    rows = rows_of(2, 100, dtype=np.float32)
    clipped = clip_peaks(1e-25 * rows, clipping_db=3.0, subcarriers=50)
    expected = 1e-25 * clip_peaks(rows, clipping_db=3.0, subcarriers=50)
    assert not torch.equal(clipped, 1e-25 * rows)
    np.testing.assert_allclose(clipped.numpy(), expected.numpy(), atol=1e-31)


def test_rows_without_a_peak_stay_bit_identical_and_others_change():
    rows = rows_of(20, 500, dtype=np.float32)
    peaks = peaks_db(rows, subcarriers=100).amax(1)
    level = float(peaks.median())
    clipped = clip_peaks(rows, clipping_db=level, subcarriers=100)
    same = torch.tensor([torch.equal(one, other) for one, other in zip(rows, clipped, strict=True)])
    assert torch.equal(same[peaks != level], (peaks < level)[peaks != level])
    assert 5 < int(same.sum()) < 15


def test_a_row_is_clipped_as_if_it_were_alone_to_the_bit():
    rows = rows_of(7, 1000, dtype=np.float32)
    together = clip_peaks(rows, clipping_db=4.0, subcarriers=300)
    for i in range(len(rows)):
        assert torch.equal(clip_peaks(rows[i : i + 1], clipping_db=4.0, subcarriers=300)[0], together[i])


def test_zeros_stay_zeros_and_the_input_is_left_alone():
    rows = torch.cat([torch.zeros(1, 100), rows_of(1, 100, dtype=np.float32)])
    before = rows.clone()
    clipped = clip_peaks(rows, clipping_db=0.0, subcarriers=40)
    assert torch.equal(rows, before)
    assert torch.equal(clipped[0], torch.zeros(100))
    assert len(clip_peaks(rows[:0], clipping_db=0.0, subcarriers=40)) == 0


def test_lower_ceilings_distort_more():
    rows = rows_of(10, 900)
    lost = [
        float(norms(clip_peaks(rows, clipping_db=level, subcarriers=300) - rows).sum()) for level in (9, 6, 3, 0, -3)
    ]
    assert lost == sorted(lost)
    assert lost[0] > 0


def test_peaks_of_signals_that_can_be_worked_out():
    """One subcarrier has a constant envelope; K equal ones add up at t = 0, to K times the mean power."""
    assert float(peaks_db(torch.ones(1, 1), subcarriers=64)) == pytest.approx(0, abs=1e-5)
    assert float(peaks_db(torch.ones(1, 64), subcarriers=64)) == pytest.approx(10 * math.log10(64), abs=1e-5)
    assert float(peaks_db(torch.zeros(1, 64), subcarriers=64)) == -math.inf


def test_a_last_symbol_that_is_not_full_does_not_lower_the_ceiling():
    """The mean power is that of full symbols: twice as many coordinates of one size, and a few more, have the same."""
    signs = torch.from_numpy(generator(1, Purpose.DEVICE_NOISE).choice([-1.0, 1.0], size=(1, 130)))
    longer = peaks_db(signs, subcarriers=64)
    assert longer.shape == (1, 3)
    assert longer[0, :1].tolist() == pytest.approx(peaks_db(signs[:, :64], subcarriers=64)[0].tolist(), abs=1e-9)


def test_the_example_in_the_docstring_gives_the_stated_result():
    assert doctest.testmod(amplifier).attempted > 0
    assert doctest.testmod(amplifier).failed == 0
