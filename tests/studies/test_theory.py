"""The convergence bounds: what their terms mean, which of them a real training keeps, and the k they prefer."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pfels.config.load import load_config
from pfels.errors import InputError
from pfels.experiment.link import Link, link_of
from pfels.schemes.memory import Memory
from pfels.schemes.round import play as play_round
from pfels.studies.theory import (
    BOUNDS,
    LossAssumptions,
    TrainingCourse,
    best_kept,
    corrected,
    exact,
    largest_smoothness,
    learning_rate_limit,
    printed,
)
from pfels.training.updates import LocalUpdates
from pfels.uplink.power import align
from tests.conftest import WholeCohort

LOSSES = LossAssumptions(smoothness=0.1, gradient_variance=1.0, initial_gap=2.3)


def course(**changes: Any) -> TrainingCourse:
    reach = np.random.default_rng(0).exponential(20.0, size=50)
    base = TrainingCourse(
        learning_rate=0.05, local_steps=5, cohort=32, dimension=1000, noise_std=1.0, bound=0.25, privacy_limit=40.0,
        weakest_amplitudes=reach,
    )  # fmt: skip
    return replace(base, **changes)


@dataclass(frozen=True)
class Descent(WholeCohort):
    """Local training on f(θ) = L‖θ‖²/2 for every device: one step of size ητ along the exact gradient."""

    smoothness: float
    step: float

    def cohort(self, theta: torch.Tensor, devices: list[int], orders: object) -> Iterator[Any]:
        rows = (-self.step * self.smoothness * theta).repeat(len(devices), 1)
        yield LocalUpdates(slice(0, len(devices)), rows, np.zeros(len(devices)))


def quadratic(*, ratio: float, smoothness: float, dimension: int = 40, cohort: int = 32) -> tuple[Link, Any]:
    """The simulator itself, with the network's training replaced by descent on a parabola."""
    config = load_config(
        "demo",
        {"data.devices": 200, "cohort.size": cohort, "compression.ratio": ratio, "privacy.epsilon": 1e6,
         "channel.gain_min": 0.05},
    )  # fmt: skip
    step = config.training.learning_rate * config.training.local_epochs
    return link_of(config, dimension=dimension), Descent(smoothness, step)


def lifted_noise(link: Link, training: Any, rounds: int) -> tuple[float, float]:
    """The mean of β²‖Δ̂‖² over rounds in which every device sends zero, and its standard error."""
    squares, theta = [], torch.zeros(link.setting.dimension)
    for t in range(rounds):
        plan = link.scheme.prepare(link.draws, t)
        estimate = play_round(link.scheme, link.draws, plan, theta, training, memory=Memory()).estimate
        squares.append(plan.beta**2 * float(estimate.double().square().sum()))
    return float(np.mean(squares)), float(np.std(squares)) / math.sqrt(rounds)


def test_the_privacy_error_is_the_variance_of_the_lifted_noise_and_so_carries_r_squared():
    link, training = quadratic(ratio=0.5, smoothness=1.0)
    measured, error = lifted_noise(link, training, 400)
    setting = link.setting
    # One round with β = 1: 8/(ητ)·(L/2)·E‖Aᵀz/(rβ)‖² is the error that the descent lemma leaves.
    one = course(cohort=32, dimension=setting.dimension, privacy_limit=1.0, weakest_amplitudes=np.array([1e9]))
    noise = 4 * LOSSES.smoothness / (0.05 * 5)
    assert corrected(LOSSES, one, kept=setting.kept).privacy == pytest.approx(noise * measured, abs=5 * noise * error)
    assert printed(LOSSES, one, kept=setting.kept).privacy * 32 == pytest.approx(
        corrected(LOSSES, one, kept=setting.kept).privacy
    )


