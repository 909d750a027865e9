"""`pfels privacy`, and the privacy figures that runs carry."""

import json
import math
import re
import resource
from decimal import ROUND_CEILING, Decimal

import pytest
import torch

from pfels.config.load import load_config
from pfels.errors import InputError
from pfels.experiment import loop
from pfels.experiment.forecast import forecast_run
from pfels.experiment.ledger import Ledger
from pfels.experiment.link import link_of
from pfels.privacy.accountant import price, server_loss
from pfels.privacy.calibration import Budget
from pfels.privacy.claim import claimed_epsilon
from pfels.privacy.events import Adversary, RoundEvent, Sampling, rounded_down
from pfels.schemes.plan import RoundResult
from pfels.studies.budget import required_noise
from pfels.studies.privacy import privacy_figures
from tests.conftest import small

NOTES = [  # claimed ε a round, noise multiplier, exact ε a round at N = 1000, r = 32, δ = 1/N
    (0.05, "3.4768", "0.010"),
    (0.1, "1.7384", "0.039"),
    (0.5, "0.3477", "5.30"),
    (1.0, "0.1739", "22.96"),
    (1.5, "0.1159", "48.96"),
    (2.0, "0.0870", "83.3"),
]


def children_cpu() -> float:
    """Seconds of work of the commands run so far: what a call takes on a machine that has nothing else to do."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def digits(value: float, like: str) -> str:
    """Rounded up."""
    unit = Decimal(1).scaleb(-len(like.partition(".")[2]))
    return str(Decimal(value).quantize(unit, ROUND_CEILING))


def test_the_paper_s_claims_and_what_they_are_exactly(pfels):
    for claimed, z, exact in (NOTES[0], NOTES[4]):
        done = pfels("privacy", "--delta", "0.001", "--rounds", "1", "--claimed-epsilon", str(claimed), "--json")
        report = json.loads(done.stdout)
        assert digits(report["noise_multiplier"], z) == z
        assert digits(report["exact_per_round"]["epsilon"], exact) == exact
        assert report["claimed"]["valid"] is (claimed < 0.064)
        assert report["claimed"]["valid_below"] == 0.064


@pytest.mark.parametrize("more", [[], ["-s", "channel.gain_mean=0.0137"]])
def test_a_printed_requirement_meets_the_budget(pfels, more):
    args = ("privacy", "demo", "-s", "scheme=pfels-plus", *more, "--target-epsilon", "7.3")
    exact, shown = json.loads(pfels(*args, "--json").stdout), pfels(*args).stdout
    z, beta = (
        float(re.search(rf"{re.escape(name)} +(\S+)", shown)[1]) for name in ("noise multiplier z", "β = σ₀/(zs)")
    )
    assert exact["noise_multiplier"] <= z <= exact["noise_multiplier"] * (1 + 1e-5)
    assert exact["beta"] * (1 - 1e-5) <= beta <= exact["beta"]
    for name, each in exact["adversaries"].items():
        needed, level = map(float, re.search(rf"^ {name} +(\S+) +(\S+) *$", shown, re.MULTILINE).groups())
        assert needed >= each["noise_multiplier"]
        assert level <= each["beta"]
    for floor in exact["floors"]:
        row = re.search(rf"^ {floor['antennas']} +\S+ +(\S+) ", shown, re.MULTILINE)
        assert float(row[1]) >= floor["noise_multiplier"]


def test_the_least_noise_of_a_run_is_printed_rounded_down(pfels, tmp_path):
    args = ("run", "demo", "-s", "rounds=3", "--out", str(tmp_path / "run"))
    shown, least = pfels(*args).stdout, json.loads(pfels(*args, "--json").stdout)["privacy"]["noise_multiplier_min"]
    printed = float(re.search(r"minimum noise multiplier +(\S+)", shown)[1])
    assert printed == rounded_down(least, digits=3) <= least


def test_every_number_stands_with_its_adversary_neighbours_and_delta(pfels):
    done = pfels("privacy", "--noise-multiplier", "2", "--rounds", "300", "--sampling", "poisson", "--delta", "0.001")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if "0.001" in line]
    assert len(rows) == 4
    assert all({"server", "outsider"} & set(row) and {"add-remove", "device-emptied"} & set(row) for row in rows)
    assert " 0.7499 " in done.stdout, "0.74980, rounded up"


def test_a_budget_is_met_and_never_overshot(pfels):
    done = pfels(
        "privacy", "demo", "--target-epsilon", "2", "--adversary", "server", "--participations", "80", "--json"
    )
    report = json.loads(done.stdout)
    assert 1.99 < report["server"]["epsilon"] <= 2
    bound = load_config("demo").training.update_bound
    assert report["beta"] == pytest.approx(1 / (report["noise_multiplier"] * bound))


@pytest.mark.parametrize("adversary", list(Adversary))
@pytest.mark.parametrize("scheme", ["dp-fedavg", "pfels-plus", "pfels"])
def test_a_budget_is_priced_as_the_scheme_would_release_it(scheme: str, adversary: Adversary):
    """Who plays all its rounds with the noise that is asked for has spent the budget, and no more."""
    config, budget = small(scheme=scheme, rounds=40), Budget(3.0, adversary)
    hidden = {"pfels-plus": list(Adversary), "dp-fedavg": [Adversary.SERVER, Adversary.OUTSIDER]}
    if adversary not in hidden.get(scheme, [Adversary.SERVER]):
        with pytest.raises(InputError, match=r"depends on who was drawn|the server sees who sends"):
            required_noise(config, budget)
        return
    need = required_noise(config, budget)
    assert need.loss.epsilon is not None
    assert 2.99 < need.loss.epsilon <= 3.0
    if scheme == "pfels-plus":
        changed = {"privacy.total_epsilon": 3.0, "privacy.adversary": adversary.value}
    else:
        who = {"devices": config.data.devices, "cohort": config.cohort.size, "delta": config.delta}
        changed = {"privacy.epsilon": claimed_epsilon(noise_multiplier=need.noise_multiplier, **who)}
    link = link_of(load_config(config, changed), dimension=2410)
    plan, delta = link.scheme.prepare(link.draws, 0), link.setting.delta
    assert (None if plan.air is None else plan.air.beta) == (need.beta and pytest.approx(need.beta))
    seen = plan.event.server_noise_multiplier
    if adversary is not Adversary.SERVER:
        spent = price([plan.event] * 40, adversary=Adversary.OUTSIDER, delta=delta).epsilon
    else:
        times = need.loss.participations
        spent = server_loss(mu_squared=times / seen**2, participations=times, delta=delta).epsilon
    assert spent == pytest.approx(need.loss.epsilon, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--noise-multiplier", "0"], "noise_multiplier = 0"),
        (["--noise-multiplier", "nan"], "noise_multiplier = nan"),
        (["--noise-multiplier", "2", "--rounds", "0"], "rounds = 0"),
        (["--noise-multiplier", "2", "--delta", "1"], "delta = 1: must be in (0, 1)"),
        (["--noise-multiplier", "2", "--cohort", "2000"], "cohort = 2000"),
        (["--claimed-epsilon", "-1"], "epsilon = -1"),
        (["--target-epsilon", "0"], "epsilon = 0"),
        ([], "give a preset, or one of"),
        (["demo", "--rounds", "3"], "--rounds: the preset says that"),
        (["demo", "--sampling", "poisson"], "--sampling: the preset says that"),
        (["demo", "--participations", "3"], "--participations: a preset's cohorts are drawn and counted"),
        (["demo", "-s", "scheme=fedavg", "--target-epsilon", "2"], "scheme = 'fedavg': has no noise to calibrate"),
    ],
)
def test_bad_numbers_get_one_line_and_exit_code_2(pfels, arguments, message):
    done = pfels("privacy", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert message in line


@pytest.mark.parametrize("z", ["0.05", "0.5", "1", "50"])
@pytest.mark.parametrize("sampling", ["poisson", "without-replacement"])
def test_any_call_answers_within_ten_seconds(pfels, z: str, sampling: str):
    began = children_cpu()
    done = pfels("privacy", "--noise-multiplier", z, "--rounds", "5000", "--sampling", sampling)
    assert done.returncode == 0, done.stderr
    assert children_cpu() - began < 10
    assert ("more than 100" in " ".join(done.stdout.split())) is (float(z) <= 1)


# figures of runs


def events(records: list[dict]) -> list[RoundEvent]:
    common = {"devices": 30, "cohort_size": 8, "sampling": Sampling.WITHOUT_REPLACEMENT, "cohort_dependent": True}
    return [
        RoundEvent(noise_multiplier=z, server_noise_multiplier=z, participants=tuple(r["cohort"]), **common)
        for r in records
        if (z := r["noise_multiplier"])
    ]


@pytest.mark.parametrize("name", ["pfels", "wfl-p", "wfl-pdp"])
def test_the_servers_figure_of_a_run_is_that_of_its_recorded_noise_multipliers(name: str):
    result = loop.run(small(scheme=name))
    server = result.summary["privacy"]["server"]
    again = price(events(result.records), adversary=Adversary.SERVER, delta=1 / 30)
    assert server["epsilon"] == pytest.approx(again.epsilon, rel=1e-12)
    assert server["participations"] == again.participations
    assert result.records[-1]["privacy"]["server"]["epsilon"] == server["epsilon"]
    assert server["distribution"]["max"] == server["epsilon"]


def test_every_record_carries_its_figures_with_adversary_and_delta(scheme: str):
    for record in loop.run(small(scheme=scheme)).records:
        for figure in filter(None, record["privacy"].values()):
            assert figure.keys() >= {"epsilon", "delta", "adversary", "neighbours", "valid"}
    spent = [r["privacy"]["server"]["epsilon"] for r in loop.run(small(scheme="pfels")).records]
    assert spent == sorted(spent)


def test_a_level_that_depends_on_the_cohort_gives_no_figure_against_an_outsider():
    for name, told in (
        ("pfels", False),
        ("wfl-p", False),
        ("wfl-pdp", False),
        ("dp-fedavg", True),
        ("fedavg", False),
        ("pfels-plus", True),
    ):
        outsider = loop.run(small(scheme=name)).summary["privacy"]["outsider"]
        assert (outsider["epsilon"] is not None) is told
        assert told or outsider["reason"]


def test_dp_fedavg_is_priced_with_what_the_server_sees_of_one_device():
    result = loop.run(small(scheme="dp-fedavg"))
    z, times = result.records[0]["noise_multiplier"], result.summary["privacy"]["server"]["participations"]
    mu = math.sqrt(times * 8) / z
    ledger = forecast_run(small(scheme="dp-fedavg"))[1].server
    assert math.sqrt(ledger.mu_squared.max()) == pytest.approx(mu, rel=1e-9)


def test_a_forecast_has_the_privacy_of_the_run(scheme: str):
    config = small(scheme=scheme)
    figures, run = privacy_figures(config), loop.run(config).summary["privacy"]
    assert {key: figures[key] for key in run} == run
    assert figures.keys() - run.keys() == {"noise_multiplier", "seed", "every_seed"}


def test_a_ledger_comes_back_from_its_checkpoint_as_it_went():
    link = link_of(small())
    ledger, nothing = Ledger.empty(devices=30), RoundResult(torch.zeros(0), None, 0, 0.0)
    for t in range(3):
        ledger = ledger.after(link.scheme.prepare(link.draws, t), nothing, slots=1)
    again = Ledger.restore(ledger.tensors(), ledger.totals(), devices=30)
    assert again.privacy(link.setting) == ledger.privacy(link.setting)
    assert again.totals() == ledger.totals()


def test_a_run_directory_is_priced_by_its_own_rounds(pfels):
    small = ["-s", "rounds=4", "-s", "data.devices=30", "-s", "cohort.size=8", "-s", "model.hidden=8"]
    ended = json.loads(pfels("run", "demo", *small, "--out", "demo", "--json").stdout)
    done = pfels("privacy", "./demo")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pfels in demo, seed 0: 4 rounds, finished\n")
    assert re.search(rf"server +{re.escape(ended['privacy']['server']['display'])} +0\.0333", done.stdout)
    assert "What each assumption costs if it fails, at δ = 0.0333333" in done.stdout
    found = json.loads(pfels("privacy", "./demo", "--json").stdout)
    assert found["server"] == ended["privacy"]["server"]
    assert "seed 0: 4 rounds" not in pfels("privacy", "demo", *small).stdout, "a preset is not a directory"
    for more in (["-s", "rounds=3"], ["--delta", "0.1"], ["--target-epsilon", "3"]):
        refused = pfels("privacy", "./demo", *more)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "says that; leave it out" in refused.stderr
