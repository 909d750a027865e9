"""The last bits of a released sum tell nothing: an attack that reads them succeeds on float noise, not on exact noise.

NumPy's float32 Gaussian is m·w rounded to float32, with m one of 2²³ integers and w one of 256 widths of its ziggurat.
How many of these outcomes can lead to a released value depends on the signal that was added. The attacker counts them,
with and without the signal of one device, and takes the ratio. It knows all other signals, and here they are zero.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
import torch
from scipy import stats

from pfels.config.load import load_config
from pfels.experiment.setup import Experiment, build
from pfels.flower.received import ExactSum, received_noise
from pfels.privacy.gaussian import gaussian_epsilon
from pfels.schemes.plan import RoundPlan
from pfels.uplink.channel import receiver_noise

TRIALS = 150  # rounds in which the device sends, and as many in which it does not
DELTA = 0.01
Likelihood = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of noise between two ends, up to a factor
NOTHING = 1e-9  # outcomes, where there are none


def neighbour(x: np.ndarray, toward: float) -> np.ndarray:
    return np.nextafter(x, np.float32(toward)).astype(np.float64)


def cell(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that are rounded to these float32."""
    return (x.astype(np.float64) + neighbour(x, -np.inf)) / 2, (x.astype(np.float64) + neighbour(x, np.inf)) / 2


@lru_cache
def ziggurat() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The widths, the thresholds of m below which a draw is accepted at once, and the heights of NumPy's ziggurat."""
    edge, area = 3.6541528853610087963519472518, 0.00492867323397465524494
    x = np.zeros(256)
    x[255] = edge
    for i in range(254, 0, -1):
        x[i] = math.sqrt(-2 * math.log(area / x[i + 1] + math.exp(-(x[i + 1] ** 2) / 2)))
    height = np.exp(-(x**2) / 2)
    widths = np.concatenate([[area / height[255]], x[1:]]) / 2**23
    thresholds = np.concatenate([[edge * height[255] / area], x[:-1] / x[1:]])[:256] * 2**23
    return widths.astype(np.float32).astype(np.float64), thresholds, height


