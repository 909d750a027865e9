"""The link budget: the same numbers that a run ends with, before anyone trains."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
import torch

import pfels as package
from pfels.cli.plan import command as plan_command
from pfels.config.load import load_config
from pfels.config.scheme_settings import used_by
from pfels.config.tree import Config
from pfels.data import datasets
from pfels.experiment import link, loop
from pfels.experiment.forecast import Forecast, forecast
from pfels.experiment.ledger import Ledger
from pfels.experiment.link import link_of
from pfels.privacy.calibration import Budget
from pfels.report.text import duration, joules, short
from pfels.schemes.draws import CachedDraws
from pfels.schemes.memory import Memory
from pfels.schemes.plan import RoundResult
from pfels.schemes.registry import scheme_names
from pfels.schemes.round import play as play_round
from pfels.studies.plan import assumed_losses, plan
from pfels.studies.theory import BOUNDS, LossAssumptions, learning_rate_limit
from pfels.training.updates import LocalUpdates
from pfels.uplink.frame import Frame
from tests.conftest import WholeCohort, small

FRAME = Frame.paper(subcarriers=3300, spacing_hz=15e3, slot_s=0.01)
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
    ledger, found = Ledger.empty(devices=1000), Forecast(scheme_link.setting)
    nothing = RoundResult(torch.zeros(0), None, 0, 0.0)
    for t in range(60):
        planned = scheme_link.scheme.prepare(scheme_link.draws, t)
        ledger = ledger.after(planned, nothing, slots=-(-planned.subcarriers // 3300))
        found.add(planned, frame=FRAME)
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
    of_sum = {"noise_ratio_sum", "noise_ratio_coordinate"}  # which the kind of index set changes
    rows = [{k: v for k, v in p["schemes"]["pfels-plus"].items() if k not in of_sum} for p in (planned, plain)]
    assert (rows[0] == rows[1]) == ("compression__kind" in options)


class Zero(WholeCohort):
    """Devices that learn nothing: what arrives is noise alone."""

    def cohort(self, theta: torch.Tensor, devices: list[int], orders: object) -> Iterator[Any]:
        yield LocalUpdates(slice(0, len(devices)), torch.zeros(len(devices), len(theta)), np.zeros(len(devices)))


ECHO = {"scheme": "pfels-echo", "cohort__size": 5}
NOISY = [
    *({"scheme": name, "compression__ratio": 0.3} for name in ("pfels", "pfels-plus")),
    {"scheme": "pfels-plus", "compression__ratio": 0.3, "privacy__adversary": "server"},
    *({"scheme": name} for name in ("wfl-p", "wfl-pdp", "dp-fedavg", "artificial-noise", "truncated-inversion")),
    {"scheme": "dp-fedavg", "cohort__sampling": "poisson"},
    {"scheme": "wfl-pdp", "server__learning_rate": 0.5},
    *({**ECHO, "compression__ratio": ratio} for ratio in (1.0, 0.5, 0.34)),
    {**ECHO, "compression__ratio": 1.0, "pfels-echo__bands": 3, "pfels-echo__weights": "optimised"},
    {**ECHO, "compression__ratio": 1.0, "channel__silent_below": 0.08},
]


@pytest.mark.parametrize("changes", NOISY, ids=lambda changes: "-".join(str(value) for value in changes.values()))
def test_noise_ratios_are_those_of_rounds_in_which_nothing_but_noise_arrives(changes: dict[str, Any]):
    """d = 2,410 coordinates are as many samples, so a norm is within 5/√(2d) of what is predicted, in 5 of 10⁷ cases;
    of the median over the rounds, each with at least 0.3·d coordinates, that is more than is needed."""
    config, rounds = small(model__hidden=32, rounds=20, **changes), 20
    planned = plan(config, schemes=[config.scheme])["schemes"][config.scheme]
    d = 2410
    scheme_link, memory, total, norms = link_of(config, dimension=d), Memory(), torch.zeros(d), []
    for t in range(rounds):
        round_plan = scheme_link.scheme.prepare(scheme_link.draws, t)
        played = play_round(scheme_link.scheme, scheme_link.draws, round_plan, torch.zeros(d), Zero(), memory=memory)
        memory = memory.after(round_plan, played)
        total += played.estimate
        norms.append(float(played.estimate.norm()))
    bound, p = scheme_link.setting.bound, config.compression.ratio if "compression__ratio" in changes else 1.0
    signal = rounds * bound * (1 / round(1 / p) if config.scheme == "pfels-echo" else p)
    near = 5 / math.sqrt(2 * d)
    assert planned["noise_ratio_round"] == pytest.approx(float(np.median(norms)) / bound, rel=near)
    assert planned["noise_ratio_sum"] == pytest.approx(float(total.norm()) / signal, rel=near)
    assert planned["noise_ratio_coordinate"] == pytest.approx(planned["noise_ratio_sum"] / math.sqrt(d))


def test_without_noise_the_ratios_are_zero_and_rounds_in_which_nobody_sends_add_none():
    row = plan(small(), schemes=["fedavg"])["schemes"]["fedavg"]
    assert row["noise_ratio_round"] == row["noise_ratio_sum"] == row["noise_ratio_coordinate"] == 0
    config = small(scheme="wfl-p", cohort__sampling="poisson", cohort__size=1, rounds=40)
    found = forecast({"wfl-p": link_of(config)}, rounds=40, frame=FRAME)["wfl-p"]
    silent = [math.isinf(beta) for beta in found.betas]
    assert any(silent)
    assert [power == 0 for power in found.noise_powers] == silent


@pytest.mark.parametrize(
    ("preset", "scheme", "per_round", "in_sum"),
    [
        ("cifar10", "wfl-pdp", 449.3, 10.05),  # z = 4.60: 4.60·√d/32, and over √T
        ("cifar10", "pfels-plus", 375.0, 9.14),  # z = 3.84; its divisor shrinks as devices reach their cap
        ("cifar10", "pfels-echo", 622.8, 1.99),  # z = 3.87
        ("fashion", "wfl-pdp", 21.3, 2.91),  # 72 % of the rounds are limited by power, some at a very low level
        ("fashion", "pfels-plus", 12.0, 0.755),  # with the preset's floor on gains: a tenth of the devices is silent
        ("fashion", "pfels-echo", 20.6, 0.183),
    ],
)
def test_the_noise_of_the_two_known_settings_at_epsilon_8(preset: str, scheme: str, per_round: float, in_sum: float):
    whole = {} if scheme == "wfl-pdp" else {"compression.ratio": 1.0}
    planned = plan(preset, schemes=[scheme], overrides=whole, budget=Budget(8.0, "server"))
    row = planned["schemes"][scheme]
    assert row["noise_ratio_round"] == pytest.approx(per_round, rel=0.02)
    assert row["noise_ratio_sum"] == pytest.approx(in_sum, rel=0.02)
    z, d, rounds = row["noise_multiplier_median"], planned["dimension"], planned["rounds"]
    if scheme == "pfels-plus":  # 32 devices or somewhat fewer per round, independent rounds
        assert 1 < row["noise_ratio_round"] / (z * math.sqrt(d) / 32) < 1.15
        assert 1 < row["noise_ratio_sum"] / (z * math.sqrt(d / rounds) / 32) < 1.25


def test_sparsification_leaves_the_ratio_of_the_sum_as_it_is_in_pfels_plus_and_raises_it_in_pfels():
    """PFELS+ clips to √p·ητC₁: noise √p·√p, signal p. Lemma 2's sensitivity does not shrink: noise √p, signal p."""
    ratios = {
        name: [
            plan(small(scheme=name, compression__ratio=p, privacy__epsilon=1e-3), schemes=[name])["schemes"][name]
            for p in (0.25, 1.0)
        ]
        for name in ("pfels", "pfels-plus")
    }
    sums = {name: [row["noise_ratio_sum"] for row in rows] for name, rows in ratios.items()}
    assert [row["limits"]["privacy"] for row in ratios["pfels"]] == [1.0, 1.0]
    assert sums["pfels"][0] == pytest.approx(2 * sums["pfels"][1], rel=5e-3)
    assert sums["pfels-plus"][0] == pytest.approx(sums["pfels-plus"][1], rel=5e-3)


