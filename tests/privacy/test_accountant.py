"""Theorems about what rounds cost, and against whom."""

import json
import math
import time
from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfels.errors import InputError
from pfels.privacy.accountant import ServerLedger, exact_per_round, outsider_loss, price, server_loss
from pfels.privacy.events import Adversary, Neighbours, RoundEvent, Sampling
from pfels.privacy.figures import figures
from pfels.privacy.gaussian import amplified, gaussian_delta, gaussian_epsilon, gaussian_mu, revealed_epsilon
from pfels.privacy.outsider import MOST_LEVELS, coarsened, fixed_size_epsilon, poisson_epsilon

FIXED, POISSON = Sampling.WITHOUT_REPLACEMENT, Sampling.POISSON
PAPER = {"devices": 1000, "cohort": 32}


def server(times: int, z: float, delta: float) -> float:
    epsilon = server_loss(mu_squared=times / z**2, participations=times, delta=delta).epsilon
    assert epsilon is not None
    return epsilon


def outsider(rounds: dict[float, int], sampling: Sampling, *, delta: float = 1e-3, devices: int = 1000) -> float:
    epsilon = outsider_loss(rounds, devices=devices, cohort=32, sampling=sampling, delta=delta).epsilon
    assert epsilon is not None
    return epsilon


def event(
    z: float = 2.0, who: tuple[int, ...] = (0,), *, sampling: Sampling = POISSON, seen: float | None = None,
    cohort_dependent: bool = False,
) -> RoundEvent:  # fmt: skip
    return RoundEvent(z, z if seen is None else seen, 1000, 32, sampling, who, cohort_dependent)


# The Gaussian mechanism


def test_delta_of_epsilon_is_the_formula():
    for mu in (0.3, 1.0, 4.0):
        for epsilon in (0.0, 0.1, 1.0, 5.0):
            cdf = [math.erfc(-x / math.sqrt(2)) / 2 for x in (mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu)]
            assert math.isclose(
                gaussian_delta(epsilon=epsilon, mu=mu), cdf[0] - math.exp(epsilon) * cdf[1], rel_tol=1e-9
            )


@given(st.floats(-3, 4), st.floats(-12, -0.01))
@settings(deadline=None, max_examples=40)
def test_epsilon_agrees_with_dp_accounting(log_mu: float, log_delta: float):
    mu, delta = 10**log_mu, 10**log_delta
    theirs = dp_accounting.get_epsilon_gaussian(1 / mu, delta)
    assert math.isclose(gaussian_epsilon(mu=mu, delta=delta), theirs, rel_tol=1e-9, abs_tol=1e-9)


@given(st.floats(-6, 7), st.floats(-15, -0.01))
@settings(deadline=None, max_examples=40)
def test_delta_mu_and_epsilon_invert_each_other(log_mu: float, log_delta: float):
    """Also where dp-accounting's own formula divides by zero (μ ≤ 1e-5 with δ ≤ 1e-10)."""
    mu, delta = 10**log_mu, 10**log_delta
    epsilon = gaussian_epsilon(mu=mu, delta=delta)
    if epsilon == 0:
        assert gaussian_delta(epsilon=0.0, mu=mu) <= delta
    else:
        assert math.isclose(gaussian_delta(epsilon=epsilon, mu=mu), delta, rel_tol=1e-6)
        assert math.isclose(gaussian_mu(epsilon=epsilon, delta=delta), mu, rel_tol=1e-6)


def test_the_measured_delta_of_the_gaussian_mechanism_is_the_stated_one():
    """δ = E over P of max(0, 1 − e^(ε − L)); n samples put the mean within 5 standard errors."""
    n, generator = 400_000, np.random.default_rng(7)
    for z in (0.5, 1.0, 3.0):
        for delta in (1e-3, 1e-2, 0.1):
            epsilon = gaussian_epsilon(mu=1 / z, delta=delta)
            loss = (generator.normal(size=n) + 1 / (2 * z)) / z  # log of the densities' ratio under P
            excess = np.maximum(0, -np.expm1(epsilon - loss))
            assert abs(excess.mean() - delta) <= 5 * excess.std() / math.sqrt(n)


