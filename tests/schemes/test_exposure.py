"""What other antennas and gain errors do to privacy, and what phase errors do not."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pfels.config.load import load_config
from pfels.errors import InputError
from pfels.experiment.assumptions import antenna_costs
from pfels.experiment.forecast import forecast_run
from pfels.experiment.link import link_of
from pfels.experiment.loop import run
from pfels.privacy.calibration import Budget
from pfels.schemes.draws import Draws
from pfels.schemes.exposure import plan_round
from pfels.studies.budget import with_budget
from pfels.uplink.effects.antennas import Antennas

AIR_SCHEMES = ("pfels", "wfl-p", "wfl-pdp", "pfels-plus", "pfels-echo", "liu-simeone", "truncated-inversion")
FLOOR = {"channel.silent_below": 0.02}


def demo(scheme: str, **settings):
    floor = FLOOR if scheme in ("pfels-plus", "pfels-echo", "truncated-inversion") else {}
    dotted = {key.replace("__", "."): value for key, value in settings.items()}
    return load_config("demo", {"scheme": scheme, "rounds": 20, **floor, **dotted})


@pytest.mark.parametrize("scheme", AIR_SCHEMES)
@pytest.mark.parametrize("error_db", [0.0, 3.0])
def test_the_ledger_prices_what_the_best_combination_of_all_antennas_hears(scheme: str, error_db: float):
    link = link_of(demo(scheme, channel__antennas=3, channel__csi_error_db=error_db))
    for t in (0, 7):
        plan = plan_round(link.scheme, link.draws, t)
        air, who = plan.require_air(), plan.sending
        others = link.draws.other_strengths(t, who, antennas=3)
        # A longest signal x = (level/|h|)·s arrives at antenna m with norm |h_m|·‖x‖, under noise of σ₀ at each.
        longest = air.levels / np.abs(air.gains) * air.bound
        # The first one may hear it stronger than the device knows; of the others it knows nothing.
        first = np.abs(air.gains) * 10 ** (error_db / 20)
        heard = np.vstack([first, others]) * longest / link.setting.noise_std
        np.testing.assert_allclose(plan.event.server_costs, (heard**2).sum(0), rtol=1e-12)


def test_antennas_of_a_smaller_server_are_among_those_of_a_larger_one():
    draws = link_of(demo("pfels-plus")).draws
    ids = np.arange(50)
    few, many = (draws.other_strengths(3, ids, antennas=m) for m in (2, 8))
    np.testing.assert_array_equal(many[:1], few)
    assert many.shape == (7, 50)
    assert len(np.unique(many)) > 300  # no two channels are the same


class Loudest(Draws):
    """The worst that can be drawn: every device at the floor, every other antenna at the strongest gain."""

    def gains(self, t, devices):
        return np.full(len(devices), FLOOR["channel.silent_below"], complex)

    def other_strengths(self, t, devices, *, antennas):
        return np.full((antennas - 1, len(devices)), self.setting.cell.gain.gain_max)


@pytest.mark.parametrize("scheme", ["pfels-plus", "pfels-echo"])
@pytest.mark.parametrize("antennas", [1, 2, 8])
def test_a_budget_holds_against_several_antennas_whatever_is_drawn(scheme: str, antennas: int):
    config = with_budget(demo(scheme, channel__antennas=antennas, rounds=60), Budget(8.0))
    link = link_of(config)
    allowed = link.scheme.required_noise().loss.epsilon
    assert allowed <= 8.0
    worst = Loudest(link.setting, config.seed)
    spent = np.zeros(link.setting.devices)
    for t in range(config.rounds):
        plan = plan_round(link.scheme, worst, t)
        assert len(plan.sending)  # the floor lets them send, or there would be nothing to see
        spent[list(plan.event.participants)] += plan.event.server_costs
    from pfels.privacy.gaussian import gaussian_epsilon

    epsilon = gaussian_epsilon(mu=math.sqrt(spent.max()), delta=config.delta)
    assert 7.5 < epsilon <= 8.0  # the bound is not only safe but reached


@pytest.mark.parametrize("scheme", ["pfels", "wfl-pdp", "liu-simeone", "truncated-inversion"])
def test_a_claim_is_lowered_until_the_very_rounds_meet_the_budget_with_two_antennas(scheme: str):
    config = with_budget(demo(scheme, channel__antennas=2), Budget(8.0))
    setting, ledger = forecast_run(config)
    assert 7.99 < ledger.server.worst(delta=setting.delta).epsilon <= 8.0


def test_noise_that_devices_add_is_granted_to_several_antennas():
    config = demo("artificial-noise")
    link = link_of(config)
    plan = plan_round(link.scheme, link.draws, 0)
    two = link_of(demo("artificial-noise", channel__antennas=2))
    heard = plan_round(two.scheme, two.draws, 0)
    receiver_alone = (heard.beta * heard.air.bound / two.setting.noise_std) ** 2
    assert (heard.event.server_costs >= receiver_alone * (1 - 1e-12)).all()
    assert (plan.event.server_costs < receiver_alone).all()
    with pytest.raises(InputError, match=r"channel.antennas = 2: artificial-noise relies on noise that devices add"):
        with_budget(demo("artificial-noise", channel__antennas=2), Budget(8.0))


def test_the_table_by_antennas_is_what_runs_with_so_many_antennas_are_charged():
    costs = antenna_costs(link_of(demo("pfels-plus")), rounds=20)
    for m in (1, 2, 4):
        # the level stays that of one antenna: only what is heard changes
        link = link_of(demo("pfels-plus"))
        many = replace(link.setting, cell=replace(link.setting.cell, effects=(Antennas(antennas=m),)))
        draws = Draws(many, link.draws.seed)
        spent = np.zeros(many.devices)
        for t in range(20):
            event = plan_round(link.scheme, draws, t).event
            spent[list(event.participants)] += event.server_costs
        assert costs.server[m] == pytest.approx(spent.max(), rel=1e-12)
    assert costs.server[2] <= (costs.server[1] + costs.eavesdropper) * (1 + 1e-12)
    assert costs.eavesdropper <= costs.server[2]


@pytest.mark.parametrize("scheme", [*AIR_SCHEMES, "artificial-noise"])
def test_no_gain_error_within_its_bound_lets_a_device_arrive_with_more_than_is_priced(scheme: str):
    link = link_of(demo(scheme, channel__csi_error_db=3.0))
    margin = 10 ** (3 / 20)
    for t in range(5):
        plan = plan_round(link.scheme, link.draws, t)
        air = plan.require_air()
        arriving = np.abs(air.true_gains) * air.levels / np.abs(air.gains) * air.bound
        weakest_noise = air.noise_std(link.setting.noise_std, width=plan.subcarriers, margin=margin)
        priced = np.sqrt(plan.event.server_costs) * weakest_noise
        assert (arriving <= priced * (1 + 1e-12)).all()
        assert arriving.max() > priced.max() / margin  # some do arrive stronger than their estimate says


@pytest.mark.parametrize("scheme", ["pfels-plus", "pfels-echo", "pfels", "wfl-pdp", "liu-simeone"])
def test_a_budget_with_gain_errors_is_met_at_a_lower_level(scheme: str):
    exact, rough = (with_budget(demo(scheme, channel__csi_error_db=e), Budget(4.0)) for e in (0.0, 3.0))
    for config in (exact, rough):
        setting, ledger = forecast_run(config)
        assert ledger.server.worst(delta=setting.delta).epsilon <= 4.0
    levels = [link_of(c).scheme.prepare(link_of(c).draws, 0).beta for c in (exact, rough)]
    # rounds that power limits cost more with the margin, so that the others have a little less left
    assert 0.9 < levels[1] / levels[0] * 10 ** (3 / 20) < 1 + 1e-6


@pytest.mark.parametrize("scheme", ["pfels", "pfels-plus", "pfels-echo"])
def test_phase_errors_cost_no_privacy_and_weaken_the_signal_by_their_cosine(scheme: str):
    figures = [forecast_run(demo(scheme, channel__phase_error_deg=deg)) for deg in (0.0, 60.0)]
    epsilons = [ledger.server.worst(delta=setting.delta).epsilon for setting, ledger in figures]
    assert epsilons[0] == epsilons[1]
    link = link_of(demo(scheme, channel__phase_error_deg=60.0))
    plan = plan_round(link.scheme, link.draws, 0)
    air, everybody = plan.require_air(), slice(0, len(plan.sending))
    # Granted both components, the server hears no more than without the error.
    np.testing.assert_allclose(np.abs(air.true_gains), np.abs(air.gains), rtol=1e-12)
    cosines = plan.arriving_levels(everybody) / air.levels
    np.testing.assert_allclose(cosines, np.cos(np.angle(air.errors)), rtol=1e-9)
    assert (cosines >= 0.5 - 1e-9).all()
    assert cosines.min() < 0.9


def test_errors_change_what_is_learned_and_not_what_is_spent():
    clean, turned = (run(demo("pfels-plus", channel__phase_error_deg=deg)) for deg in (0.0, 90.0))
    assert clean.summary["energy"] != turned.summary["energy"]  # other models, so other updates
    assert clean.summary["energy_bound"] == turned.summary["energy_bound"]
    assert clean.summary["privacy"]["server"] == turned.summary["privacy"]["server"]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"channel.antennas": 0}, "channel.antennas = 0: must be a whole number in [1, 4096]"),
        ({"channel.csi_error_db": -1.0}, "channel.csi_error_db = -1.0: must be a finite number in [0, 60]"),
        ({"channel.phase_error_deg": 181.0}, "channel.phase_error_deg = 181.0: must be a finite number in [0, 180]"),
        ({"scheme": "dp-fedavg", "channel.antennas": 2}, "channel.antennas: dp-fedavg does not use it"),
        (
            {"scheme": "pfels-plus", "channel.antennas": 2, "privacy.adversary": "blind-server"},
            'channel.antennas = 2: must be 1 for privacy.adversary = "blind-server"',
        ),
    ],
)
def test_a_channel_that_cannot_be_is_refused_in_one_line(settings: dict, line: str):
    with pytest.raises(InputError) as error:
        load_config("demo", settings)
    assert line in str(error.value)
    assert "\n" not in str(error.value)
