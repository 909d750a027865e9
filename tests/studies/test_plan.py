"""The link budget: the same numbers that a run ends with, before anyone trains."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
import torch

import pfels as package
from pfels.config.load import load_config
from pfels.config.scheme_settings import used_by
from pfels.config.tree import Config
from pfels.data import datasets
from pfels.experiment import link, loop
from pfels.experiment.forecast import Forecast, forecast
from pfels.experiment.ledger import Ledger
from pfels.experiment.link import link_of
from pfels.privacy.calibration import Budget
from pfels.schemes.draws import CachedDraws
from pfels.schemes.plan import RoundResult
from pfels.schemes.registry import scheme_names
from pfels.studies.plan import assumed_losses, plan
from pfels.studies.theory import LossAssumptions, learning_rate_limit
from tests.conftest import small

PAPER = {
    "rounds": 60, "data.devices": 1000, "cohort.size": 32, "channel.gain_mean": 0.02, "channel.gain_min": 0.0001,
    "channel.gain_max": 0.1, "privacy.epsilon": 1.5,
}  # fmt: skip


def test_a_plan_has_the_promised_fields():
    planned = plan(small())
    assert planned["dimension"] == 8 * 64 + 8 + 80 + 10
    assert planned["kept"] == round(0.3 * planned["dimension"])
    assert list(planned["schemes"]) == scheme_names()
    for name, row in planned["schemes"].items():
        promised = {"beta", "privacy_limited_rounds", "energy", "subcarriers", "airtime_s", "noise_multiplier_min"}
        assert promised <= set(row), name
        assert row["beta"] is None or set(row["beta"]) == {"median", "min", "max"}


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
def test_a_plan_has_the_figures_that_the_run_ends_with(scheme: str, sampling: str):
    config = small(scheme=scheme, cohort__sampling=sampling)
    planned, ran = plan(config)["schemes"][scheme], loop.run(config)
    assert planned["subcarriers"] == ran.summary["subcarriers"]
    assert planned["airtime_s"] == ran.summary["airtime_s"]
    assert planned["privacy_limited_rounds"] == ran.summary["privacy_limited_rounds"]
    assert planned["noise_multiplier_min"] == ran.summary["privacy"]["noise_multiplier_min"]
    assert planned["energy"] == pytest.approx(ran.summary["energy_bound"])
    assert planned["privacy"]["server"] == ran.summary["privacy"]["server"]
    assert planned["privacy"]["outsider"] == ran.summary["privacy"]["outsider"]
    betas = [record["beta"] for record in ran.records if record["beta"] is not None]
    if betas:
        assert planned["beta"] == {"median": float(np.median(betas)), "min": min(betas), "max": max(betas)}


def test_a_forecast_counts_as_the_ledger_does(scheme: str):
    scheme_link = link_of(load_config("demo", used_by(scheme, PAPER) | {"scheme": scheme}), dimension=10**6)
    ledger, found = Ledger.empty(devices=1000), Forecast(1000)
    nothing = RoundResult(torch.zeros(0), None, 0, 0.0)
    for t in range(60):
        planned = scheme_link.scheme.prepare(scheme_link.draws, t)
        ledger = ledger.after(planned, nothing, slots=-(-planned.subcarriers // 3300))
        found.add(planned, subcarriers=3300)
    one, other = (each.summary(scheme_link.setting, slot_s=0.01) for each in (ledger, found.ledger()))
    assert one["energy_bound"] == pytest.approx(other["energy_bound"])
    exact = set(one) - {"energy", "energy_bound"}
    assert {key: one[key] for key in exact} == {key: other[key] for key in exact}


def test_cached_draws_are_the_draws():
    draws = link_of(load_config("demo", PAPER | {"data.devices": 5000}), dimension=1000).draws
    shared = CachedDraws(draws.setting, draws.seed)
    for t in (0, 3, 3, 1, 0):
        cohort = shared.cohort(t)
        assert np.array_equal(cohort, draws.cohort(t))
        assert np.array_equal(shared.gains(t, cohort), draws.gains(t, cohort))
        assert np.array_equal(shared.powers(cohort), draws.powers(cohort))
        assert np.array_equal(shared.powers(cohort[:3]), draws.powers(cohort[:3]))
        assert np.array_equal(shared.gains(t, cohort[:3]), draws.gains(t, cohort[:3]))


@pytest.mark.parametrize("options", [{"channel__silent_below": 0.05}, {"compression__kind": "public-top-k"}])
def test_what_only_pfels_plus_has_can_be_planned_on_a_budget(options: dict[str, Any]):
    """The bound's own reference, PFELS, is planned beside it without these options."""
    config = small(scheme="pfels-plus", **options)
    planned = plan(config, schemes=["pfels-plus"], budget=Budget(8.0, "server"))
    plain = plan(small(scheme="pfels-plus"), schemes=["pfels-plus"], budget=Budget(8.0, "server"))
    assert planned["theory"] == plain["theory"]
    assert (planned["schemes"] == plain["schemes"]) == ("compression__kind" in options)


