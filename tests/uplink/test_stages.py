"""Theorems about the stages of a round."""

import doctest
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfels.errors import GuardError
from pfels.seeding import Purpose, generator
from pfels.uplink import channel, clipping, cohort, compression, power
from pfels.uplink.effects.gain import Gain
from pfels.uplink.frame import Frame

D, K = 50, 15


def rng(t: int = 0) -> np.random.Generator:
    return generator(11, Purpose.MASK, round=t)


def random_rows(r: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(generator(seed, Purpose.DEVICE_NOISE).normal(size=(r, d)).astype(np.float32))


# rand-k


def test_rand_k_is_unbiased_up_to_p():
    """E[AᵀAΔ] = (k/d)Δ (Lemma 1): each coordinate's mean over n draws lies within 5 standard errors."""
    delta, n = random_rows(1, D)[0], 4000
    total = torch.zeros(D)
    for t in range(n):
        omega = compression.rand_k(rng(t), dimension=D, kept=K)
        total += compression.lift(compression.project(delta, omega), omega, dimension=D)
    p = K / D
    assert torch.all((total / n - p * delta).abs() <= 5 * delta.abs() * math.sqrt(p * (1 - p) / n) + 1e-6)


def test_rand_k_keeps_a_share_p_of_the_squared_norm_on_average():
    delta, n = random_rows(1, D)[0], 4000
    kept = [
        float(compression.project(delta, compression.rand_k(rng(t), dimension=D, kept=K)).square().sum())
        for t in range(n)
    ]
    assert np.mean(kept) == pytest.approx(K / D * float(delta.square().sum()), abs=5 * np.std(kept) / math.sqrt(n))


def test_rand_k_draws_k_distinct_ascending_indices_and_all_pairs_are_equally_likely():
    d, k, n = 6, 3, 6000
    counts = np.zeros((d, d))
    for t in range(n):
        omega = compression.rand_k(rng(t), dimension=d, kept=k).numpy()
        assert len(omega) == k
        assert np.all(np.diff(omega) > 0)
        counts[np.ix_(omega, omega)] += 1
    pairs = counts[np.triu_indices(d, 1)] / n
    q = k * (k - 1) / (d * (d - 1))
    assert np.all(np.abs(pairs - q) < 5 * math.sqrt(q * (1 - q) / n))


def test_lift_is_the_transpose_of_project():
    """⟨Av, w⟩ = ⟨v, Aᵀw⟩."""
    omega = compression.rand_k(rng(), dimension=D, kept=K)
    v, w = random_rows(1, D)[0], random_rows(1, K, seed=1)[0]
    left, right = compression.project(v, omega) @ w, v @ compression.lift(w, omega, dimension=D)
    assert float(left) == pytest.approx(float(right), rel=1e-5)


def test_keeping_everything_is_the_identity():
    omega = compression.rand_k(rng(), dimension=D, kept=D)
    v = random_rows(1, D)[0]
    assert torch.equal(compression.lift(compression.project(v, omega), omega, dimension=D), v)


def test_without_indices_project_and_lift_return_their_input():
    rows = random_rows(3, D)
    assert compression.project(rows, None) is rows
    assert compression.lift(rows[0], None, dimension=D).data_ptr() == rows.data_ptr()


# clipping


@given(st.floats(1e-6, 1e37), st.floats(1e-6, 1e6), st.integers(1, 40))
def test_a_clipped_row_never_exceeds_its_bound(scale: float, bound: float, d: int):
    rows = random_rows(3, d) * scale
    assert bool((clipping.norms(clipping.clip(rows, bound=bound)) <= bound).all())


@pytest.mark.parametrize("d", [1, 7, 3000])
@pytest.mark.parametrize("scale", [1e-44, 1e-36, 1e-20, 1.0, 1e30])
@pytest.mark.parametrize("bound", [1e-44, 3e-42, 1e-40, 1e-38, 1e-35, 1e-30, 1e-24])
def test_no_bound_is_so_small_that_rounding_lengthens_a_clipped_row_beyond_it(bound: float, scale: float, d: int):
    """Numbers below 10⁻³⁸ are whole multiples of 2⁻¹⁴⁹ in single precision, so half a step may be a large part."""
    rows = random_rows(20, d) * scale
    assert float(clipping.norms(clipping.clip(rows, bound=bound)).max()) <= bound


def test_clipping_keeps_the_direction_and_leaves_short_rows_unchanged():
    rows = torch.stack([torch.full((4,), 10.0), torch.full((4,), 0.1), torch.zeros(4)])
    clipped = clipping.clip(rows.clone(), bound=2.0)
    assert torch.equal(clipped[1:], rows[1:])
    assert torch.allclose(clipped[0], torch.full((4,), 1.0), rtol=1e-5)


def test_rows_with_nan_or_infinity_are_silenced_and_the_others_kept():
    rows = torch.ones(3, 4)
    rows[0, 1], rows[2, 0] = math.nan, math.inf
    assert clipping.silence_non_finite(rows).tolist() == [False, True, False]
    assert rows.tolist() == [[0.0] * 4, [1.0] * 4, [0.0] * 4]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ([1.0] + [2.0**-12.6] * (2**17 - 1), "small squares are lost beside a large one"),
        (([1.0] + [2.0**-12.6] * (2**17 - 1)) * 3, "in each of several blocks"),
        ([1e-23] * 1000, "all squares are too small for single precision"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_update_that_only_single_precision_puts_within_its_bound_is_not_sent(row: list[float], why: str):
    rows = torch.tensor([[0.0] * len(row), row])
    exact, rough = float(clipping.norms(rows).max()), float(clipping._rough_norms(rows).max())
    assert rough < exact * (1 - 1e-12), why
    bound = max(rough, exact * (1 - 1e-12))
    with pytest.raises(GuardError, match="sensitivity"):
        clipping.check_sensitivity(rows, bound=bound)
    assert clipping.check_sensitivity(rows, bound=exact) is rows


def test_the_rough_norm_may_be_as_wrong_as_a_block_of_squares_can_make_it(monkeypatch: pytest.MonkeyPatch):
    """2¹⁷ additions in single precision, each off by a relative 2⁻²⁴ at most, in whatever order."""
    rows = random_rows(3, D)
    exact = float(clipping.norms(rows).max())
    monkeypatch.setattr(clipping, "_rough_norms", lambda rows: clipping.norms(rows) * (1 - 2**17 * 2.0**-24))
    with pytest.raises(GuardError, match="sensitivity"):
        clipping.check_sensitivity(rows, bound=exact * (1 - 1e-9))


# cohort


def test_a_fixed_cohort_has_exactly_its_size_and_every_device_is_drawn_equally_often():
    n, size, times = 40, 10, 4000
    counts = np.zeros(n)
    for t in range(times):
        chosen = cohort.sample(rng(t), devices=n, size=size, sampling="without-replacement")
        assert len(set(chosen.tolist())) == size
        counts[chosen] += 1
    q = size / n
    assert np.all(np.abs(counts / times - q) < 5 * math.sqrt(q * (1 - q) / times))


def test_poisson_sampling_draws_devices_independently():
    """Means q, and no correlation between two devices: as with one Bernoulli draw per device."""
    n, size, times = 20, 6, 6000
    drawn = np.zeros((times, n))
    for t in range(times):
        drawn[t, cohort.sample(rng(t), devices=n, size=size, sampling="poisson")] = 1
    q = size / n
    assert np.all(np.abs(drawn.mean(0) - q) < 5 * math.sqrt(q * (1 - q) / times))
    correlations = np.corrcoef(drawn.T)[np.triu_indices(n, 1)]
    assert np.all(np.abs(correlations) < 5 / math.sqrt(times))
    assert drawn.sum(1).var() == pytest.approx(n * q * (1 - q), rel=5 * math.sqrt(2 / times))


# channel


def test_superposed_noise_has_the_channel_variance():
    width, std = 200_000, 1.7
    noise = channel.receiver_noise(rng(), width=width, std=std)
    assert float(noise.var()) == pytest.approx(std**2, rel=5 * math.sqrt(2 / width))
    assert abs(float(noise.mean())) < 5 * std / math.sqrt(width)


def test_gains_are_exponential_and_clipped():
    n, mean = 100_000, 0.02
    gains = Gain(gain_mean=mean, gain_min=0.0001, gain_max=0.1).draw_gains(0, 0, np.arange(n))
    size = np.abs(gains)
    assert size.min() == pytest.approx(0.0001)
    assert size.max() == pytest.approx(0.1)
    for level in (0.005, 0.02, 0.05):
        expected = math.exp(-level / mean)
        assert np.mean(size > level) == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / n))
    assert abs(np.exp(1j * np.angle(gains)).mean()) < 5 / math.sqrt(n)