def descended(ratio: float, *, smoothness: float, rounds: int) -> tuple[float, TrainingCourse, int]:
    """The mean of ‖∇f‖² over a training on the parabola that starts at its minimum, the training, and k."""
    link, training = quadratic(ratio=ratio, smoothness=smoothness)
    setting = link.setting
    theta, gradients, reach = torch.zeros(setting.dimension), [], []
    for t in range(rounds):
        gradients.append(smoothness**2 * float(theta.double().square().sum()))
        planned = link.scheme.prepare(link.draws, t)
        air = planned.require_air()
        reach.append(float(np.min(np.abs(air.gains) * np.sqrt(air.powers))))
        theta = theta + play_round(link.scheme, link.draws, planned, theta, training, memory=Memory()).estimate
    plan = course(cohort=32, dimension=setting.dimension, privacy_limit=math.inf, weakest_amplitudes=np.array(reach))
    return float(np.mean(gradients)), plan, setting.kept


def test_a_parabola_keeps_the_corrected_bound_and_breaks_the_printed_one():
    losses = LossAssumptions(smoothness=0.15, gradient_variance=0.0, initial_gap=0.0)
    measured, plan, kept = descended(1.0, smoothness=0.15, rounds=1500)
    assert plan.learning_rate <= learning_rate_limit(losses, local_steps=5, lost=0.0)
    assert measured <= corrected(losses, plan, kept=kept).total
    assert measured > printed(losses, plan, kept=kept).total


def test_a_parabola_keeps_the_exact_bound_at_every_p_within_a_factor_of_five():
    """In its stationary state ‖∇f‖² is Ldσ₀²/(2ητ(rβ)²)·(1 + ητL/2 + …), a fourth of the bound, whatever p is."""
    losses = LossAssumptions(smoothness=0.15, gradient_variance=0.0, initial_gap=0.0)
    for ratio in (0.3, 1.0):
        measured, plan, kept = descended(ratio, smoothness=0.15, rounds=1500)
        bound = exact(losses, plan, kept=kept)
        assert bound.proven
        assert bound.total / 5 < measured <= bound.total


@pytest.mark.parametrize(("kept", "cohort"), [(5, 2), (20, 2), (20, 10)])
def test_noisy_steps_on_different_parabolas_keep_the_exact_bound(kept: int, cohort: int):
    """fᵢ = L‖θ − bᵢ‖²/2 with Σbᵢ = 0, so γ² = 1 and κ² = L²·mean ‖bᵢ‖²; τ = 5 steps with noise of variance ζ²."""
    d, devices, tau, eta, L, rounds, beta = 20, 10, 5, 0.05, 0.3, 4000, 3.0
    rng = np.random.default_rng(kept + cohort)
    b = rng.standard_normal((devices, d))
    b -= b.mean(0)
    theta, zeta2, gradients = np.ones(d), 2.0, []
    losses = LossAssumptions(
        smoothness=L, gradient_variance=zeta2, kappa_squared=L**2 * float((b**2).sum(1).mean()),
        initial_gap=L * float(theta @ theta) / 2,
    )  # fmt: skip
    for _ in range(rounds):
        gradients.append(L**2 * float(theta @ theta))
        who = rng.choice(devices, cohort, replace=False)
        local = np.tile(theta, (cohort, 1))
        for _ in range(tau):
            local -= eta * (L * (local - b[who]) + math.sqrt(zeta2 / d) * rng.standard_normal((cohort, d)))
        sent = rng.choice(d, kept, replace=False)
        theta[sent] += ((local - theta).mean(0) + rng.standard_normal(d) / (cohort * beta))[sent]
    plan = course(
        learning_rate=eta, local_steps=tau, cohort=cohort, dimension=d, privacy_limit=beta,
        weakest_amplitudes=np.full(rounds, 1e9),
    )  # fmt: skip
    bound = exact(losses, plan, kept=kept)
    assert bound.proven
    assert bound.total / 20 < float(np.mean(gradients)) <= bound.total


def test_the_exact_bound_is_what_its_proof_adds_up_to():
    """By hand, at L = 0.2, ζ̄² = 2, κ² = 3, f(θ⁰) − f_inf = 4, η = 0.05, τ = 5, k = d/2, r = 4, T = 2, β = 10."""
    losses = LossAssumptions(
        smoothness=0.2, gradient_variance=2.0, gamma_squared=1.5, kappa_squared=3.0, initial_gap=4.0
    )
    short = course(cohort=4, dimension=8, weakest_amplitudes=np.full(2, 1e9), privacy_limit=10.0, noise_std=3.0)
    found, a = exact(losses, short, kept=4), 0.05
    of_gradients = 2 * a**2 / 5 + 2 * a / (5 * 4) + 8 * a**3 / (5 * 4)
    of_devices = 8 * a**2 / 3 + 4 * a / 4 * (1 + 8 * a**2 / 3)
    expected = 4 * 4 / (2 * 0.5 * 0.25) + 2 * (of_gradients * 2 + of_devices * 3) + 2 * 0.2 * 8 * 9 / 100 / (0.25 * 16)
    assert found.total == pytest.approx(expected)
    assert found.compression == pytest.approx(4 * 4 / (2 * 0.25))
    assert found.proven
    assert not exact(replace(losses, gamma_squared=1.7), short, kept=4).proven