@given(st.floats(0, 700), st.floats(1e-6, 1))
def test_amplification_is_the_formula_and_never_costs(epsilon: float, rate: float):
    assert math.isclose(amplified(epsilon=epsilon, rate=rate), math.log1p(rate * math.expm1(epsilon)), abs_tol=1e-12)
    assert amplified(epsilon=epsilon, rate=rate) <= epsilon * (1 + 1e-12)
    assert math.isclose(amplified(epsilon=1e6, rate=0.5), 1e6 + math.log(0.5))


# Exact per round


@given(st.floats(0.01, 100), st.floats(1e-9, 0.01), st.integers(100, 10_000), st.floats(1, 3))
@settings(deadline=None, max_examples=40)
def test_one_round_costs_less_with_more_noise_delta_or_devices(z: float, delta: float, devices: int, more: float):
    plain = exact_per_round(noise_multiplier=z, delta=delta, devices=devices, cohort=32) * (1 + 1e-9)
    assert exact_per_round(noise_multiplier=z * more, delta=delta, devices=devices, cohort=32) <= plain
    assert exact_per_round(noise_multiplier=z, delta=delta * more, devices=devices, cohort=32) <= plain
    assert exact_per_round(noise_multiplier=z, delta=delta, devices=int(devices * more), cohort=32) <= plain


def test_a_round_costs_nothing_at_a_delta_no_smaller_than_the_chance_to_be_drawn():
    assert exact_per_round(noise_multiplier=1e-6, delta=0.032, devices=1000, cohort=32) == 0


def test_one_poisson_round_costs_an_outsider_what_exact_amplification_says():
    """For one Poisson round both are the same number, got in two ways: a formula and a discretised distribution."""
    for z in (0.1, 0.5, 1.0, 3.0):
        formula = exact_per_round(noise_multiplier=z, delta=1e-5, **PAPER)
        assert formula * (1 - 1e-9) <= outsider({z: 1}, POISSON, delta=1e-5) <= formula * 1.001


# The server


@pytest.mark.parametrize(
    ("times", "z", "delta", "epsilon"),
    [(10, 2, 1e-3, 5.587), (10, 2, 1e-5, 7.511), (1, 2, 1e-3, 1.352), (16, 4, 1e-3, 3.139)],
)
def test_the_server_learns_what_exact_composition_says(times: int, z: float, delta: float, epsilon: float):
    assert round(server(times, z, delta), 3) == epsilon


@given(st.integers(1, 10_000), st.floats(0.01, 1000), st.floats(1e-12, 0.3), st.floats(1, 3))
@settings(deadline=None, max_examples=40)
def test_the_server_learns_less_with_more_noise_or_delta_and_more_with_more_rounds(times, z, delta, more):
    plain, rounding = server(times, z, delta), 1 + 1e-9
    assert server(times, z * more, delta) <= plain * rounding
    assert server(times, z, delta * more) <= plain * rounding
    assert server(times + 1, z, delta) * rounding >= plain


@given(st.lists(st.tuples(st.floats(0.05, 50), st.sets(st.integers(0, 19), max_size=12)), max_size=15))
@settings(deadline=None, max_examples=50)
def test_the_ledger_holds_every_devices_own_sum_and_the_worst_is_the_largest(rounds):
    ledger = ServerLedger.empty(devices=20)
    for z, who in rounds:
        before, sums_before = ledger, ledger.mu_squared.copy()
        ledger = before.after(RoundEvent(z, z, 20, 12, FIXED, tuple(who), True))
        assert np.array_equal(before.mu_squared, sums_before)
    sums = {e: math.fsum(z**-2 for z, who in rounds if e in who) for e in set().union(*(who for _, who in rounds))}
    assert ledger.ids.tolist() == sorted(sums)
    assert np.allclose(ledger.mu_squared, [sums[e] for e in sorted(sums)], rtol=1e-12)
    assert ledger.participations.tolist() == [sum(e in who for _, who in rounds) for e in sorted(sums)]
    worst = ledger.worst(delta=1e-3)
    expected = gaussian_epsilon(mu=math.sqrt(max(sums.values(), default=0.0)), delta=1e-3)
    assert worst.epsilon == pytest.approx(expected, rel=1e-9)
    spread = ledger.distribution(delta=1e-3)
    assert spread["max"] == worst.epsilon
    for name, share in (("min", 0.0), ("median", 0.5), ("p90", 0.9)):
        place = max(math.ceil(share * len(sums)) - 1, 0)
        at = sorted(sums.values())[place] if sums else 0.0
        assert spread[name] == pytest.approx(gaussian_epsilon(mu=math.sqrt(at), delta=1e-3), rel=1e-9)
    assert spread["never_took_part"] == pytest.approx(1 - len(sums) / 20)


