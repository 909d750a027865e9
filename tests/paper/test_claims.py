"""Verdicts on the paper's claims, from constructed values per seed."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pfels.cli.reproduce import _verdict
from pfels.documents.paper import Claim
from pfels.paper import claims
from pfels.paper.benchmarks import CIFAR10, NAMES
from pfels.paper.curve_claims import of_curves
from pfels.paper.printed import Measured
from pfels.paper.seeds import known_over_seeds, over_seeds

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"


def measured(
    energy: Sequence[float],
    accuracy: Sequence[float] | None = None,
    loss: Sequence[float | None] = (),
    *,
    subcarriers: float = 600,
) -> Measured:
    accuracies = None if accuracy is None else over_seeds(accuracy)
    return Measured(accuracies, subcarriers, over_seeds(energy), known_over_seeds(loss) if loss else None)


def point(scheme: str, accuracies: Sequence[float], **more: Any) -> Any:
    """As much of a trained point as the claims look at."""
    return {"scheme": scheme, "accuracy": over_seeds(accuracies), **more}


def about(found: Sequence[Claim], words: str) -> Claim:
    (claim,) = [each for each in found if words in each["claim"]]
    return claim


def close_energy(wfl_p: Sequence[float]) -> Claim:
    """The claim about printed energies, if PFELS and WFL-PDP have exactly those and WFL-P has these times its own."""
    found = {name: measured([row["energy"]] * len(wfl_p)) for name, row in CIFAR10.printed.items()}
    found["wfl-p"] = measured([factor * CIFAR10.printed["wfl-p"]["energy"] for factor in wfl_p])
    return about(list(claims.of_table("here", found, CIFAR10.printed)), "within 6%")


# tables


def test_an_energy_within_six_percent_must_be_so_by_two_standard_errors():
    sure, unsure, missed = close_energy([0.96, 0.98]), close_energy([0.92, 0.98]), close_energy([0.90, 0.91])
    assert (sure["verdict"], unsure["verdict"], missed["verdict"]) == (HOLDS, UNDECIDED, FAILS)
    assert sure["by"] == pytest.approx(0.03)
    assert sure["standard_error"] == pytest.approx(0.01)
    assert unsure["standard_error"] == pytest.approx(0.03)
    assert missed["by"] == pytest.approx(-0.035)
    assert "farthest off: WFL-P" in missed["claim"]


def test_least_energy_is_judged_seed_by_seed_against_the_next():
    # The seeds differ far more than the schemes; within each seed PFELS saves a tenth, or a ninth.
    found = {"pfels": measured([90, 800]), "wfl-p": measured([150, 1500]), "wfl-pdp": measured([100, 900])}
    claim = about(list(claims.of_table("here", found, None)), "PFELS uses the least energy")
    assert claim["verdict"] == HOLDS
    assert claim["by"] == pytest.approx((0.1 + 1 / 9) / 2)
    assert claim["standard_error"] == pytest.approx((1 / 9 - 0.1) / 2)
    assert claim["unit"] == "share of WFL-PDP's energy"


def test_channel_uses_need_no_seeds():
    found = {
        name: measured([row["energy"]], subcarriers=row["subcarriers"]) for name, row in CIFAR10.printed.items()
    }  # fmt: skip
    same = about(list(claims.of_table("here", found, CIFAR10.printed)), "channel uses")
    found["pfels"] = measured([1.0], subcarriers=602)
    other = about(list(claims.of_table("here", found, CIFAR10.printed)), "channel uses")
    assert (same["verdict"], same["by"], same["standard_error"]) == (HOLDS, 0.5, 0.0)
    assert (other["verdict"], other["by"]) == (FAILS, -1.5)


def table_of(pfels: Sequence[float], losses: Sequence[float | None] = (0.5, 0.5)) -> list[Claim]:
    """The claims about a table in which only the accuracies and losses of PFELS vary."""
    found = {
        "pfels": measured([1.0] * len(pfels), pfels, losses[: len(pfels)]),
        "wfl-p": measured([2.0] * len(pfels), [0.70, 0.80][: len(pfels)], [0.7, 0.6][: len(pfels)]),
        "wfl-pdp": measured([2.0] * len(pfels), [0.60, 0.70][: len(pfels)], [0.8, 0.9][: len(pfels)]),
    }
    return list(claims.of_table("here", found, None))


@pytest.mark.parametrize(
    ("pfels", "verdict", "by", "error"),
    [
        ((0.72, 0.83), HOLDS, 0.025, 0.005),
        ((0.68, 0.77), FAILS, -0.025, 0.005),
        ((0.72, 0.79), UNDECIDED, 0.005, 0.015),
        ((0.99,), UNDECIDED, 0.29, None),
    ],
)
def test_the_most_accurate_is_judged_seed_by_seed_against_the_best_rival(
    pfels: Sequence[float], verdict: str, by: float, error: float | None
):
    claim = about(table_of(pfels), "PFELS is the most accurate (best rival: WFL-P)")
    assert claim["verdict"] == verdict
    assert claim["by"] == pytest.approx(by)
    assert claim["standard_error"] == (None if error is None else pytest.approx(error))


@pytest.mark.parametrize(
    ("losses", "verdict", "by"),
    [
        ((0.6, 0.48), HOLDS, 0.11),
        ((0.8, 0.72), FAILS, -0.11),
        ((0.6, 0.7), UNDECIDED, 0.0),
        ((0.1, None), UNDECIDED, None),
    ],
)
def test_the_lowest_test_loss_is_judged_beside_the_accuracy(
    losses: Sequence[float | None], verdict: str, by: float | None
):
    claim = about(table_of((0.8, 0.8), losses), "PFELS has the lowest test loss")
    assert claim["verdict"] == verdict
    assert claim["by"] == (None if by is None else pytest.approx(by))


def test_without_training_nothing_is_claimed_of_accuracy_and_loss():
    found = {name: measured([1.0, 2.0]) for name in NAMES}
    assert not any(each["unit"] in ("accuracy", "loss") for each in claims.of_table("here", found, None))


# figures


def test_the_best_p_must_be_an_inner_one_in_every_seed_alike():
    def claim(*inner: float) -> Claim:
        points = [point("pfels", a, ratio=p) for p, a in ((0.1, (0.5, 0.6)), (0.5, inner), (1.0, (0.6, 0.7)))]
        (found,) = claims.of_compression("here", points)
        return found

    one, other, open_ = claim(0.7, 0.8), claim(0.5, 0.6), claim(0.5, 0.9)
    assert [one["verdict"], other["verdict"], open_["verdict"]] == [HOLDS, FAILS, UNDECIDED]
    assert one["by"] == pytest.approx(0.1)
    assert "p = 0.5 against p = 1" in one["claim"]
    assert open_["standard_error"] == pytest.approx(0.15)


def test_the_claims_about_epsilon_are_judged_at_their_worst():
    def verdicts(pfels: tuple[float, float], wfl_pdp: tuple[float, float]) -> list[tuple[str, float]]:
        points = [
            point(scheme, (a, a + 0.1), printed_epsilon=e)
            for scheme, accuracies in (("pfels", pfels), ("wfl-pdp", wfl_pdp), ("wfl-p", (0.7, 0.7)))
            for e, a in zip((0.25, 2.5), accuracies, strict=True)
        ]
        found = claims.of_privacy("here", points, CIFAR10)
        return [(each["verdict"], round(each["by"] or 0.0, 3)) for each in found]

    assert verdicts((0.6, 0.8), (0.5, 0.7)) == [
        (HOLDS, 0.1), (HOLDS, 0.2), (HOLDS, 0.2), (HOLDS, 0.01), (HOLDS, 0.1),
    ]  # fmt: skip
    assert verdicts((0.4, 0.69), (0.5, 0.6)) == [
        (FAILS, -0.1), (HOLDS, 0.29), (HOLDS, 0.1), (FAILS, -0.09), (FAILS, -0.01),
    ]  # fmt: skip


def test_rounds_that_privacy_limits_are_counted_for_each_seed():
    def claim(*shares: float) -> Claim:
        points: list[Any] = [{"scheme": "wfl-pdp", "epsilon": 2.5, "privacy_limited_shares": list(shares)}]
        (found,) = claims.of_levels("here", points, CIFAR10)
        return found

    assert [claim(0.1, 0.12)["verdict"], claim(0.8, 0.81)["verdict"]] == [HOLDS, FAILS]
    assert [claim(0.1, 0.8)["verdict"], claim(0.1)["verdict"]] == [UNDECIDED, UNDECIDED]


def test_the_minimum_of_the_bound_is_inside_or_not():
    (inside,) = claims.of_bounds("here", (0.1, 1.0), 0.3, 0.3)
    (outside,) = claims.of_bounds("here", (0.1, 1.0), 0.01, 0.3)
    assert (inside["verdict"], outside["verdict"]) == (HOLDS, FAILS)
    assert outside["by"] == pytest.approx(-0.09)


# curves


def curve(scheme: str, accuracies: Sequence[Sequence[float]], losses: Sequence[Sequence[float | None]]) -> list[Any]:
    """Points at rounds 10, 20, …, with those of all seeds. A point costs PFELS 3 d and 1 J, others 10 and 2."""
    uses, joules = (3, 1.0) if scheme == "pfels" else (10, 2.0)
    return [
        {
            "scheme": scheme,
            "round": 10 * i,
            "subcarriers": uses * i,
            "energy": over_seeds([joules * i] * len(accuracy)),
            "accuracy": over_seeds(accuracy),
            "train_losses": list(loss),
        }
        for i, (accuracy, loss) in enumerate(zip(accuracies, losses, strict=True), 1)
    ]


SLOW = [(0.1, 0.2), (0.2, 0.3), (0.5, 0.6)]
FALLING = [(2.0, 2.1), (1.5, 1.6), (1.0, 1.1)]
RIVALS = [*curve("wfl-p", SLOW, FALLING), *curve("wfl-pdp", SLOW, FALLING)]


def verdicts(pfels: list[Any], axes: Sequence[str]) -> Mapping[str, Claim]:
    return {each["claim"]: each for each in of_curves("here", [*pfels, *RIVALS], axes)}


def test_what_a_scheme_needs_is_found_on_each_seed_s_own_curve():
    # Seed 0 gets as far as WFL-PDP in the end after 10 rounds, seed 1 after 20; both losses after 20.
    pfels = curve("pfels", [(0.5, 0.4), (0.6, 0.7), (0.6, 0.7)], [(1.8, 1.8), (0.9, 1.0), (0.8, 0.9)])
    found = verdicts(pfels, ("round", "subcarriers", "energy"))
    rounds = found["PFELS needs the fewest rounds to reach WFL-PDP's final accuracy (best rival: WFL-P)"]
    assert (rounds["verdict"], rounds["by"], rounds["standard_error"]) == (HOLDS, 15.0, pytest.approx(5.0))
    uses = found["PFELS needs the fewest channel uses to reach WFL-PDP's final training loss (best rival: WFL-P)"]
    assert (uses["verdict"], uses["by"], uses["standard_error"]) == (HOLDS, 24.0, 0.0)
    energy = found["PFELS needs the least energy to reach WFL-PDP's final training loss (best rival: WFL-P)"]
    assert (energy["verdict"], energy["by"]) == (HOLDS, 4.0)
    loss = found["PFELS ends with the lowest training loss (best rival: WFL-P)"]
    assert (loss["verdict"], loss["by"]) == (HOLDS, pytest.approx(0.2))


def test_a_cheap_scheme_that_never_gets_there_does_not_need_the_fewest_channel_uses():
    pfels = curve("pfels", [(0.1, 0.1)] * 3, [(2.0, 2.0)] * 3)
    found = list(verdicts(pfels, ("subcarriers",)).values())
    for claim in found[1:]:
        assert "PFELS never reached it in 2 of 2 seeds" in claim["claim"]
        assert (claim["verdict"], claim["by"]) == (FAILS, 30.0 - 60.0)
    assert found[0]["verdict"] == FAILS


def test_a_scheme_that_gets_there_with_one_seed_alone_leaves_it_undecided():
    pfels = curve("pfels", [(0.6, 0.1)] * 3, [(0.5, 2.0)] * 3)
    claim = list(verdicts(pfels, ("subcarriers",)).values())[1]
    assert (claim["verdict"], claim["by"]) == (UNDECIDED, ((30 - 3) + (30 - 60)) / 2)
    assert "1 of 2 seeds" in claim["claim"]


def test_a_diverged_run_leaves_the_claims_about_its_loss_undecided():
    points = [
        *curve("pfels", SLOW, FALLING), *curve("wfl-p", SLOW, FALLING),
        *curve("wfl-pdp", SLOW, [(2.0, 2.1), (1.5, 1.6), (None, 1.1)]),
    ]  # fmt: skip
    found = {each["claim"]: each for each in of_curves("here", points, ("round",))}
    for text in (
        "PFELS ends with the lowest training loss",
        "PFELS needs the fewest rounds to reach WFL-PDP's final training loss",
    ):
        assert (found[text]["verdict"], found[text]["by"], found[text]["standard_error"]) == (UNDECIDED, None, None)


def test_one_seed_decides_nothing_about_curves():
    points = [
        *curve("pfels", [(0.9,), (0.9,)], [(0.1,), (0.1,)]),
        *curve("wfl-p", [(0.1,), (0.2,)], [(2.0,), (1.0,)]),
        *curve("wfl-pdp", [(0.1,), (0.2,)], [(2.0,), (1.0,)]),
    ]
    found = list(of_curves("here", points, ("round", "subcarriers")))
    assert {each["verdict"] for each in found} == {UNDECIDED}
    assert found[0]["by"] == pytest.approx(0.9)


# words


@pytest.mark.parametrize(
    ("verdict", "by", "error", "said"),
    [
        (HOLDS, 0.1, 0.02, "here: it is so: holds, margin +0.1 ± 0.02 (d)"),
        (FAILS, -0.1, 0.02, "here: it is so: does NOT hold, margin -0.1 ± 0.02 (d)"),
        (UNDECIDED, 0.1, 0.08, "here: it is so: undecided, margin +0.1 ± 0.08 (d)"),
        (UNDECIDED, 0.1, None, "here: it is so: undecided, margin +0.1 (d), one seed"),
        (UNDECIDED, None, None, "here: it is so: undecided, no margin, because a run diverged"),
    ],
)
def test_a_verdict_is_said_in_words(verdict: str, by: float | None, error: float | None, said: str):
    claim: Claim = {
        "where": "here", "claim": "it is so", "verdict": verdict, "by": by, "standard_error": error, "unit": "d",
    }  # fmt: skip
    assert _verdict(claim) == said