@pytest.mark.parametrize(("scale", "middle"), [("linear", (10**0.2 + 10**1.5) / 2), ("db", 10**0.85)])
def test_powers_follow_the_snr_law_and_scale_with_dimension_and_noise(scale: str, middle: float):
    n = 50_000
    law = {"seed": 0, "devices": np.arange(n), "low_db": 2.0, "high_db": 15.0, "scale": scale}
    snr = channel.draw_powers(dimension=1, noise_std=1.0, **law)
    assert snr.min() >= 10**0.2
    assert snr.max() <= 10**1.5
    assert np.median(snr) == pytest.approx(middle, rel=0.03)
    assert np.allclose(channel.draw_powers(dimension=7, noise_std=3.0, **law), snr * 7 * 9)


def test_phase_correction_leaves_the_magnitude():
    """Σ hᵢe^{-jφᵢ}xᵢ = Σ |hᵢ|xᵢ (eq. (7))."""
    gains = Gain(gain_mean=0.1, gain_min=0.01, gain_max=1.0).draw_gains(0, 1, np.arange(5))
    signals = random_rows(5, D)
    got = channel.superpose(signals, gains, correction=channel.phase_correction(gains))
    assert torch.allclose(got, torch.from_numpy(np.abs(gains)).float() @ signals, atol=1e-6)