def test_equal_rounds_compose_like_one_event():
    """Ten rounds at z are one at z/√10, against the server and in any order."""
    many = price([event(2.0, (3,))] * 10, adversary=Adversary.SERVER, delta=1e-3)
    one = price([event(2.0 / math.sqrt(10), (3,))], adversary=Adversary.SERVER, delta=1e-3)
    assert many.epsilon == pytest.approx(one.epsilon, rel=1e-12)
    assert (many.participations, one.participations) == (10, 1)
    mixed = [event(z, (3,)) for z in (0.5, 2.0, 1.0)]
    a, b = (price(order, adversary=Adversary.SERVER, delta=1e-3).epsilon for order in (mixed, mixed[::-1]))
    assert a == pytest.approx(b, rel=1e-12)


def test_the_worst_device_is_not_the_one_that_took_part_most_often():
    events = [event(8.0, (1,))] * 5 + [event(1.0, (2,))]
    loss = price(events, adversary=Adversary.SERVER, delta=1e-3)
    assert loss.participations == 1
    assert loss.epsilon == pytest.approx(gaussian_epsilon(mu=1.0, delta=1e-3))


def test_a_server_that_sees_single_updates_learns_more_than_their_sum_tells():
    """DP-FedAvg: a device's update arrives with a share 1/r of the noise, so its noise multiplier is z/√r."""
    alone = price([event(2.0, seen=2.0 / math.sqrt(32))], adversary=Adversary.SERVER, delta=1e-3)
    assert alone.epsilon == pytest.approx(gaussian_epsilon(mu=math.sqrt(32) / 2, delta=1e-3))
    assert alone.epsilon > 8 * server(1, 2.0, 1e-3)


def test_without_noise_there_is_no_figure_but_a_reason():
    for adversary in (Adversary.SERVER, Adversary.OUTSIDER):
        loss = price([event(2.0), event(0.0)], adversary=adversary, delta=1e-3)
        assert loss.epsilon is None
        assert "no noise" in loss.as_dict()["reason"]


def test_a_ledger_of_a_million_devices_stays_quick():
    """It holds those who took part; a round costs milliseconds, so a second for ten leaves room for a busy machine."""
    devices, generator = 1_000_000, np.random.default_rng(1)
    ids = np.arange(0, devices, 2)
    ledger = ServerLedger(devices, ids, generator.random(len(ids)), np.ones(len(ids), np.int64))
    rounds = [
        RoundEvent(1.0, 1.0, devices, 1000, FIXED, tuple(generator.choice(devices, 1000, replace=False).tolist()), True)
        for _ in range(10)
    ]
    start = time.process_time()
    for one in rounds:
        ledger = ledger.after(one)
    ledger.distribution(delta=1e-6)
    assert time.process_time() - start < 2
    assert ledger.participations.sum() == len(ids) + 10_000


# The outsider


@pytest.mark.parametrize(("z", "rounds", "epsilon"), [(2, 300, 0.75), (1, 300, 2.35), (1, 1000, 4.66)])
def test_an_outsider_of_poisson_rounds_learns_what_the_pld_accountant_says(z: float, rounds: int, epsilon: float):
    loss = outsider_loss({z: rounds}, **PAPER, sampling=POISSON, delta=1e-3)
    assert loss.epsilon == pytest.approx(epsilon, rel=0.003)
    assert (loss.accountant, loss.neighbours) == ("pld", Neighbours.ADD_REMOVE)


def test_an_outsider_of_fixed_size_rounds_learns_what_the_rdp_accountant_says():
    loss = outsider_loss({2.0: 300}, **PAPER, sampling=FIXED, delta=1e-3)
    assert loss.epsilon == pytest.approx(5.18, abs=0.005)
    assert (loss.accountant, loss.neighbours) == ("rdp", Neighbours.REPLACE_ONE)


