"""Theorems about round events and about what the paper claims for a round."""

import dataclasses
import math
from decimal import ROUND_CEILING, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfels.errors import InputError
from pfels.privacy import claim as privacy_claim
from pfels.privacy import events
from pfels.privacy.accountant import exact_per_round
from pfels.privacy.events import Adversary, Neighbours, PrivacyLoss, RoundEvent, Sampling, rounded_up
from pfels.privacy.figures import claimed_figure, exact_figure

PAPER = {"delta": 1e-3, "devices": 1000, "cohort": 32}
# Claimed ε, noise multiplier, exact ε to the digits printed in docs/privacy.md.
TABLE = [
    (0.05, "3.4768", "0.010"),
    (0.1, "1.7384", "0.039"),
    (0.5, "0.3477", "5.30"),
    (1.0, "0.1739", "22.96"),
    (1.5, "0.1159", "48.96"),
    (2.0, "0.0870", "83.3"),
]


def as_printed(value: float, like: str) -> str:
    """Rounded up."""
    unit = Decimal(1).scaleb(-len(like.split(".")[1]))
    return str(Decimal(value).quantize(unit, ROUND_CEILING))


def event(**changes: object) -> RoundEvent:
    plain = RoundEvent(
        noise_multiplier=2.0,
        server_noise_multiplier=2.0,
        devices=10,
        cohort_size=3,
        sampling=Sampling.WITHOUT_REPLACEMENT,
        participants=(1, 4, 7),
        cohort_dependent=False,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("claimed", "multiplier", "exact"), TABLE)
def test_the_claim_and_the_exact_figure_are_those_of_the_table(claimed: float, multiplier: str, exact: str):
    z = privacy_claim.claimed_noise_multiplier(epsilon=claimed, **PAPER)
    assert as_printed(z, multiplier) == multiplier
    assert as_printed(exact_per_round(noise_multiplier=z, **PAPER), exact) == exact


def test_no_claim_of_the_papers_experiments_is_valid():
    assert privacy_claim.claim_valid_below(devices=1000, cohort=32) == 0.064
    for epsilon, valid in [(0.05, True), (0.0639, True), (0.064, False), (0.1, False), (1.5, False), (10.0, False)]:
        assert privacy_claim.claim_is_valid(epsilon=epsilon, **PAPER) is valid
    assert not privacy_claim.claim_is_valid(epsilon=0.01, delta=0.032, devices=1000, cohort=32)  # δ₀ = 1


cohorts = st.tuples(st.integers(1, 2000), st.floats(0.001, 1)).map(lambda t: (t[0], max(1, int(t[0] * t[1]))))


@given(cohorts, st.floats(0.001, 0.999), st.floats(1e-12, 0.99))
@settings(deadline=None, max_examples=50)
def test_within_its_range_the_paper_claims_no_less_than_is_lost(sizes, share: float, delta_share: float):
    """Where the theorem holds it is an upper bound on the exact figure with the same sensitivity and amplification."""
    devices, cohort = sizes
    delta = delta_share * cohort / devices
    epsilon = share * privacy_claim.claim_valid_below(devices=devices, cohort=cohort)
    at = {"delta": delta, "devices": devices, "cohort": cohort}
    assert privacy_claim.claim_is_valid(epsilon=epsilon, **at)
    z = privacy_claim.claimed_noise_multiplier(epsilon=epsilon, **at)
    assert exact_per_round(noise_multiplier=z, **at) <= epsilon


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 1.5, 2.0])
def test_beyond_its_range_the_paper_claims_less_than_is_lost(epsilon: float):
    z = privacy_claim.claimed_noise_multiplier(epsilon=epsilon, **PAPER)
    assert exact_per_round(noise_multiplier=z, **PAPER) > 10 * epsilon


