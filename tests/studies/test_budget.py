"""A common budget brings every private scheme to the same certified figure, and none above it."""

import pytest

from pfels.privacy.calibration import Budget
from pfels.privacy.events import Adversary
from pfels.studies.budget import with_budget
from pfels.studies.compare import compare
from pfels.studies.plan import plan
from tests.conftest import SMALL, small

PRIVATE = ["pfels", "wfl-pdp", "dp-fedavg", "pfels-plus"]


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("epsilon", [0.5, 4.0, 30.0])
def test_the_worst_device_just_meets_the_budget_against_the_server(name: str, epsilon: float):
    planned = plan(small(rounds=60), schemes=[name], budget=Budget(epsilon, Adversary.SERVER))
    spent = planned["schemes"][name]["privacy"]["server"]["epsilon"]
    assert spent <= epsilon
    if planned["schemes"][name]["limits"].get("power", 0) < 1:
        assert spent > 0.9 * epsilon


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("seed", [1, 4])
def test_the_budget_is_met_whatever_the_size_of_the_first_poisson_cohort(name: str, seed: int):
    config = small(rounds=100, seed=seed, cohort__sampling="poisson")
    planned = plan(config, schemes=[name], budget=Budget(8.0, Adversary.SERVER))["schemes"][name]
    assert 0.99 * 8 < planned["privacy"]["server"]["epsilon"] <= 8.0


@pytest.mark.parametrize("name", PRIVATE)
def test_rounds_in_which_nobody_takes_part_cost_no_one_anything(name: str):
    config = small(rounds=20, cohort__size=1, cohort__sampling="poisson", privacy__delta=0.001)
    planned = plan(config, schemes=[name], budget=Budget(8.0, Adversary.SERVER))["schemes"][name]
    assert planned["privacy"]["server"]["epsilon"] <= 8.0


@pytest.mark.parametrize("name", PRIVATE)
def test_a_budget_can_be_put_on_a_hundred_thousand_devices(name: str):
    config = small(rounds=20, data__devices=100_000, data__name="synthetic", cohort__size=100)
    planned = plan(config, schemes=[name], budget=Budget(8.0, Adversary.SERVER))["schemes"][name]
    assert planned["privacy"]["server"]["epsilon"] <= 8.0


def test_against_an_outsider_the_servers_figure_counts_where_there_is_no_other():
    planned = plan(small(rounds=60), schemes=PRIVATE, budget=Budget(2.0, Adversary.OUTSIDER))["schemes"]
    for name in ("pfels", "wfl-pdp"):
        assert 1.9 < planned[name]["privacy"]["server"]["epsilon"] <= 2
    for name in ("dp-fedavg", "pfels-plus"):
        assert 1.9 < planned[name]["privacy"]["outsider"]["epsilon"] <= 2


@pytest.mark.parametrize("name", ["wfl-p", "fedavg"])
def test_schemes_without_privacy_stay_as_they_are(name: str):
    config = small(scheme=name)
    moved = with_budget(config, Budget(1.0, Adversary.SERVER))
    assert moved.privacy.epsilon == config.privacy.epsilon
    assert moved.compression == config.compression


def test_compare_runs_on_a_commwith_budget(tmp_path):
    table = compare(
        "demo", schemes=PRIVATE, seeds=[0, 1], overrides=SMALL, out=tmp_path, budget=Budget(3.0, Adversary.SERVER)
    )
    for row in table["schemes"].values():
        assert 2.5 < row["privacy"]["server"]["epsilon"] <= 3.0


def test_a_budget_must_be_positive(pfels):
    done = pfels("compare", "demo", "--total-epsilon", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--total-epsilon = 0" in done.stderr