def test_the_measured_delta_of_poisson_rounds_does_not_exceed_the_stated_one():
    """n runs of T rounds seen by an outsider who knows which two worlds to tell apart, within 5 standard errors."""
    n, generator = 40_000, np.random.default_rng(3)
    for z, rounds in ((1.0, 300), (0.5, 50)):
        epsilon = outsider({z: rounds}, POISSON)
        loss = np.zeros(n)
        for _ in range(rounds):  # the device's unit of signal is there with probability q
            seen = z * generator.normal(size=n) + (generator.random(n) < 0.032)
            loss += np.log1p(0.032 * np.expm1((seen - 0.5) / z**2))
        excess = np.maximum(0, -np.expm1(epsilon - loss))
        error = 5 * excess.std() / math.sqrt(n)
        assert excess.mean() <= 1e-3 + error
        assert excess.mean() >= 0.9e-3 - error  # and the figure is not idle


def test_fixed_size_with_the_plain_sensitivity_would_understate_the_loss():
    """Let all but one device send −s, and that one +s or −s: the sum moves by 2s with probability r/N.

    That pair of worlds is priced exactly by a Poisson PLD with z/2. The figure for fixed size must not be below it;
    had it been computed with z in place of z/2, it would be.
    """
    for z, rounds in ((2.0, 300), (1.0, 20)):
        attained, _ = poisson_epsilon({z / 2: rounds}, **PAPER, delta=1e-3)
        assert outsider({z: rounds}, FIXED) >= attained
        plain, _ = fixed_size_epsilon({2 * z: rounds}, **PAPER, delta=1e-3)  # which hands the accountant z
        assert plain < attained


def test_sampling_helps_and_can_always_be_given_away():
    """Who is told who took part learns no less, and of a device in all rounds no less again."""
    for z, rounds in ((0.2, 50), (1.0, 300), (5.0, 2000)):
        told = revealed_epsilon(noise_multiplier=z, rate=0.032, rounds=rounds, delta=1e-5)
        assert outsider({z: rounds}, POISSON, delta=1e-5) <= told <= server(rounds, z, 1e-5)


@pytest.mark.parametrize("memory", ["none", "cap", "feedback", "watchful"])
def test_an_outsider_learns_no_more_of_a_device_that_remembers_its_draws(memory: str):
    """Two rounds, integrated: a device that is heard once at most, one that takes back what it sent, and one that also
    looks at what was released, against no such device. Without memory the figure is met, so it could not be lower."""
    q, z, delta = 0.3, 0.8, 1e-3
    epsilon = outsider_loss({z: 2}, devices=10, cohort=3, sampling=POISSON, delta=delta).epsilon
    assert epsilon is not None
    grid = np.linspace(-9 * z, 9 * z + 1, 1501)
    first, second = grid[:, None], grid[None, :]

    def law(y, mean):
        return np.exp(-((y - mean) ** 2) / (2 * z**2)) / (z * math.sqrt(2 * math.pi))

    unheard, heard = {
        "none": (1.0, 1.0), "cap": (1.0, 0.0), "feedback": (1.0, -1.0),
        "watchful": (np.where(first > 0.5, 1.0, -1.0), np.where(first > 0.5, -1.0, 1.0)),
    }[memory]  # fmt: skip
    with_it = (1 - q) * law(first, 0) * ((1 - q) * law(second, 0) + q * law(second, unheard))
    with_it = with_it + q * law(first, 1) * ((1 - q) * law(second, 0) + q * law(second, heard))
    without = law(first, 0) * law(second, 0)

    def apart(e: float) -> float:
        over = np.maximum(with_it - math.exp(e) * without, 0).sum()
        under = np.maximum(without - math.exp(e) * with_it, 0).sum()
        return float(max(over, under)) * (grid[1] - grid[0]) ** 2

    assert apart(epsilon) <= delta
    if memory == "none":
        assert apart(0.98 * epsilon) > delta


