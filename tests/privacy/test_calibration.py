"""Theorems about the least noise that meets a budget."""

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfels.errors import InputError
from pfels.privacy.accountant import outsider_loss, server_loss
from pfels.privacy.calibration import LEAST, calibrate
from pfels.privacy.events import Adversary, Sampling
from pfels.privacy.gaussian import mu_squared

PAPER = {"devices": 1000, "cohort": 32}


@given(st.floats(0.01, 200), st.floats(1e-12, 0.3), st.integers(1, 5000), st.integers(0, 4999))
@settings(deadline=None, max_examples=40)
def test_calibration_inverts_accounting_against_the_server(epsilon: float, delta: float, rounds: int, fewer: int):
    times = max(1, rounds - fewer)
    found = calibrate(
        adversary=Adversary.SERVER, epsilon=epsilon, delta=delta, rounds=rounds, **PAPER,
        sampling=Sampling.POISSON, participations=times,
    )  # fmt: skip
    priced = server_loss(mu_squared=mu_squared(found.noise_multiplier, times=times), participations=times, delta=delta)
    assert priced == found.loss
    assert epsilon * (1 - 1e-9) <= priced.epsilon <= epsilon


@pytest.mark.parametrize("sampling", [Sampling.WITHOUT_REPLACEMENT, Sampling.POISSON])
@pytest.mark.parametrize(
    ("epsilon", "delta", "rounds"),
    [(0.1, 1e-3, 300), (2.0, 1e-3, 300), (2.0, 1e-8, 10_000), (50.0, 1e-5, 20), (150.0, 1e-3, 500), (1.0, 1e-12, 100)],
)
def test_calibration_inverts_accounting_against_an_outsider(
    sampling: Sampling, epsilon: float, delta: float, rounds: int
):
    start = time.process_time()
    found = calibrate(
        adversary=Adversary.OUTSIDER, epsilon=epsilon, delta=delta, rounds=rounds, **PAPER, sampling=sampling
    )
    assert time.process_time() - start < 10
    priced = outsider_loss({found.noise_multiplier: rounds}, **PAPER, sampling=sampling, delta=delta)
    assert priced == found.loss
    assert 0.99 * epsilon <= priced.epsilon <= epsilon


def test_a_little_less_noise_than_the_calibrated_would_overshoot():
    for adversary in Adversary:
        found = calibrate(adversary=adversary, epsilon=2.0, delta=1e-3, rounds=300, **PAPER, sampling=Sampling.POISSON)
        z = 0.998 * found.noise_multiplier
        less = (
            server_loss(mu_squared=300 / z**2, participations=300, delta=1e-3)
            if adversary is Adversary.SERVER
            else outsider_loss({z: 300}, **PAPER, sampling=Sampling.POISSON, delta=1e-3)
        )
        assert less.epsilon > 2.0


def test_against_the_server_a_device_is_taken_to_be_in_every_round_unless_stated_otherwise():
    budget = {"adversary": Adversary.SERVER, "epsilon": 2.0, "delta": 1e-3, "rounds": 300} | PAPER
    sure = calibrate(**budget, sampling=Sampling.POISSON)
    told = calibrate(**budget, sampling=Sampling.POISSON, participations=12)
    assert sure.loss.participations == 300
    assert math.isclose(sure.noise_multiplier, told.noise_multiplier * math.sqrt(300 / 12), rel_tol=1e-9)


def test_a_device_that_is_hardly_ever_drawn_needs_no_noise():
    found = calibrate(
        adversary=Adversary.OUTSIDER, epsilon=1.0, delta=0.01, rounds=1, devices=1000, cohort=1,
        sampling=Sampling.POISSON,
    )  # fmt: skip
    assert found.noise_multiplier == LEAST
    assert found.loss.epsilon == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon = 0: must be a finite number > 0"),
        ({"epsilon": math.nan}, "epsilon = nan: must be a finite number > 0"),
        ({"epsilon": 1e300}, "must be a number from 1e-09 to 1e.06"),
        ({"delta": 1.0}, "delta = 1: must be in"),
        ({"rounds": 0}, "rounds = 0: must be a whole number of at least 1"),
        ({"cohort": 1001}, "cohort = 1001: must be a whole number from 1 to 1000"),
        ({"participations": 301}, "participations = 301: must be a whole number from 1 to 300"),
        ({"epsilon": 1e-9, "delta": 1e-12}, "no noise multiplier up to 1e.06 meets it"),
    ],
)
def test_a_budget_that_cannot_be_is_refused_in_one_line(changes, message: str):
    arguments = {"epsilon": 1.0, "delta": 1e-3, "rounds": 300, **PAPER, "sampling": Sampling.WITHOUT_REPLACEMENT}
    with pytest.raises(InputError, match=message):
        calibrate(adversary=Adversary.OUTSIDER, **(arguments | changes))