def test_the_shares_of_the_limits_are_counts_of_rounds():
    row = plan(load_config("demo", {"rounds": 60}))["schemes"]["wfl-pdp"]
    assert 0 < row["limits"]["privacy"] < 1
    assert row["limits"]["privacy"] * 60 == pytest.approx(row["privacy_limited_rounds"])
    assert sum(row["limits"].values()) == pytest.approx(1.0)


def test_no_privacy_figure_comes_without_adversary_neighbours_and_delta():
    for row in plan(small())["schemes"].values():
        figures = [row["privacy"][key] for key in ("claimed", "exact_per_round", "server", "outsider")]
        for figure in filter(None, figures):
            assert {"epsilon", "delta", "adversary", "neighbours", "valid", "why"} <= set(figure)


@pytest.mark.parametrize("eta", [0.01, 0.1])
def test_energy_and_the_preferred_share_do_not_depend_on_the_learning_rate(eta: float):
    one, other = plan(small()), plan(small(training__learning_rate=eta))
    for name in ("pfels", "wfl-p", "wfl-pdp"):
        assert one["schemes"][name]["energy"] == pytest.approx(other["schemes"][name]["energy"])
    for name in ("printed", "corrected"):
        best = [each["theory"]["bounds"][name]["best"]["kept"] for each in (one, other)]
        assert best[0] == best[1]


def test_both_bounds_prefer_the_same_share_since_both_errors_shrink_by_r_in_print():
    bounds = plan(load_config("demo", PAPER))["theory"]["bounds"]
    assert bounds["printed"]["best"]["kept"] == bounds["corrected"]["best"]["kept"]
    for term in ("compression", "privacy"):
        assert bounds["corrected"]["here"][term] == pytest.approx(32 * bounds["printed"]["here"][term])


def test_given_losses_replace_the_assumed_ones():
    losses = LossAssumptions(
        smoothness=5.0, gradient_variance=0.2, gamma_squared=2.0, kappa_squared=0.3, initial_gap=1.0
    )
    theory = plan(small(), losses=losses)["theory"]
    assert theory["assumed"] == vars(losses)
    assert not theory["learning_rate_covered"]
    planned = plan(small())
    assert planned["theory"]["learning_rate_covered"]
    lost = 1 - planned["kept"] / planned["dimension"]
    assert theory["learning_rate_limit"] == learning_rate_limit(losses, local_steps=5, lost=lost)


def test_what_is_assumed_of_the_losses_is_the_worst_that_clipping_allows():
    assert assumed_losses(small(training__clip=3.0)).gradient_variance == 9.0
    assert assumed_losses(small(training__clip=3.0)).kappa_squared == 0.0
    assert assumed_losses(small(training__clip=3.0, data__partition="dirichlet")).kappa_squared == 9.0
    assert assumed_losses(small()).initial_gap == pytest.approx(math.log(10))


def test_the_known_shapes_are_those_of_the_data_at_hand():
    loaded = datasets.load("digits")
    assert link.example(small()) == (loaded.shape, loaded.classes)