def test_with_everyone_in_every_round_the_outsider_knows_what_the_server_knows():
    """q = 1: no amplification. Replacing a device is twice emptying it."""
    everyone = {"devices": 32, "cohort": 32, "delta": 1e-4}
    poisson = outsider_loss({3.0: 20}, sampling=POISSON, **everyone).epsilon
    fixed = outsider_loss({6.0: 20}, sampling=FIXED, **everyone).epsilon
    assert poisson == pytest.approx(server(20, 3.0, 1e-4), rel=1e-5)
    assert fixed == pytest.approx(server(20, 3.0, 1e-4), rel=1e-5)


@pytest.mark.parametrize("sampling", [FIXED, POISSON])
@given(
    z=st.floats(0.3, 20), rounds=st.integers(1, 2000), delta=st.floats(1e-8, 0.01), more=st.floats(1.05, 2),
    devices=st.integers(100, 5000),
)  # fmt: skip
@settings(deadline=None, max_examples=4, derandomize=True)
def test_an_outsider_learns_less_with_more_noise_delta_or_devices_and_more_with_more_rounds(
    sampling: Sampling, z: float, rounds: int, delta: float, more: float, devices: int
):
    plain = outsider({z: rounds}, sampling, delta=delta, devices=devices)
    assert outsider({z * more: rounds}, sampling, delta=delta, devices=devices) <= plain
    assert outsider({z: rounds}, sampling, delta=delta * more, devices=devices) <= plain
    assert outsider({z: rounds}, sampling, delta=delta, devices=int(devices * more)) <= plain
    assert outsider({z: math.ceil(rounds * more)}, sampling, delta=delta, devices=devices) >= plain


@given(st.dictionaries(st.floats(1e-3, 1e3), st.integers(1, 50), min_size=1, max_size=100))
def test_rounding_to_levels_only_ever_takes_noise_away(rounds: dict[float, int]):
    few = coarsened(rounds)
    assert len(few) <= MOST_LEVELS
    assert sum(few.values()) == sum(rounds.values())
    assert set(few) <= set(rounds)
    for bar in rounds:  # for any bar, no fewer rounds lie below it than before
        assert sum(n for z, n in few.items() if z <= bar) >= sum(n for z, n in rounds.items() if z <= bar)
    if len(rounds) <= MOST_LEVELS:
        assert few == rounds


@pytest.mark.parametrize("sampling", [FIXED, POISSON])
def test_uneven_noise_is_an_upper_bound_that_costs_little_more_than_exactly(sampling: Sampling, monkeypatch):
    """18 values from 2 to 2.5: no level is more than 1.9 % below what it stands for, where ε falls about like 1/z²."""
    uneven = {2 + 0.5 * i / 17: 20 for i in range(18)}
    rounded = outsider(uneven, sampling)
    assert outsider({2.5: 360}, sampling) < rounded < outsider({2.0: 360}, sampling)
    monkeypatch.setattr("pfels.privacy.outsider.MOST_LEVELS", 18)
    exact = outsider(uneven, sampling)
    assert exact <= rounded <= 1.04 * exact


def test_the_order_and_grouping_of_rounds_do_not_matter():
    events = [event(z) for z in (1.0, 2.0, 1.0, 3.0)]
    together = outsider_loss({1.0: 2, 2.0: 1, 3.0: 1}, **PAPER, sampling=POISSON, delta=1e-5)
    assert price(events, adversary=Adversary.OUTSIDER, delta=1e-5) == together
    assert price(events[::-1], adversary=Adversary.OUTSIDER, delta=1e-5) == together


def test_where_the_noise_depends_on_the_cohort_an_outsiders_figure_is_refused():
    loss = price([event(), event(cohort_dependent=True)], adversary=Adversary.OUTSIDER, delta=1e-3)
    assert loss.epsilon is None
    assert "who was drawn" in loss.as_dict()["reason"]


@pytest.mark.parametrize(
    ("adversary", "neighbours", "sampling"),
    [
        (Adversary.OUTSIDER, Neighbours.ADD_REMOVE, FIXED),
        (Adversary.OUTSIDER, Neighbours.REPLACE_ONE, POISSON),
        (Adversary.OUTSIDER, Neighbours.DEVICE_EMPTIED, POISSON),
        (Adversary.SERVER, Neighbours.ADD_REMOVE, POISSON),
        (Adversary.SERVER, Neighbours.REPLACE_ONE, FIXED),
    ],
)
def test_an_unsupported_combination_raises_and_names_itself(adversary, neighbours, sampling):
    with pytest.raises(InputError, match=f"{adversary} with {neighbours} neighbours and {sampling} sampling"):
        price([event(sampling=sampling)], adversary=adversary, neighbours=neighbours, delta=1e-3)


