"""The prices of assumptions, and the figure against a blind server."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant

from pfels.config.load import load_config
from pfels.errors import InputError
from pfels.experiment.link import link_of
from pfels.privacy.accountant import blind_server_loss, outsider_loss
from pfels.privacy.assumptions import PREFIX_FACTOR, best_of_runs_epsilon, priced_assumptions, tuned_epsilon
from pfels.privacy.calibration import Budget, calibrate
from pfels.privacy.events import OWN_NOISE, Adversary, Sampling
from pfels.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from pfels.schemes.exposure import own_noise_costs
from pfels.schemes.plan import RoundPlan
from pfels.schemes.setting import Setting
from pfels.studies.budget import required_noise, with_budget
from pfels.studies.privacy import privacy_figures

NUMBERS = {"rounds": 300, "devices": 1000, "cohort": 32, "delta": 1e-3}


def prices(mu: float, delta: float) -> dict[str, float]:
    return {each["name"]: each["epsilon"] for each in priced_assumptions(mu_squared=mu**2, delta=delta, over_air=True)}


def test_a_budget_of_8_costs_what_a_hostile_reviewer_measured_where_an_assumption_fails():
    found = prices(gaussian_mu(epsilon=8, delta=1e-3), 1e-3)
    measured = {
        "receiver noise 0.5 dB below σ₀": 8.6,
        "receiver noise 1 dB below σ₀": 9.3,
        "receiver noise 3 dB below σ₀": 12.7,
        "gains estimated 6% too low": 8.6,
        "gains estimated 12% too low": 9.3,
        "the server keeps the cyclic prefix": 10.5,
        "everything is sent twice": 12.8,
        "one device replaced, not emptied": 20.8,
        "the best of 6 runs is released": 12.8,
        "the best of 16 runs is released": 14.3,
        "the best of 32 runs is released": 15.2,
        "the best of 64 runs is released": 16.1,
        "δ = 1e-5": 10.5,
    }
    assert found == {name: pytest.approx(epsilon, abs=0.05) for name, epsilon in measured.items()}


def test_the_prefix_of_real_coordinates_holds_at_most_half_of_a_symbol():
    size = 2**16
    prefix = size * 144 // 2048
    numbers = np.random.default_rng(0).standard_normal(1200)
    shares = []
    for coordinates in (np.ones(1200), numbers, np.eye(1200)[3]):
        energy = np.abs(np.fft.ifft(coordinates, size)) ** 2
        shares.append(energy[-prefix:].sum() / energy.sum())
    assert max(shares) < PREFIX_FACTOR - 1
    assert shares[0] > 0.48  # all of it at the beginning, and so, mirrored, at the end: the bound is reached


def test_a_quieter_receiver_is_the_same_as_a_smaller_noise_multiplier():
    z = 2.0
    found = prices(1 / z, 1e-3)["receiver noise 3 dB below σ₀"]
    assert gaussian_delta(epsilon=found, mu=10 ** (3 / 20) / z) == pytest.approx(1e-3, rel=1e-9)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.6])
@pytest.mark.parametrize("runs", [6, 16, 64])
def test_the_best_of_several_runs_costs_what_an_independent_accountant_says(mu: float, runs: int):
    orders = [1 + 10 ** (i / 200) for i in range(-400, 800)]
    accountant = RdpAccountant(orders)
    accountant.compose(RepeatAndSelectDpEvent(GaussianDpEvent(1 / mu), runs, 0))
    known = accountant.get_epsilon(1e-3)
    assert best_of_runs_epsilon(mu=mu, mean_runs=runs, delta=1e-3) == pytest.approx(known, rel=2e-3)


def test_settings_tuned_on_the_same_data_cost_what_the_best_of_so_many_runs_costs():
    config = load_config("demo", {"scheme": "pfels-plus", "privacy.total_epsilon": 8.0, "rounds": 40})
    server = privacy_figures(config)["server"]
    mu = gaussian_mu(epsilon=server["epsilon"], delta=server["delta"])
    prices = [tuned_epsilon(server, trials=trials) for trials in (1, 2, 16, 64)]
    assert prices == sorted(prices)
    assert prices[0] == pytest.approx(server["epsilon"], rel=1e-9)
    assert prices[2] == pytest.approx(best_of_runs_epsilon(mu=mu, mean_runs=16, delta=server["delta"]), rel=1e-9)
    assert tuned_epsilon({**server, "epsilon": None}, trials=16) is None


@pytest.mark.parametrize(("preset", "budget", "alone"), [("demo", 16.0, 67.0), ("fashion", 8.0, 10.1)])
def test_artificial_noise_is_priced_without_the_noise_of_the_other_devices(preset: str, budget: float, alone: float):
    found = privacy_figures(with_budget(load_config(preset, {"scheme": "artificial-noise"}), Budget(budget)))
    prices = {each["name"]: each["epsilon"] for each in found["assumptions"]}
    assert found["server"]["epsilon"] == pytest.approx(budget, rel=1e-6)
    assert prices[OWN_NOISE] == pytest.approx(alone, abs=0.05)


def test_own_noise_protects_as_much_as_the_received_sum_shows_when_all_others_add_none():
    link = link_of(load_config("demo", {"scheme": "artificial-noise", "channel.csi_error_db": 1.0}))
    plan = link.scheme.prepare(link.draws, 0)
    air, margin = plan.require_air(), link.setting.cell.margin
    for place, cost in enumerate(own_noise_costs(link.scheme, plan)):
        one = np.zeros_like(air.added)
        one[place] = air.added[place]
        left = replace(air, added=one).noise_std(link.setting.noise_std, width=plan.subcarriers, margin=margin)
        assert cost == pytest.approx((air.beta * air.bound * margin / left) ** 2, rel=1e-9)


@dataclass(frozen=True)
class Sharing:
    """Devices that each add a share of the noise, in a scheme that books the noise of the sum."""

    setting: Setting

    def noise_std(self, plan: RoundPlan, device: int) -> float:
        return 0.5 * self.setting.bound


def test_on_ideal_links_a_device_is_charged_for_its_own_noise_alone_whatever_the_scheme_books():
    link = link_of(load_config("demo", {"scheme": "dp-fedavg"}))
    plan = link.scheme.prepare(link.draws, 0)
    assert own_noise_costs(link.scheme, plan) == pytest.approx(plan.event.server_costs, rel=1e-12)
    booked = replace(plan, event=replace(plan.event, server_noise_multiplier=5.0))
    assert own_noise_costs(Sharing(link.setting), booked) == pytest.approx(np.full(20, 4.0))


def test_without_noise_there_is_nothing_to_price():
    assert priced_assumptions(mu_squared=math.inf, delta=1e-3, over_air=True) == []


def test_a_blind_server_knows_what_an_outsider_knows():
    z = calibrate(adversary=Adversary.BLIND_SERVER, epsilon=2, sampling=Sampling.POISSON, **NUMBERS)
    outside = calibrate(adversary=Adversary.OUTSIDER, epsilon=2, sampling=Sampling.POISSON, **NUMBERS)
    assert z.noise_multiplier == outside.noise_multiplier
    assert (z.loss.epsilon, z.loss.adversary) == (outside.loss.epsilon, Adversary.BLIND_SERVER)


def test_nobody_is_blind_where_a_sender_can_be_seen():
    fixed, poisson = Sampling.WITHOUT_REPLACEMENT, Sampling.POISSON
    sampled = {
        kind: outsider_loss({2.0: 300}, sampling=kind, devices=1000, cohort=32, delta=1e-3) for kind in (fixed, poisson)
    }
    assert blind_server_loss(sampled[poisson], sampling=poisson, on_air=True, antennas=1).epsilon is not None
    assert blind_server_loss(sampled[poisson], sampling=poisson, on_air=False, antennas=1).epsilon is None
    assert blind_server_loss(sampled[poisson], sampling=poisson, on_air=True, antennas=2).epsilon is None
    assert blind_server_loss(sampled[fixed], sampling=fixed, on_air=True, antennas=1).epsilon is None


@pytest.mark.parametrize(
    ("scheme", "why"),
    [("pfels", "the noise level depends on who was drawn"), ("dp-fedavg", "the server sees who sends")],
)
def test_a_scheme_that_shows_who_sends_has_no_budget_against_a_blind_server(scheme: str, why: str):
    with pytest.raises(InputError, match=why):
        required_noise(load_config("demo", {"scheme": scheme}), Budget(2.0, "blind-server"))


def test_figures_say_whose_cohorts_they_are_of_and_hold_for_every_seed():
    short = {"rounds": 40}
    for scheme in ("pfels", "pfels-plus", "pfels-echo", "dp-fedavg"):
        several = [
            privacy_figures(load_config("demo", {**short, "scheme": scheme, "seed": seed})) for seed in (0, 1, 2)
        ]
        assert [each["seed"] for each in several] == [0, 1, 2]
        always = several[0]["every_seed"]["epsilon"]
        assert all(each["server"]["epsilon"] <= always * (1 + 1e-9) for each in several), scheme
    assert privacy_figures(load_config("demo", {**short, "scheme": "wfl-p"}))["every_seed"]["epsilon"] is None


def test_the_figure_at_a_small_delta_is_the_same_device_at_that_delta():
    figures = privacy_figures(load_config("demo", {"rounds": 40}))
    mu = gaussian_mu(epsilon=figures["server"]["epsilon"], delta=figures["server"]["delta"])
    assert figures["server"]["epsilon_at_1e-5"] == pytest.approx(gaussian_epsilon(mu=mu, delta=1e-5), rel=1e-6)
    assert figures["server_by_antennas"]["1"] == pytest.approx(figures["server"]["epsilon"], rel=1e-9)