def test_a_user_s_own_data_are_read_for_their_shape(tmp_path: Any):
    x, y = np.zeros((6, 5), np.float32), np.arange(6) % 3
    np.savez(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    config: Config = small(data__name="file", data__path=str(tmp_path / "own.npz"), data__devices=8)
    assert link.model_dimension(config) == 5 * 8 + 8 + 8 * 3 + 3


def test_a_plan_does_not_depend_on_which_schemes_are_asked_for():
    assert plan(small(), schemes=["wfl-p"])["schemes"]["wfl-p"] == plan(small())["schemes"]["wfl-p"]


def test_a_plan_does_not_wait_for_pytorch():
    program = (
        "import sys; import pfels.paper.reproduce; from pfels.config.load import load_config; "
        "from pfels.studies.plan import plan; "
        "plan(load_config('demo', {'rounds': 3})); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_public_name_is_the_function():
    assert package.plan is plan


def test_no_rounds_are_left_out():
    found = forecast({"pfels": link_of(small(), dimension=100)}, rounds=7, subcarriers=3300)["pfels"]
    assert len(found.energies) == len(found.betas) == 7


def test_what_is_no_config_is_refused_by_name():
    with pytest.raises(package.InputError, match="must be a Config"):
        package.run("demo")  # type: ignore[arg-type]
    with pytest.raises(package.InputError, match="seeds: must be at least one"):
        package.compare("demo", seeds=[])


def test_a_preset_and_a_config_are_planned_alike():
    """Except for what the preset holds for single schemes: a config is that of one scheme."""
    names = ["pfels", "wfl-p", "wfl-pdp", "dp-fedavg", "fedavg", "pfels-plus"]
    config = load_config("demo", {"rounds": 5})
    assert package.plan("demo", schemes=names, overrides={"rounds": 5}) == package.plan(config, schemes=names)


def test_an_override_goes_to_the_schemes_that_use_it_and_is_refused_where_none_does():
    changed = {"rounds": 5, "privacy.epsilon": 0.1, "channel.silent_below": 0.3}
    plain, moved = plan("demo", overrides={"rounds": 5})["schemes"], plan("demo", overrides=changed)["schemes"]
    own = {"pfels", "wfl-pdp", "dp-fedavg", "pfels-plus", "pfels-echo"}
    assert {name for name in plain if plain[name] != moved[name]} == own
    with pytest.raises(package.InputError, match="none of pfels, fedavg uses it, only pfels-plus"):
        plan("demo", schemes=["pfels", "fedavg"], overrides={"channel.silent_below": 0.3})


def test_plan_answers_in_json_and_in_words(pfels: Callable[..., CompletedProcess[str]]):
    answer = pfels("plan", "demo", "-s", "rounds=20", "--json")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["dimension"] == 2410
    told = pfels("plan", "demo", "-s", "rounds=20", "--schemes", "pfels,fedavg")
    assert told.returncode == 0
    words = " ".join(told.stdout.split())
    assert "device's data emptied" in words
    assert "Every ε is at δ = 0.01." in words
    assert "prefers p =" in words


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["--schemes", "pfels,nosuch"], "nosuch"),
        (["-s", "compression.ratio=1.4"], "compression.ratio"),
        (["nosuch"], "nosuch"),
    ],
)
def test_wrong_input_ends_in_one_line_and_exit_code_two(
    pfels: Callable[..., CompletedProcess[str]], arguments: list[str], culprit: str
):
    answer = pfels("plan", *arguments)
    assert answer.returncode == 2
    assert culprit in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1


def test_the_convergence_bound_is_that_of_pfels_whatever_schemes_are_asked_for(
    pfels: Callable[..., CompletedProcess[str]],
):
    """Settings that a preset holds for another scheme alone do not enter it."""
    alone, together = (
        json.loads(pfels("plan", "demo", "-s", "rounds=5", "--schemes", names, "--json").stdout)["theory"]
        for names in ("pfels", "pfels,pfels-echo")
    )
    assert alone == together