def test_events_of_different_kinds_are_not_composed():
    with pytest.raises(InputError, match="events of 2 kinds"):
        price([event(sampling=FIXED), event(sampling=POISSON)], adversary=Adversary.OUTSIDER, delta=1e-3)


@pytest.mark.parametrize("sampling", [FIXED, POISSON])
@pytest.mark.parametrize(
    ("z", "rounds", "delta"),
    [(0.05, 5000, 1e-3), (0.05, 5000, 1e-12), (1e-6, 10, 1e-3), (100.0, 20_000, 1e-6), (1.0, 10**7, 1e-3)],
)
def test_every_call_answers_within_ten_seconds(sampling: Sampling, z: float, rounds: int, delta: float):
    start = time.process_time()
    epsilon = outsider({z: rounds}, sampling, delta=delta)
    assert time.process_time() - start < 10
    assert 0 <= epsilon < math.inf


@pytest.mark.parametrize("sampling", [FIXED, POISSON])
def test_thousands_of_different_noise_levels_are_priced_within_ten_seconds(sampling: Sampling):
    start = time.process_time()
    epsilon = outsider({0.05 * 1.001**i: 1 for i in range(5000)}, sampling)
    assert time.process_time() - start < 10
    assert 0 < epsilon < math.inf


# All figures


def test_the_figures_are_json_and_each_has_its_adversary_neighbours_delta_and_reason():
    shown = figures(**PAPER, delta=1e-3, rounds=2000, claimed_epsilon=1.5)
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert round(shown["noise_multiplier"], 4) == 0.1159
    for name in ("claimed", "exact_per_round", "server", "outsider"):
        assert {"epsilon", "delta", "adversary", "neighbours", "valid", "why"} <= set(shown[name])
    assert shown["claimed"]["epsilon"] == 1.5
    assert (shown["claimed"]["valid"], shown["claimed"]["valid_below"]) == (False, 0.064)
    assert shown["server"]["participations"] == 2000
    assert shown["server"]["typical"]["participations"] == 64
    assert shown["server"]["exceeds_100"]
    assert shown["server"]["display"].startswith("more than 100")
    assert shown["outsider"]["neighbours"] == "replace-one"


def test_figures_from_a_noise_multiplier_are_those_of_its_claim():
    shown = figures(**PAPER, delta=1e-3, rounds=300, noise_multiplier=2.0, sampling=POISSON, participations=10)
    again = figures(
        **PAPER,
        delta=1e-3,
        rounds=300,
        claimed_epsilon=shown["claimed"]["epsilon"],
        sampling=POISSON,
        participations=10,
    )
    assert again["noise_multiplier"] == pytest.approx(2.0)
    assert round(shown["server"]["epsilon"], 3) == 5.587
    assert round(shown["outsider"]["epsilon"], 2) == 0.75
    assert shown["exact_per_round"]["valid"]
    for name in ("server", "outsider", "exact_per_round"):
        assert again[name]["epsilon"] == pytest.approx(shown[name]["epsilon"])


def test_a_cohort_dependent_level_leaves_the_outsider_without_a_figure():
    shown = figures(**PAPER, delta=1e-3, rounds=300, noise_multiplier=2.0, sampling=POISSON, cohort_dependent=True)
    assert shown["outsider"]["epsilon"] is None
    assert "reason" in shown["outsider"]
    assert not shown["exact_per_round"]["valid"]
    assert shown["server"]["valid"]