def test_without_phase_correction_the_signals_do_not_align():
    gains = Gain(gain_mean=0.1, gain_min=0.01, gain_max=1.0).draw_gains(0, 1, np.arange(5))
    signals = random_rows(5, D)
    got = channel.superpose(signals, gains, correction=np.ones(5, dtype=complex))
    assert not torch.allclose(got, torch.from_numpy(np.abs(gains)).float() @ signals, atol=1e-3)


def test_airtime_counts_whole_slots():
    frame = Frame.paper(subcarriers=3300, spacing_hz=15e3, slot_s=0.01)
    assert [frame.slots(n) for n in (1, 3300, 3301, 9_750_922)] == [1, 1, 2, 2955]


# power


def draw_link(r: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    gains = Gain(gain_mean=0.02, gain_min=0.0001, gain_max=0.1).draw_gains(seed, 0, np.arange(r))
    return gains, generator(seed, Purpose.POWER).uniform(1, 100, r)


@settings(max_examples=50)
@given(st.integers(1, 40), st.integers(0, 100), st.floats(0.01, 1.0), st.floats(1e-3, 1e3))
def test_beta_is_feasible_and_any_larger_one_is_not(r: int, seed: int, share: float, privacy_limit: float):
    """Optimality of Theorem 5: P2's objective falls with β, so its solution is the largest feasible β."""
    gains, powers = draw_link(r, seed)
    beta, limit = power.align(gains, powers, bound=0.25, share=share, privacy_limit=privacy_limit)
    cost = power.expected_energy(gains, beta=beta, bound=0.25, share=share)
    assert beta <= privacy_limit
    assert np.all(cost <= powers * (1 + 1e-9))
    if limit == "power":
        assert np.any(power.expected_energy(gains, beta=beta * 1.0001, bound=0.25, share=share) > powers)
    else:
        assert beta == privacy_limit


def test_no_device_exceeds_its_power_limit():
    gains, powers = draw_link(10, 3)
    beta, _ = power.align(gains, powers, bound=1.0, share=1.0, privacy_limit=math.inf)
    rows = clipping.clip(random_rows(10, D) * 100, bound=1.0)
    signals = power.transmit(rows, gains, powers, beta=beta, bound=1.0, share=1.0)
    assert np.all(power.energy(signals) <= powers * (1 + 1e-6))
    with pytest.raises(GuardError, match="power limit"):
        power.transmit(rows, gains, powers, beta=beta * 1.01, bound=1.0, share=1.0)


def test_an_update_above_its_sensitivity_bound_is_never_transmitted():
    gains, powers = draw_link(2, 3)
    for bad in (torch.full((2, D), 1.0), torch.full((2, D), math.nan)):
        with pytest.raises(GuardError, match="sensitivity"):
            power.transmit(bad, gains, powers, beta=1e-9, bound=1.0, share=1.0)


@pytest.mark.parametrize("factor", [1 + 1e-4, 2.0, math.inf, math.nan])
def test_a_signal_is_as_long_as_its_norm_bound_allows_and_no_longer(factor: float):
    """A part in a million for the rounding of single precision, and no more; what is not a number is refused."""
    gains, _ = draw_link(3, 3)
    energies = (0.5 * 0.25 / np.abs(gains)) ** 2
    power.check_signals(energies * (1 + 1e-6), gains, beta=0.5, bound=0.25)
    energies[1] *= factor
    with pytest.raises(GuardError, match="norm bound: not transmitted"):
        power.check_signals(energies, gains, beta=0.5, bound=0.25)


def test_with_sparsification_the_power_limit_holds_in_expectation():
    """E‖x‖² ≤ P over the index sets, with the weakest device just at its limit (eq. (8), Lemma 5)."""
    gains, powers = draw_link(6, 5)
    p, n = K / D, 3000
    beta, _ = power.align(gains, powers, bound=1.0, share=p, privacy_limit=math.inf)
    rows = clipping.clip(random_rows(6, D) * 100, bound=1.0)
    spent = np.array([
        power.energy(power.transmit(
            compression.project(rows, compression.rand_k(rng(t), dimension=D, kept=K)),
            gains, powers, beta=beta, bound=1.0, share=p,
        ))
        for t in range(n)
    ])  # fmt: skip
    error = 5 * spent.std(0) / math.sqrt(n)
    assert np.all(spent.mean(0) <= powers + error)
    assert np.max(spent.mean(0) / powers) == pytest.approx(1.0, abs=np.max(error / powers))


@given(st.lists(st.floats(0, 1e9), min_size=1), st.floats(1e-3, 1e3), st.floats(1e-3, 1.0))
def test_the_power_limit_on_beta_is_bit_identical_for_scalars_and_arrays(amplitudes, bound: float, share: float):
    together = power.beta_limit(np.array(amplitudes), bound=bound, share=share)
    assert together.tolist() == [power.beta_limit(a, bound=bound, share=share) for a in amplitudes]


@pytest.mark.parametrize("module", [compression, power])
def test_the_examples_in_docstrings_give_the_stated_results(module):
    assert doctest.testmod(module).attempted > 0
    assert doctest.testmod(module).failed == 0


def test_without_devices_and_privacy_limit_beta_is_infinite():
    beta, _ = power.align(np.empty(0, complex), np.empty(0), bound=1.0, share=1.0, privacy_limit=math.inf)
    assert math.isinf(beta)