@given(cohorts, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_claimed_epsilon_noise_multiplier_and_beta_are_one_thing(sizes, epsilon: float, bound: float, noise_std: float):
    devices, cohort = sizes
    at = {"delta": 0.1 * cohort / devices, "devices": devices, "cohort": cohort}
    z = privacy_claim.claimed_noise_multiplier(epsilon=epsilon, **at)
    assert math.isclose(privacy_claim.claimed_epsilon(noise_multiplier=z, **at), epsilon)
    beta = epsilon / privacy_claim.c2(bound=bound, noise_std=noise_std, **at)  # eq. (20)
    assert math.isclose(events.noise_multiplier_at(beta=beta, bound=bound, noise_std=noise_std), z)
    assert math.isclose(events.beta_at(noise_multiplier=z, bound=bound, noise_std=noise_std), beta)


def test_c2_is_the_papers_formula():
    printed = 2 * math.sqrt(2) * 0.25 * 32 * math.sqrt(math.log(1.25 * 32 / (1000 * 1e-3))) / (1000 * 1.5)  # eq. (21)
    assert math.isclose(privacy_claim.c2(bound=0.25, noise_std=1.5, **PAPER), printed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon = 0: must be a finite number > 0"),
        ({"epsilon": -1.0}, "epsilon = -1: must be a finite number > 0"),
        ({"epsilon": math.nan}, "epsilon = nan: must be a finite number > 0"),
        ({"epsilon": math.inf}, "epsilon = inf: must be a finite number > 0"),
        ({"delta": 0.0}, r"delta = 0: must be in \(0, 1\)"),
        ({"delta": 1.0}, r"delta = 1: must be in \(0, 1\)"),
        ({"delta": math.nan}, r"delta = nan: must be in \(0, 1\)"),
        ({"delta": 0.5}, "delta = 0.5: must be below 1.25·cohort/devices = 0.04"),
        ({"cohort": 1001}, "cohort = 1001: must be a whole number from 1 to 1000"),
        ({"cohort": 0}, "cohort = 0: must be a whole number from 1 to 1000"),
        ({"devices": 0}, "devices = 0: must be a whole number of at least 1"),
    ],
)
def test_wrong_numbers_are_named_in_one_line(changes: dict[str, float], message: str):
    arguments = {"epsilon": 1.0} | PAPER | changes
    with pytest.raises(InputError, match=message) as caught:
        privacy_claim.claimed_noise_multiplier(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("z", [0.0, -2.0, math.nan, math.inf])
def test_a_noise_multiplier_is_positive_and_finite(z: float):
    with pytest.raises(InputError, match=r"noise_multiplier = .*: must be a number from"):
        privacy_claim.claimed_epsilon(noise_multiplier=z, **PAPER)


def test_an_event_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        event().noise_multiplier = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    "changes",
    [
        {"noise_multiplier": -1.0},
        {"server_noise_multiplier": math.nan},
        {"cohort_size": 11},
        {"participants": (1, 1)},
        {"participants": (0, 10)},
        {"participants": (-1, 2)},
        {"participants": (1, 2, 3, 4)},
    ],
)
def test_an_impossible_event_is_refused(changes: dict[str, object]):
    with pytest.raises(InputError):
        event(**changes)


def test_a_poisson_cohort_may_be_empty_or_larger_than_expected():
    for who in ((), (0, 1, 2, 3, 4, 5)):
        assert event(sampling=Sampling.POISSON, participants=who).participants == who


def test_a_round_without_noise_is_an_event():
    assert event(noise_multiplier=0.0, server_noise_multiplier=0.0).noise_multiplier == 0


def test_every_adversary_and_relation_explains_itself():
    for kind in (*Adversary, *Neighbours):
        assert len(kind.sentence) > 20


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [
        (5.5871, "5.588"),
        (0.0097, "0.0097"),
        (99.9, "99.9"),
        (17583.4, "more than 100 (at most 17,584)"),
        (None, "none"),
    ],
)
def test_past_100_a_loss_says_so(epsilon: float | None, shown: str):
    loss = PrivacyLoss(Adversary.SERVER, Neighbours.DEVICE_EMPTIED, 1e-3, epsilon, "gaussian", "because")
    assert loss.display == shown
    assert loss.exceeds_100 == (shown[:4] == "more")
    assert loss.as_dict()["adversary"] == "server"
    assert loss.as_dict()["delta"] == 1e-3
    assert ("reason" in loss.as_dict()) == (epsilon is None)
    fixed_size = PrivacyLoss(Adversary.OUTSIDER, Neighbours.REPLACE_ONE, 1e-3, epsilon, "rdp", "because")
    assert fixed_size.display == shown.replace("more than", "no bound below")


def test_figures_name_whom_they_are_about():
    assert Adversary.OUTSIDER.sentence.startswith("an outsider, who sees every released model")
    assert Adversary.SERVER.sentence.startswith("the server")
    assert Neighbours.REPLACE_ONE.sentence.endswith("at most 2s")
    numbers = {"delta": 1e-3, "devices": 1000, "cohort": 32}
    claim = claimed_figure(2.0, None, **numbers)
    exact = [
        exact_figure(2.0, **numbers, sampling=sampling, cohort_dependent=dependent)
        for sampling in Sampling for dependent in (False, True)
    ]  # fmt: skip
    assert (claim["adversary"], claim["neighbours"]) == ("server", "add-remove")
    assert {figure["adversary"] for figure in exact} == {"outsider"}
    assert [figure["valid"] for figure in exact] == [
        sampling is Sampling.POISSON and not dependent for sampling in Sampling for dependent in (False, True)
    ]


@given(st.floats(1e-6, 1e6), st.integers(1, 6))
def test_an_upper_bound_is_rounded_up_and_by_no_more_than_its_last_digit(value: float, digits: int):
    shown = rounded_up(value, digits=digits)
    assert value <= shown <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)
    assert float(f"{shown:.{digits}g}") == shown
