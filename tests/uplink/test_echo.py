"""Echo weights: what the formulas say of the noise that is left is what decoding leaves."""

import math

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.special import comb

from pfels.uplink.echo import averaged_workload, model_workload, noise_rms, optimised_weights, square_root_weights


def matrix(sequence: np.ndarray, rounds: int) -> np.ndarray:
    """The lower triangular Toeplitz matrix of a sequence."""
    column = np.zeros(rounds)
    column[: len(sequence)] = sequence[:rounds]
    return toeplitz(column, np.zeros(rounds))


def rms(weights: np.ndarray, heard: np.ndarray, workload: np.ndarray) -> float:
    """The same by matrices: √(‖A·C⁻¹‖² / n)."""
    n = len(workload)
    left = matrix(workload, n) @ np.linalg.inv(matrix(weights * heard, n))
    return float(np.linalg.norm(left) / math.sqrt(n))


@pytest.mark.parametrize("bands", [1, 2, 7, 31])
def test_square_root_weights_are_the_coefficients_of_the_square_root_of_the_sums(bands: int):
    weights = square_root_weights(bands)
    assert np.linalg.norm(weights) == pytest.approx(1.0, abs=1e-14)
    exact = [float(comb(2 * j, j, exact=True)) / 4**j for j in range(bands)]
    assert weights / weights[0] == pytest.approx(exact, rel=1e-12)
    root = matrix(np.array(exact), bands)
    assert np.allclose(root @ root, np.tril(np.ones((bands, bands)))), "its square is the matrix of all sums"


@pytest.mark.parametrize(
    ("bands", "share", "momentum", "every"), [(1, 1.0, 0.0, 1), (4, 0.8, 0.0, 3), (31, 0.9, 0.9, 1)]
)
def test_the_noise_in_the_models_is_what_matrices_give(bands: int, share: float, momentum: float, every: int):
    heard = np.r_[1.0, np.full(bands - 1, share)]
    workload = model_workload(60, every=every, momentum=momentum)
    weights = square_root_weights(bands, heard=heard)
    assert noise_rms(weights, heard=heard, workload=workload) == pytest.approx(rms(weights, heard, workload), rel=1e-9)


def test_the_workloads_are_what_the_server_does_to_an_impulse():
    """θ ← θ + v, v ← ρv + Δ, average ← a·average + (1 − a)·θ, with Δ = 1 in the first round alone."""
    rho, a, every = 0.7, 0.9, 3
    theta = velocity = average = 0.0
    models, averages = [], []
    for t in range(30):
        velocity = rho * velocity + (t == 0)
        theta += velocity
        average = a * average + (1 - a) * theta
        models.append(theta)
        averages.append(average)
    workload = model_workload(10, every=every, momentum=rho)
    assert workload == pytest.approx(models[::every])
    assert averaged_workload(model_workload(30, every=1, momentum=rho), every=1, average=a) == pytest.approx(averages)


@pytest.mark.parametrize(("bands", "gain"), [(2, 0.75), (4, 0.56), (8, 0.43), (16, 0.34), (31, 0.28)])
def test_echo_leaves_as_much_noise_as_published_for_the_square_root_factorisation(bands: int, gain: float):
    """Relative to independent rounds, T = 300, as found in the prototype."""
    sums, alone = np.ones(300), np.ones(1)
    here = noise_rms(square_root_weights(bands), heard=np.ones(bands), workload=sums)
    assert here / noise_rms(alone, heard=alone, workload=sums) == pytest.approx(gain, abs=0.006)


@pytest.mark.parametrize("average", [0.0, 0.95])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("share", [1.0, 0.8])
@pytest.mark.parametrize("bands", [2, 8, 31])
def test_optimised_weights_leave_less_noise_and_no_small_change_leaves_less(
    bands: int, share: float, momentum: float, average: float
):
    heard = np.r_[1.0, np.full(bands - 1, share)]
    trained = model_workload(200, every=1, momentum=momentum)
    loads = [trained] + ([averaged_workload(trained, every=1, average=average)] if average else [])

    def product(weights: np.ndarray) -> float:
        return math.prod(noise_rms(weights / np.linalg.norm(weights), heard=heard, workload=load) for load in loads)

    found = optimised_weights(bands, heard=heard, workloads=loads)
    assert np.linalg.norm(found) == pytest.approx(1.0, abs=1e-14)
    assert product(found) < 0.999 * product(square_root_weights(bands, heard=heard))
    draw = np.random.default_rng(3)
    for _ in range(200):
        assert product(np.abs(found + 0.01 * draw.standard_normal(bands))) > product(found) * (1 - 1e-6)


def test_weights_that_know_of_silence_leave_less_noise_than_those_that_do_not():
    heard, sums = np.r_[1.0, np.full(30, 0.78)], np.ones(300)
    plain, raised = square_root_weights(31), square_root_weights(31, heard=heard)
    assert noise_rms(raised, heard=heard, workload=sums) < 0.98 * noise_rms(plain, heard=heard, workload=sums)