def test_index_sets_that_follow_the_model_may_carry_more_signal():
    kinds = ("rand-k", "public-top-k")
    rows = [plan(small(scheme="pfels-plus", compression__kind=kind))["schemes"]["pfels-plus"] for kind in kinds]
    assert rows[1]["noise_ratio_round"] == rows[0]["noise_ratio_round"]
    assert rows[1]["noise_ratio_sum"] == pytest.approx(math.sqrt(0.3) * rows[0]["noise_ratio_sum"], rel=2e-3)


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


def test_a_bound_is_vacuous_where_it_is_above_the_square_of_the_gradient_bound():
    tiny = LossAssumptions(smoothness=1e-9, gradient_variance=0.0, initial_gap=1e-6)
    for losses, clip in ((None, 1.0), (None, 10.0), (tiny, 1.0)):
        theory = plan(small(training__clip=clip), losses=losses)["theory"]
        assert theory["gradient_bound_squared"] == clip**2
        assert set(theory["bounds"]) == set(BOUNDS) == {"printed", "corrected", "exact"}
        for bound in theory["bounds"].values():
            for terms in bound.values():
                assert terms["vacuous"] == (terms["total"] > clip**2)
            assert bound["best"]["total"] <= bound["here"]["total"]
        assert theory["bounds"]["corrected"]["best"]["vacuous"] == (losses is None)


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
    found = forecast({"pfels": link_of(small(), dimension=100)}, rounds=7, frame=FRAME)["pfels"]
    assert len(found.energies) == len(found.betas) == 7