def test_where_the_papers_formula_gives_nothing_the_other_figures_stand():
    shown = figures(devices=100, cohort=1, delta=0.5, rounds=10, noise_multiplier=1.0)
    assert shown["claimed"]["epsilon"] is None
    assert "1.25·cohort/devices" in shown["claimed"]["why"]
    assert shown["server"]["epsilon"] > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 0}, "rounds = 0: must be a whole number of at least 1"),
        ({"delta": 1.5}, "delta = 1.5: must be in"),
        ({"cohort": 2000}, "cohort = 2000: must be a whole number from 1 to 1000"),
        ({"noise_multiplier": 0.0}, "noise_multiplier = 0: must be"),
        ({"noise_multiplier": None}, "give one of the two"),
        ({"claimed_epsilon": 1.0}, "give one of the two"),
        ({"noise_multiplier": None, "claimed_epsilon": -1.0}, "epsilon = -1: must be"),
        ({"participations": 301}, "participations = 301: must be a whole number from 0 to 300"),
        ({"server_noise_multiplier": -1.0}, "server_noise_multiplier = -1: must be"),
    ],
)
def test_figures_of_wrong_numbers_are_refused_in_one_line(changes, message: str):
    arguments = {**PAPER, "delta": 1e-3, "rounds": 300, "noise_multiplier": 2.0} | changes
    with pytest.raises(InputError, match=message) as caught:
        figures(**arguments)
    assert "\n" not in str(caught.value)


# turns and weights


@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(0.01, 1.0), st.floats(0.3, 5.0)), min_size=1, max_size=40),
    st.floats(1e-6, 0.1),
)
@settings(deadline=None, max_examples=50, derandomize=True)
def test_a_weight_w_costs_as_much_as_noise_that_is_w_times_weaker(sent: list[tuple[int, float, float]], delta: float):
    """A signal of norm ws under noise multiplier z is a full one under z/w: the ledger adds up (w/z)²."""
    weighted = unweighted = ServerLedger.empty(devices=1000)
    mu_squared = np.zeros(10)
    for device, w, z in sent:
        whole = event(z, (device,), sampling=Sampling.TURNS)
        weighted = weighted.after(replace(whole, weights=(w,)))
        unweighted = unweighted.after(replace(whole, noise_multiplier=z / w, server_noise_multiplier=z / w))
        mu_squared[device] += (w / z) ** 2
    assert weighted.mu_squared == pytest.approx(unweighted.mu_squared, rel=1e-12)
    epsilon = gaussian_epsilon(mu=math.sqrt(mu_squared.max()), delta=delta)
    assert weighted.worst(delta=delta).epsilon == pytest.approx(epsilon, rel=1e-9)


def test_weights_belong_to_their_devices_whatever_the_order():
    one = replace(event(2.0, (7, 3, 5), sampling=Sampling.TURNS), weights=(0.1, 0.2, 0.3))
    ledger = ServerLedger.empty(devices=1000).after(one)
    assert ledger.ids.tolist() == [3, 5, 7]
    assert ledger.mu_squared == pytest.approx(np.array([0.2, 0.3, 0.1]) ** 2 / 4)


@pytest.mark.parametrize("weights", [(0.5,), (0.5, 0.0), (0.5, 1.1), (0.5, math.nan)])
def test_weights_are_one_number_from_0_to_1_for_each_participant(weights: tuple[float, ...]):
    with pytest.raises(InputError, match="weights"):
        replace(event(2.0, (1, 2)), weights=weights)


def test_in_turns_an_outsider_has_the_servers_figure_and_nothing_is_amplified():
    events = [event(2.0, (t % 5,), sampling=Sampling.TURNS) for t in range(20)]
    server, outside = (price(events, adversary=a, delta=1e-3) for a in (Adversary.SERVER, Adversary.OUTSIDER))
    assert outside.epsilon == server.epsilon == gaussian_epsilon(mu=1.0, delta=1e-3)
    assert outside.neighbours is Neighbours.DEVICE_EMPTIED
    assert outside.adversary is Adversary.OUTSIDER
    assert "no amplification" in outside.why
    all_figures = figures(**PAPER, delta=1e-3, rounds=300, noise_multiplier=2.0, sampling=Sampling.TURNS)
    assert all_figures["outsider"]["epsilon"] == all_figures["server"]["epsilon"]
    assert all_figures["server"]["participations"] == 10  # ⌈300/31⌉
    assert not all_figures["exact_per_round"]["valid"]


def test_turns_need_two_groups():
    with pytest.raises(InputError, match=r"at most 500 of 1000"):
        figures(devices=1000, cohort=501, delta=1e-3, rounds=300, noise_multiplier=2.0, sampling=Sampling.TURNS)