def float_outcomes(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How many outcomes of the ziggurat lie between two positive ends, each with its chance to be accepted."""
    widths, thresholds, heights = ziggurat()
    first, last = low.astype(np.float32), high.astype(np.float32)
    first = np.where(first < low, np.nextafter(first, np.float32(np.inf)), first)
    last = np.where(last > high, np.nextafter(last, np.float32(-np.inf)), last)
    least, most = cell(first)[0], cell(last)[1]
    m_low = np.ceil(least[:, None] / widths)
    m_high = np.minimum(np.ceil(most[:, None] / widths) - 1, 2**23 - 1)
    at_once = np.maximum(np.minimum(m_high, thresholds - 1) - m_low + 1, 0)
    later = np.maximum(m_high - m_low + 1, 0) - at_once
    density = np.exp(-(((low + high) / 2) ** 2) / 2)
    accepted = np.zeros_like(later)
    accepted[:, 1:] = np.clip((density[:, None] - heights[1:]) / (heights[:-1] - heights[1:]), 0, 1)
    accepted[:, 0] = 0
    return np.where(first <= last, (at_once + later * accepted).sum(1), 0.0)


def lattice_outcomes(step: float) -> Likelihood:
    """The probability of the points of a lattice between two ends, under the discrete Gaussian of standard deviation 1,
    up to a factor."""

    def likelihood(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        first, last = np.ceil(low / step), np.floor(high / step)
        density = np.exp(-((step * (first + last) / 2) ** 2) / 2)  # a cell holds few points, next to each other
        return np.where(first <= last, (last - first + 1) * density, 0.0)

    return likelihood


def log_ratio(y: np.ndarray, signal: np.ndarray, likelihood: Likelihood) -> float:
    """The log-likelihood ratio of a released sum, with the signal against without. Where nothing can be counted (near
    zero, in the ziggurat's tail, impossible both ways) it is the ideal Gaussian's."""
    ideal = y * signal - signal**2 / 2
    sign = np.where(y < 0, -1, 1).astype(np.float32)
    low, high = cell(y * sign)
    counted = (low - np.abs(signal) > 0.02) & (high < 3.4)
    with_signal, without = np.full(len(y), NOTHING), np.full(len(y), NOTHING)
    shift = (signal * sign)[counted]
    with_signal[counted] = np.maximum(likelihood(low[counted] - shift, high[counted] - shift), NOTHING)
    without[counted] = np.maximum(likelihood(low[counted], high[counted]), NOTHING)
    impossible = (with_signal == NOTHING) & (without == NOTHING)
    return float(np.where(impossible, ideal, np.log(with_signal / without)).sum())


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    settings = {"scheme": "pfels-plus", "rounds": 300, "privacy.total_epsilon": 2.0, "privacy.adversary": "outsider"}
    return build(load_config("demo", settings))


@pytest.fixture(scope="module")
def plan(experiment: Experiment) -> RoundPlan:
    assert experiment.setting.noise_std == 1
    return experiment.scheme.prepare(experiment.draws, 0)


@pytest.fixture(scope="module")
def signal(experiment: Experiment, plan: RoundPlan) -> np.ndarray:
    """What arrives of a device whose update is as long as it may be, evenly spread: float32, as it was sent."""
    k = experiment.setting.kept
    signs = np.where(np.random.default_rng(0).random(k) < 0.5, -1, 1)
    return signs * np.float64(np.float32(1 / (plan.event.noise_multiplier * math.sqrt(k))))


def float_sum(signal: np.ndarray, seed: int) -> np.ndarray:
    """The sum with noise of NumPy's generator: float32, added in double precision, rounded to float32."""
    noise = receiver_noise(np.random.default_rng(seed), width=len(signal), std=1.0)
    return (noise.double() + torch.from_numpy(signal)).float().numpy()


def exact_sum(experiment: Experiment, plan: RoundPlan, signal: np.ndarray) -> np.ndarray:
    """The sum as the server of a deployment with secret noise releases it."""
    A = experiment.scheme.indices(experiment.draws, experiment.draws.start, 0)
    y = received_noise(experiment.scheme, experiment.draws, plan, A, secret=True)
    y.add(torch.from_numpy(signal))
    return y.total().numpy()


def measured_epsilon(absent: np.ndarray, sends: np.ndarray, threshold: float) -> float:
    """A lower bound on ε at δ from how often the log-likelihood ratio passes a threshold fixed beforehand (95 %)."""
    count = len(sends)
    hits, false = int((sends > threshold).sum()), int((absent > threshold).sum())
    at_least = stats.beta.ppf(0.025, hits, count - hits + 1) if hits else 0.0
    at_most = stats.beta.ppf(0.975, false + 1, count - false) if false < count else 1.0
    return math.log(max(at_least - DELTA, 1e-12) / at_most)


def test_on_float_noise_the_attack_measures_far_more_than_is_claimed(plan: RoundPlan, signal: np.ndarray):
    z = plan.event.noise_multiplier
    absent, sends = (
        np.array([log_ratio(float_sum(s, 1000 * w + i), signal, float_outcomes) for i in range(TRIALS)])
        for w, s in ((1, 0 * signal), (2, signal))
    )
    ideal = 1 / (2 * z**2)
    print(f"float noise: {sends.mean():.3f} nats with the device, {absent.mean():.3f} without; ideal {ideal:.4f}")
    assert sends.mean() > 50 * ideal
    claimed = gaussian_epsilon(mu=1 / z, delta=DELTA)
    print(f"claimed {claimed:.3f}, measured {measured_epsilon(absent, sends, 2.0):.2f}")
    assert measured_epsilon(absent, sends, 2.0) > 2 > 2 * claimed


def test_on_exact_noise_the_best_attack_is_the_ideal_gaussians(
    experiment: Experiment, plan: RoundPlan, signal: np.ndarray
):
    z, trials = plan.event.noise_multiplier, 8 * TRIALS
    received = received_noise(experiment.scheme, experiment.draws, plan, None, secret=True)
    assert isinstance(received, ExactSum)
    step = received.lattice.step
    cut = np.trunc(signal / step) * step  # what the attacker knows to be added
    expected = float(cut @ cut) / 2
    assert 0.999 < expected * 2 * z**2 <= 1
    for sent, mean in ((0 * signal, -expected), (signal, expected)):
        ratios = np.array(
            [log_ratio(exact_sum(experiment, plan, sent), cut, lattice_outcomes(step)) for _ in range(trials)]
        )
        print(
            f"exact noise: {ratios.mean():.4f} nats, ideal {mean:.4f}, standard error {1 / z / math.sqrt(trials):.4f}"
        )
        assert abs(ratios.mean() - mean) < 5 / z / math.sqrt(trials)
        assert ratios.std() == pytest.approx(1 / z, rel=5 / math.sqrt(2 * trials))


def test_on_exact_noise_the_attack_on_float_noise_sees_nothing(
    experiment: Experiment, plan: RoundPlan, signal: np.ndarray
):
    absent, sends = (
        np.array([log_ratio(exact_sum(experiment, plan, s), signal, float_outcomes) for _ in range(TRIALS)])
        for s in (0 * signal, signal)
    )
    wins = stats.mannwhitneyu(sends, absent).statistic / TRIALS**2
    ideal = stats.norm.cdf(1 / plan.event.noise_multiplier / math.sqrt(2))
    print(f"the attack on float noise against exact noise: AUC {wins:.3f}, of an ideal Gaussian at most {ideal:.3f}")
    assert wins < ideal + 5 / math.sqrt(6 * TRIALS)
