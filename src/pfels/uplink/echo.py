"""Echo weights: with which weights a device repeats what it sent, and how much noise is left once that is decoded.

The matrix mechanism splits a workload A = B·C. Here devices apply C over time (each repeats what it sent with the
weights c₀, c₁, …) and the server applies C⁻¹ to what it receives, so the receiver's white noise n becomes C⁻¹n, which
is negatively correlated: the sums of the updates, and so the models, carry less of it.

All matrices are lower triangular Toeplitz, so each is a sequence and products are convolutions. `heard[j]` is the share
of the devices heard at their turn that are heard again at lag j (heard[0] = 1): the server decodes with c_j·heard[j].
"""

from collections.abc import Sequence

import numpy as np

from pfels.arrays import Reals


def square_root_weights(bands: int, *, heard: Reals | None = None) -> Reals:
    """c_j ∝ binom(2j, j)/4ʲ, of norm 1: the first `bands` coefficients of the square root of the matrix of all sums
    (Fichtenberger, Henzinger and Upadhyay 2023), divided by `heard`, so that what arrives has these proportions.

    >>> [round(float(c / square_root_weights(4)[0]), 4) for c in square_root_weights(4)]
    [1.0, 0.5, 0.375, 0.3125]
    """
    j = np.arange(1, bands)
    weights = np.cumprod(np.concatenate([[1.0], (2 * j - 1) / (2 * j)]))
    return _normalised(weights if heard is None else weights / heard)


def optimised_weights(bands: int, *, heard: Reals, workloads: Sequence[Reals]) -> Reals:
    """The weights of norm 1 that minimise the product of the mean noise variances of the workloads.

    A workload is the sequence with which decoded rounds enter a model: (1, 1, 1, …) for the plain sum. The search
    starts from the square-root weights. They are rounded to six digits, so that machines whose arithmetic differs in
    the last bits agree.
    """
    start = square_root_weights(bands, heard=heard)
    if bands == 1:
        return start

    def objective(tail: Reals) -> tuple[float, Reals]:
        weights = np.concatenate([[1.0], tail])
        squared = float(weights @ weights)
        values, slopes = zip(*(_variance_and_slope(weights, heard, each) for each in workloads), strict=True)
        count = len(workloads)  # scaling all weights by 1/‖c‖ multiplies each variance by ‖c‖²
        value = sum(map(np.log, values)) + count * np.log(squared)
        slope = sum(s / v for v, s in zip(values, slopes, strict=True)) + 2 * count * weights / squared
        return float(value), slope[1:]

    from scipy.optimize import minimize

    found = minimize(
        objective, start[1:] / start[0], jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * (bands - 1),
        options={"ftol": 1e-15, "gtol": 1e-11},  # so that the sixth digit does not depend on where the search stops
    )  # fmt: skip
    return _normalised(np.concatenate([[1.0], np.round(found.x, 6)]))


def noise_rms(weights: Reals, *, heard: Reals, workload: Reals) -> float:
    """The root mean square, over rounds, of the noise in a model, where each round's noise has variance 1 before
    decoding: √(mean over n of Σ_{k≤n} (workload ∗ C⁻¹)_k²).

    >>> round(noise_rms(square_root_weights(31), heard=np.ones(31), workload=np.ones(300)) / 300**0.5 * 2**0.5, 3)
    0.276
    """
    return float(np.sqrt(_variance(_noise(weights, heard, workload))))


def decoded_noise(weights: Reals, *, heard: Reals, turns: int) -> tuple[Reals, Reals]:
    """What decoding makes of noise of variance 1 in each of `turns` rounds of a block: the variance in the n-th decoded
    round, Σ_{k≤n} (C⁻¹)_k², and the share ((1, 1, …) ∗ C⁻¹)_k² that a round's variance has in the variance of the last
    sum if k rounds of the block follow it.

    >>> [part.tolist() for part in decoded_noise(np.ones(1), heard=np.ones(1), turns=2)]
    [[1.0, 1.0], [1.0, 1.0]]
    """
    alone = np.zeros(turns)
    alone[0] = 1.0
    return np.cumsum(_noise(weights, heard, alone) ** 2), _noise(weights, heard, np.ones(turns)) ** 2


def model_workload(rounds: int, *, every: int, momentum: float) -> Reals:
    """How much of a round's decoded sum is in the model k turns of its block later, k = 0 … `rounds` − 1, where a block
    has a turn every `every` rounds: 1, or with server momentum ρ (1 − ρ^(k·every+1))/(1 − ρ)."""
    lags = np.arange(rounds) * every + 1
    return np.ones(rounds) if momentum == 0 else np.asarray((1 - momentum**lags) / (1 - momentum), np.float64)


def averaged_workload(workload: Reals, *, every: int, average: float) -> Reals:
    """The same of the exponential average of the models, decay `average` per round."""
    kept = average**every
    return _filtered(workload, 1 - kept, np.array([1.0, -kept]))


def _normalised(weights: Reals) -> Reals:
    unit: Reals = weights / np.linalg.norm(weights)
    return unit


def _noise(weights: Reals, heard: Reals, workload: Reals) -> Reals:
    """workload ∗ C⁻¹."""
    return _filtered(workload, 1.0, weights * heard)


def _filtered(sequence: Reals, ahead: float, back: Reals) -> Reals:
    """y with back[0]·y_n + back[1]·y_{n−1} + … = ahead·x_n: the sequence x through a linear filter, as the solution of
    a banded triangular system."""
    from scipy.linalg.lapack import dtbtrs  # only echo needs it

    solved, _ = dtbtrs(np.repeat(back[: len(sequence), None], len(sequence), 1), ahead * sequence, uplo="L")
    return np.asarray(solved, np.float64).reshape(len(sequence))


def _variance(noise: Reals) -> float:
    ages = 1 - np.arange(len(noise)) / len(noise)  # the share of the rounds in which a noise is k turns old
    return float(ages @ noise**2)


def _variance_and_slope(weights: Reals, heard: Reals, workload: Reals) -> tuple[float, Reals]:
    """The variance and its derivatives: ∂(workload ∗ C⁻¹)/∂c_j is −heard[j]·(workload ∗ C⁻¹ ∗ C⁻¹), j turns later."""
    noise = _noise(weights, heard, workload)
    again = _noise(weights, heard, noise)
    pull = (1 - np.arange(len(noise)) / len(noise)) * noise
    n = len(noise)
    slopes = [-2 * heard[j] * float(pull[j:] @ again[: n - j]) if j < n else 0.0 for j in range(len(weights))]
    return _variance(noise), np.array(slopes)