@given(
    ratio=st.floats(0.01, 1.0), limit=st.floats(0.1, 1e4), rate=st.floats(1e-3, 0.1), variance=st.floats(0.0, 10.0),
    kappa=st.floats(0.0, 10.0), seed=st.integers(0, 99),
)  # fmt: skip
def test_at_matched_progress_no_error_of_the_exact_bound_is_smaller_at_a_smaller_p(
    ratio: float, limit: float, rate: float, variance: float, kappa: float, seed: int
):
    """η/p in place of η; the norm bound grows with η, and the privacy limit on β shrinks with it."""
    losses = LossAssumptions(smoothness=0.1, gradient_variance=variance, kappa_squared=kappa, initial_gap=2.0)
    reach = np.random.default_rng(seed).exponential(20.0, size=20)
    kept = max(round(1000 * ratio), 1)
    p, at = kept / 1000, {"weakest_amplitudes": reach}
    whole = course(learning_rate=rate, bound=5 * rate, privacy_limit=limit / rate, **at)
    part = course(learning_rate=rate / p, bound=5 * rate / p, privacy_limit=limit * p / rate, **at)
    one, other = exact(losses, whole, kept=1000), exact(losses, part, kept=kept)
    assert other.total >= one.total * (1 - 1e-12)
    assert other.privacy >= one.privacy * (1 - 1e-12)
    powered = [
        exact(losses, replace(each, privacy_limit=math.inf), kept=k) for each, k in ((whole, 1000), (part, kept))
    ]
    assert powered[0].privacy == pytest.approx(powered[1].privacy), "where power limits, p costs no noise"


def test_the_exact_bound_prefers_everything_where_privacy_limits_and_a_share_where_power_does():
    assert best_kept(exact, LOSSES, course(privacy_limit=1e-3)) == 1000
    # The compression error is A(1/p − 1) and the privacy error Bp, so p = √(A/B); a reach that makes it 0.4 is found.
    weak = course(dimension=100_000, privacy_limit=math.inf, weakest_amplitudes=np.array([1.0]))
    a, b = exact(LOSSES, weak, kept=50_000).compression, exact(LOSSES, weak, kept=100_000).privacy
    plan = replace(weak, weakest_amplitudes=np.array([0.4 * math.sqrt(b / a)]))
    assert best_kept(exact, LOSSES, plan) == pytest.approx(40_000, abs=1)


def test_sending_everything_leaves_no_compression_error():
    for bound in BOUNDS.values():
        assert bound(LOSSES, course(), kept=1000).compression == 0
        assert bound(LOSSES, course(), kept=999).compression > 0


def test_without_noise_there_is_no_privacy_error():
    for bound in BOUNDS.values():
        assert bound(LOSSES, course(noise_std=0.0), kept=300).privacy == 0


def test_the_bounds_agree_on_a_cohort_of_one():
    plan = course(cohort=1)
    assert printed(LOSSES, plan, kept=300) == corrected(LOSSES, plan, kept=300)


@pytest.mark.parametrize(("kept", "proven"), [(1000, True), (667, True), (666, False), (300, False)])
def test_the_proof_reaches_down_to_two_thirds(kept: int, proven: bool):
    assert corrected(LOSSES, course(), kept=kept).proven is proven