def test_what_is_no_config_is_refused_by_name():
    with pytest.raises(package.InputError, match="must be a Config"):
        package.run("demo")  # type: ignore[arg-type]
    with pytest.raises(package.InputError, match="seeds: must be at least one"):
        package.compare("demo", seeds=[])


def test_a_preset_and_a_config_are_planned_alike():
    """Except for what the preset holds for single schemes: a config is that of one scheme."""
    names = ["pfels", "wfl-p", "wfl-pdp", "dp-fedavg", "fedavg", "pfels-plus"]
    config = load_config("cifar10", {"rounds": 5})
    assert package.plan("cifar10", schemes=names, overrides={"rounds": 5}) == package.plan(config, schemes=names)


def test_an_override_goes_to_the_schemes_that_use_it_and_is_refused_where_none_does():
    changed = {"rounds": 5, "privacy.epsilon": 0.1, "channel.silent_below": 0.3}
    plain, moved = plan("demo", overrides={"rounds": 5})["schemes"], plan("demo", overrides=changed)["schemes"]
    own = {"pfels", "wfl-pdp", "dp-fedavg", "artificial-noise"}  # the claim per round
    own |= {"pfels-plus", "pfels-echo", "truncated-inversion"}  # the floor on gains
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
    assert "best p total there" in words
    assert "Advice: at matched progress (pη fixed) p = 1 never has more noise" in words
    assert "Vacuous bounds: printed, corrected and exact at every p" in words
    assert "Assumption 1 alone gives ‖∇f‖² ≤ C₁² = 1" in words


def test_too_much_noise_is_said_right_below_the_table_and_only_where_there_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "100")
    plan_command("fashion", total_epsilon=8.0, adversary="server", schemes="wfl-pdp,pfels-echo")
    table = capsys.readouterr().out.split("Noise over signal", 1)[1]
    after_table = table.split("\n pfels-echo", 1)[1].split("\n", 1)[1].strip()
    assert after_table.startswith("Too much noise: wfl-pdp. The noise in the sum of all updates outweighs")
    plan_command("fashion", total_epsilon=8.0, adversary="server", schemes="pfels-plus,pfels-echo")
    assert "Too much noise" not in capsys.readouterr().out


@pytest.mark.parametrize("preset", ["cifar10", "demo"])
def test_no_figure_is_broken_on_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, preset: str
):
    monkeypatch.setenv("COLUMNS", "80")
    plan_command(preset)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    for name, row in plan(preset)["schemes"].items():
        mine = [line for line in lines if line.startswith(f" {name} ") and " and " not in line]
        assert len(mine) == 6  # levels, noise, radio, joules per round and in all, privacy: one line in each table
        radio = row["radio"]
        ratios = [short(row[key], ".3g") for key in ("noise_ratio_round", "noise_ratio_sum", "noise_ratio_coordinate")]
        energy = "–" if row["energy"] is None else short(row["energy"], ".2e")
        assert mine[1].split() == [name, *ratios, energy, f"{row['subcarriers']:,}"]
        assert re.search(rf" {re.escape(duration(radio['airtime_s']))} +{duration(radio['downlink_s'])} ", mine[2])
        for line, spent in ((mine[3], radio["per_round_j"]), (mine[4], radio["energy_j"])):
            parts = ("radiated", "amplifier", "circuit", "compute", "total")
            assert line.split() == [name, *" ".join(joules(spent[part]) for part in parts).split()]
        assert mine[5].split()[-1] == "none" or row["privacy"]["outsider"]["epsilon"] is not None


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
