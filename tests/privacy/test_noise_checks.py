"""Checks of noise: honest noise is rejected as rarely as they say, and every kind of other noise is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pfels.privacy import tails
from pfels.privacy.noise_batch import RECEIVER, Finding, NoiseBatch, chosen
from pfels.privacy.noise_checks import NoiseRecord
from pfels.privacy.noise_pairs import ALL_PAIRS

T, W, D = 60, 400, 1000
ENOUGH = 2.5e-5  # below the error rate of an audit's check
Change = Callable[[int, np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def honest(t: int, x: np.ndarray, last: np.ndarray, g: np.random.Generator) -> np.ndarray:
    return x


def found(
    change: Change = honest, *, seed: int = 0, rounds: int = T, count: int = 1, width: int = W, again: Any = None,
    signals: Any = None, other: Any = None, expected: int | None = None,
) -> dict[str, Finding]:  # fmt: skip
    """What the checks find in noise: `count` vectors per round, of the receiver if it is one, else of devices."""
    g = np.random.default_rng(seed)
    record, last = NoiseRecord(expected or rounds * count, D), np.zeros((count, width), np.float32)
    for t in range(rounds):
        x, seeded, hidden = (g.standard_normal((count, width), dtype=np.float32) for _ in range(3))
        x = last = np.asarray(change(t, x, last, g), np.float32)
        owners = np.array([RECEIVER]) if count == 1 else np.sort(g.choice(3 * count, count, replace=False))
        record.add(
            NoiseBatch(
                t, owners, x, x if again == "same" else seeded, x * 0 + hidden if signals is None else signals(hidden),
                g.standard_normal(width, dtype=np.float32) if other is None else other(), np.full(count, 1e-7),
                np.sort(g.choice(D, width, replace=False)) if count == 1 else None,
            )
        )  # fmt: skip
    return {each.check: each for each in record.findings()}


def rejecting(checks: dict[str, Finding]) -> set[str]:
    return {name for name, each in checks.items() if each.p < ENOUGH}


def test_p_values_are_those_of_the_laws_they_name():
    x = np.array([3.0, 20.0, 60.0])
    assert np.allclose(tails.chi_squared(x, 20), 2 * np.minimum(stats.chi2.cdf(x, 20), stats.chi2.sf(x, 20)))
    k = np.array([0.0, 2.0, 9.0, 30.0])
    both = 2 * np.minimum(stats.binom.cdf(k, 30, 0.2), stats.binom.sf(k - 1, 30, 0.2))
    assert np.allclose(tails.binomial(k, 30, 0.2), np.minimum(1, both))
    assert np.allclose(tails.poisson(k, 1.5), stats.poisson.sf(k - 1, 1.5))
    assert np.allclose(tails.normal(np.array([-2.0, 0.5])), 2 * stats.norm.sf([2.0, 0.5]))


def test_the_cosine_of_a_normal_vector_with_any_other_has_the_law_that_is_taken():
    g, fixed = np.random.default_rng(1), np.r_[np.ones(5), np.zeros(15)]
    x = g.standard_normal((20000, 20))
    p = tails.correlation((x @ fixed) ** 2 / (x**2).sum(1) / 5, 20)
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_evenness_is_uniform_on_independent_sums_and_tells_equal_ones():
    g = np.random.default_rng(2)
    p = [float(tails.chi_squared_evenness(g.chisquare(7, 30), 7)[0]) for _ in range(3000)]
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    assert tails.chi_squared_evenness(np.full(30, 7.0), 7)[0] < 1e-9


@pytest.mark.parametrize(("count", "expected"), [(1, None), (6, None), (6, ALL_PAIRS + 1)])
def test_honest_noise_is_rejected_no_more_often_than_each_check_says(count: int, expected: int | None):
    """P(p < 5 %) ≤ 5 % for each check: 120 trainings, within four standard errors."""
    trainings = [found(seed=s, rounds=12, count=count, width=150, expected=expected) for s in range(120)]
    for name in trainings[0]:
        assert np.mean([each[name].p < 0.05 for each in trainings]) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 120), name


def in_rounds(which: Callable[[int], bool], change: Callable[..., Any]) -> Change:
    return lambda t, x, last, g: change(x, last, g) if which(t) else x


def everywhere(change: Callable[[np.ndarray], Any]) -> Change:
    return lambda t, x, last, g: change(x)


def half(x: np.ndarray) -> np.ndarray:
    x[:, W // 2 :] = x[:, : W // 2]
    return x


def without(x: np.ndarray, place: Any) -> np.ndarray:
    x[:, place] = 0
    return x


FIXED = np.random.default_rng(9).standard_normal((T, W)).astype(np.float32)
BASIS = np.linalg.qr(np.random.default_rng(8).standard_normal((W, W // 4)))[0].T
CHEATS: dict[str, tuple[Change, str]] = {
    "the same in every round": (lambda t, x, last, g: FIXED[:1], "vectors"),
    "the same in every second round": (lambda t, x, last, g: x if t % 2 else FIXED[:1], "vectors"),
    "one of two": (lambda t, x, last, g: FIXED[t % 2][None], "vectors"),
    "again with opposite sign": (in_rounds(lambda t: t == 41, lambda x, last, g: -last), "vectors"),
    "again in another order": (in_rounds(lambda t: t == 41, lambda x, last, g: last[:, g.permutation(W)]), "copies"),
    "again rolled": (in_rounds(lambda t: t == 41, lambda x, last, g: np.roll(last, 9)), "copies"),
    "again reversed and scaled": (in_rounds(lambda t: t == 41, lambda x, last, g: 0.97 * last[:, ::-1]), "copies"),
    "in part that of the round before": (lambda t, x, last, g: (x + last) / np.sqrt(2), "vectors"),
    "missing in one round": (in_rounds(lambda t: t == 40, lambda x, last, g: 0 * x), "level"),
    "missing at one place": (everywhere(lambda x: without(x, 17)), "coordinates"),
    "missing on half of the places": (everywhere(lambda x: without(x * np.sqrt(2), slice(None, None, 2))), "law"),
    "a lattice of σ/2": (everywhere(lambda x: np.round(2 * x) / 2), "values"),
    "a lattice of σ/10": (everywhere(lambda x: np.round(10 * x) / 10), "values"),
    "float16": (everywhere(lambda x: x.astype(np.float16)), "values"),
    "a lattice in one round": (in_rounds(lambda t: t == 40, lambda x, last, g: np.round(4 * x) / 4), "values"),
    "two equal halves": (everywhere(half), "values"),
    "uniform": (lambda t, x, last, g: g.uniform(-np.sqrt(3), np.sqrt(3), x.shape), "law"),
    "Laplace": (lambda t, x, last, g: g.laplace(0, np.sqrt(0.5), x.shape), "law"),
    "signs": (everywhere(np.sign), "law"),
    "cut off at 2σ": (everywhere(lambda x: np.clip(x, -2, 2)), "law"),
    "of sum zero": (everywhere(lambda x: x - x.mean()), "neighbours"),
    "smoothed": (everywhere(lambda x: (x + np.roll(x, 1)) / np.sqrt(2)), "neighbours"),
    "in a subspace": (lambda t, x, last, g: 2 * g.standard_normal((1, W // 4)) @ BASIS, "vectors"),
    "1.4σ and 0.2σ by round": (lambda t, x, last, g: x * (0.2 if t % 2 else 1.4), "level"),
    "1.4σ and 0.2σ by place": (everywhere(lambda x: x * np.where(np.arange(W) % 2, 0.2, 1.4)), "coordinates"),
    "a tenth too small": (everywhere(lambda x: 0.9 * x), "level"),
    "of one length in every round": (everywhere(lambda x: x / np.linalg.norm(x) * np.sqrt(W)), "level"),
    "of mean zero over the rounds": (lambda t, x, last, g: (FIXED - FIXED.mean(0))[t][None], "coordinates"),
}


@pytest.mark.parametrize("name", CHEATS)
def test_other_noise_of_the_receiver_is_rejected_by_the_check_that_asks_for_it(name: str):
    change, by = CHEATS[name]
    assert by in rejecting(found(change))


def shared(t: int, x: np.ndarray, last: np.ndarray, g: np.random.Generator) -> np.ndarray:
    x[1] = x[0]
    return x


def quiet_device(t: int, x: np.ndarray, last: np.ndarray, g: np.random.Generator) -> np.ndarray:
    if t == 7:
        x[3] = 0
    return x


DEVICES: dict[str, tuple[Change, str]] = {
    "all the same": (lambda t, x, last, g: np.repeat(x[:1], len(x), 0), "vectors"),
    "two the same": (shared, "vectors"),
    "the same in every round": (lambda t, x, last, g: FIXED[: len(x)], "vectors"),
    "one without": (quiet_device, "level"),
    "cancelling each other": (lambda t, x, last, g: (x - x.mean(0)) / np.sqrt(1 - 1 / len(x)), "vectors"),
}


@pytest.mark.parametrize("expected", [None, ALL_PAIRS + 1])
@pytest.mark.parametrize("name", DEVICES)
def test_other_noise_of_devices_is_rejected_whether_or_not_all_pairs_are_tried(name: str, expected: int | None):
    change, by = DEVICES[name]
    assert by in rejecting(found(change, rounds=12, count=10, expected=expected))


def test_noise_that_does_not_follow_the_seed_is_rejected():
    assert rejecting(found(again="same")) == {"seeds"}


def test_one_number_that_is_zero_under_two_seeds_is_rejected_and_under_one_it_is_chance():
    def one(t: int, x: np.ndarray, last: np.ndarray, g: np.random.Generator) -> np.ndarray:
        return without(x, 5) if t == 7 else x

    assert rejecting(found(one, again="same")) == {"seeds", "zeros"}
    assert rejecting(found(one)) == set()


@pytest.mark.parametrize("what", ["what it hides", "what else was sent"])
def test_noise_along_a_signal_is_rejected(what: str):
    kept: list[np.ndarray] = []

    def change(t: int, x: np.ndarray, last: np.ndarray, g: np.random.Generator) -> np.ndarray:
        kept[:] = [g.standard_normal(x.shape).astype(np.float32)]
        unit = kept[0] / np.linalg.norm(kept[0])
        return x - (x * unit).sum() * unit

    heard: dict[str, Any] = (
        {"signals": lambda hidden: kept[0]} if what == "what it hides" else {"other": lambda: kept[0][0]}
    )
    checks = found(change, **heard)
    assert rejecting(checks) == {"signals"}
    assert what in checks["signals"].saw


def test_what_was_seen_is_said_in_words():
    same = found(lambda t, x, last, g: FIXED[:1] if t in (2, 6) else x)
    assert same["vectors"].saw == "the receiver noise of rounds 3 and 7 is the same vector"
    silent = found(in_rounds(lambda t: t == 40, lambda x, last, g: 0 * x))
    assert silent["level"].saw == "the receiver noise of round 41 has 0 times the stated variance"


def test_more_numbers_than_are_looked_at_are_sampled_at_the_same_places_every_time():
    assert np.array_equal(chosen(10**6, 50), chosen(10**6, 50))
    assert len(np.unique(chosen(10**6, 50))) == 50
    assert np.array_equal(chosen(7, 50), np.arange(7))