def test_the_levels_are_those_of_power_control():
    plan, rng = course(), np.random.default_rng(1)
    gains, powers = rng.exponential(0.02, 8).astype(complex), rng.uniform(1e5, 1e6, 8)
    one = replace(plan, weakest_amplitudes=np.array([np.min(np.abs(gains) * np.sqrt(powers))]))
    for kept in (1, 300, 1000):
        level = align(gains, powers, bound=0.25, share=kept / 1000, privacy_limit=40.0)
        assert one.betas(kept)[0] == pytest.approx(level.beta, rel=1e-15)


@given(
    smoothness=st.floats(1e-4, 10.0),
    variance=st.floats(1e-3, 100.0),
    limit=st.floats(1.0, 1e3),
    dimension=st.integers(1, 300),
    seed=st.integers(0, 99),
)
def test_the_best_k_is_no_worse_than_any_other(
    smoothness: float, variance: float, limit: float, dimension: int, seed: int
):
    losses = LossAssumptions(smoothness=smoothness, gradient_variance=variance, initial_gap=1.0)
    reach = np.random.default_rng(seed).exponential(20.0, size=20)
    plan = course(dimension=dimension, privacy_limit=limit, weakest_amplitudes=reach)
    for bound in BOUNDS.values():
        totals = [bound(losses, plan, kept=k).total for k in range(1, dimension + 1)]
        assert totals[best_kept(bound, losses, plan) - 1] <= min(totals) * (1 + 1e-12)


def test_where_power_alone_limits_the_best_share_is_where_both_errors_change_alike():
    # The compression error is A(1 − p) and the privacy error Bp², so p = A/(2B); a reach that makes it 0.4 is found.
    weak = course(dimension=100_000, privacy_limit=math.inf, weakest_amplitudes=np.array([1.0]))
    for bound in (printed, corrected):
        a, b = 1000 * (bound(LOSSES, weak, kept=99_900).compression), bound(LOSSES, weak, kept=100_000).privacy
        plan = replace(weak, weakest_amplitudes=np.array([math.sqrt(0.8 * b / a)]))
        assert best_kept(bound, LOSSES, plan) == pytest.approx(40_000, abs=1)


def test_the_largest_smoothness_is_where_the_learning_rate_condition_is_met_exactly():
    largest = largest_smoothness(learning_rate=0.05, local_steps=5, gamma_squared=1.5)
    losses = LossAssumptions(smoothness=largest, gradient_variance=1.0, gamma_squared=1.5, initial_gap=1.0)
    assert learning_rate_limit(losses, local_steps=5, lost=1.0) == pytest.approx(0.05)
    assert learning_rate_limit(losses, local_steps=5, lost=0.0) > 0.05


@pytest.mark.parametrize(
    "wrong", [{"smoothness": 0.0}, {"gradient_variance": -1.0}, {"gamma_squared": 0.5}, {"initial_gap": math.inf}]
)
def test_losses_that_cannot_be_are_refused_by_name(wrong: dict[str, float]):
    with pytest.raises(InputError, match=next(iter(wrong))):
        replace(LOSSES, **wrong)


def test_the_three_errors_are_those_of_equation_23():
    """By hand, at L = 0.5, ζ̄² = 2, κ² = 3, f(θ⁰) − f_inf = 4, ητ = 0.25, k = d/2, r = 4, T = 2, β = 10."""
    losses = LossAssumptions(
        smoothness=0.5, gradient_variance=2.0, gamma_squared=1.5, kappa_squared=3.0, initial_gap=4.0
    )
    short = course(cohort=4, dimension=8, weakest_amplitudes=np.full(2, 1e9), privacy_limit=10.0, noise_std=3.0)
    optimisation = 8 * 4 / (2 * 0.25) + 8 * 0.25 * 0.5 * (3 * 3 + 2 * 2)
    compression = 8 * (0.25 * 0.5 * (2 * 3 + 2) + 2 / (2 / 3)) * 0.5
    privacy = 4 * 0.5 * 4 * 9 / 100 / 0.25
    for bound, share, power in ((printed, 1 / 4, 3), (corrected, 1.0, 2)):
        found = bound(losses, short, kept=4)
        expected = (optimisation, compression * share, privacy / 4**power)
        assert (found.optimisation, found.compression, found.privacy) == pytest.approx(expected)
    assert learning_rate_limit(losses, local_steps=5, lost=0.5) == pytest.approx(1 / (24 * 1.5 * 1.5 * 5 * 0.5))
