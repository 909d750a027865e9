"""The schemes of the related work: each against a second implementation, and the properties that it is chosen for."""

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pfels.config.load import load_config
from pfels.config.tree import Config
from pfels.errors import GuardError, InputError
from pfels.experiment import loop
from pfels.experiment.forecast import forecast_run
from pfels.experiment.link import Link, link_of
from pfels.experiment.setup import Experiment, build
from pfels.privacy.calibration import Budget
from pfels.schemes.draws import Draws
from pfels.schemes.memory import Kept, Memory
from pfels.schemes.plan import RoundPlan, RoundResult
from pfels.schemes.release import require_sound
from pfels.schemes.round import listen, local_updates, transmissions
from pfels.schemes.round import play as play_round
from pfels.schemes.wfl_p import WflP
from pfels.seeding import Purpose, generator
from pfels.studies.budget import required_noise, with_budget
from pfels.training.updates import LocalUpdates
from tests.conftest import small
from tests.experiment.test_directory import contents, stop_after
from tests.schemes import numpy_reference as reference


def related(scheme: str, **changes: Any) -> Config:
    return small(scheme=scheme, **({"rounds": 5, "privacy__total_epsilon": 2.0} | changes))


def link(scheme: str, **changes: Any) -> Link:
    return link_of(related(scheme, **changes))


def play(e: Experiment, t: int = 0, memory: Memory | None = None) -> RoundResult:
    theta = e.network.initial(generator(e.config.seed, Purpose.MODEL))
    return play_round(e.scheme, e.draws, e.scheme.prepare(e.draws, t), theta, e.training, memory=memory or Memory())


def plans(found: Link | Experiment, rounds: int) -> list[RoundPlan]:
    return [found.scheme.prepare(found.draws, t) for t in range(rounds)]


# against a second implementation


def given(config: Config) -> reference.Problem:
    """Data, initial model and raw draws of a config, as NumPy arrays in double precision."""
    e, c = build(config), config
    assert c.data.devices == 30, "with fewer devices an epoch would have several batches"
    data = [e.federation.examples([device]) for device in range(c.data.devices)]
    assert max(len(one.y[0]) for one in data) <= c.training.batch_size
    cohorts = [e.draws.cohort(t) for t in range(c.rounds)]
    return reference.Problem(
        features=[one.x[0].flatten(1).double().numpy() for one in data],
        labels=[one.y[0].numpy() for one in data],
        powers=e.draws.powers(np.arange(c.data.devices)),
        start=e.network.initial(generator(c.seed, Purpose.MODEL)).double().numpy(),
        hidden=c.model.hidden if c.model.name == "mlp" else 0,
        cohorts=cohorts,
        gains=[e.draws.gains(t, cohort) for t, cohort in enumerate(cohorts)],
        receiver_noise=[e.draws.receiver_noise(t, e.setting.dimension).double().numpy() for t in range(c.rounds)],
        device_noise=lambda t, device: (
            e.draws.device_noise(t, device, width=e.setting.dimension, std=1.0).double().numpy()
        ),
        cohort_size=c.cohort.size,
        learning_rate=c.training.learning_rate,
        epochs=c.training.local_epochs,
        momentum=c.training.momentum,
        clip=c.training.clip,
        noise_std=c.channel.noise_std,
        delta=1 / c.data.devices,
    )


def require_same(config: Config, again: reference.Played) -> None:
    """The run has the levels of the second implementation to 1e-9, and its model to 1e-6."""
    own = loop.run(config)
    assert [record["beta"] for record in own.records] == pytest.approx(again.betas, rel=1e-9)
    assert [record["limit"] for record in own.records] == again.limits
    model = own.parameters.double().numpy()
    start = build(config).network.initial(generator(config.seed, Purpose.MODEL)).double().numpy()
    assert np.linalg.norm(model - again.theta) < 1e-6 * np.linalg.norm(again.theta)
    assert np.linalg.norm(again.theta - start) > 0.05 * np.linalg.norm(start), "the model has moved"


@pytest.mark.parametrize("contraction", [0.9, 1.0])
@pytest.mark.parametrize(
    ("epsilon", "model", "limits"),
    [(1.0, "mlp", {"privacy"}), (10.0, "linear", {"power", "privacy"}), (1e6, "mlp", {"power"})],
)
def test_liu_simeone_is_its_formula(contraction: float, epsilon: float, model: str, limits: set[str]):
    changes = {"liu-simeone__contraction": contraction, "privacy__total_epsilon": epsilon, "model__name": model}
    config = related("liu-simeone", seed=2, channel__gain_min=0.02, **changes)
    again = reference.liu_simeone(given(config), total_epsilon=epsilon, contraction=contraction)
    assert set(again.limits) == limits
    require_same(config, again)


@pytest.mark.parametrize(("epsilon", "limit"), [(100.0, "power"), (0.5, "privacy")])
@pytest.mark.parametrize("model", ["mlp", "linear"])
def test_artificial_noise_is_its_formula(epsilon: float, limit: str, model: str):
    config = related("artificial-noise", privacy__epsilon=epsilon, model__name=model, channel__gain_min=0.05)
    again = reference.artificial_noise(given(config), epsilon=epsilon)
    assert set(again.limits) == {limit}
    require_same(config, again)


@pytest.mark.parametrize("silent_below", [None, 0.05, 0.25])
@pytest.mark.parametrize("total_epsilon", [None, 3.0, 1e4])
def test_truncated_inversion_is_its_formula(silent_below: float | None, total_epsilon: float | None):
    config = related("truncated-inversion", channel__silent_below=silent_below or 0.0, seed=1)
    if total_epsilon is not None:
        config = with_budget(config, Budget(total_epsilon, "server"))
    channel = config.channel
    again = reference.truncated_inversion(
        given(config),
        gain_range=reference.GainRange(channel.gain_mean, channel.gain_min, channel.gain_max),
        lowest_snr_db=channel.snr_min_db,
        floor=silent_below,
        total_epsilon=total_epsilon,
    )
    assert set(again.limits) == {"privacy" if total_epsilon == 3.0 else "power"}
    require_same(config, again)


# liu-simeone: a budget split over the rounds


def spent(found: Link, rounds: int) -> np.ndarray:
    """Σ (βₜC/σ₀)² of every device over the rounds in which it sends."""
    total, s = np.zeros(found.setting.devices), found.setting
    for plan in plans(found, rounds):
        total[plan.sending] += (plan.beta * s.bound / s.noise_std) ** 2
    return total


@pytest.mark.parametrize("epsilon", [0.5, 8.0, 60.0, 1e5])
@pytest.mark.parametrize("sampling", ["without-replacement", "poisson", "turns"])
@pytest.mark.parametrize("contraction", [0.9, 1.0])
def test_liu_simeone_spends_its_budget_and_never_more(epsilon: float, sampling: str, contraction: float):
    changes = {"privacy__total_epsilon": epsilon, "cohort__sampling": sampling, "liu-simeone__contraction": contraction}
    for seed in range(3):
        found = link("liu-simeone", **changes, rounds=40, seed=seed, cohort__size=3)
        allowed, total = reference.gaussian_mu(epsilon, found.setting.delta) ** 2, spent(found, 40)
        assert total.max() <= allowed
        sending = [plan.require_air() for plan in plans(found, 40) if len(plan.sending)]
        assert all(np.all((a.beta * a.bound / np.abs(a.gains)) ** 2 <= a.powers * (1 + 1e-12)) for a in sending)
        if any(air.limit == "privacy" for air in sending):
            assert total.max() >= allowed * (1 - 1e-6)
        else:
            assert epsilon == 1e5, "only a loose budget leaves all rounds to the power limits"


@pytest.mark.parametrize("epsilon", [2.0, 1e4])
def test_the_servers_figure_of_liu_simeone_is_at_most_the_budget(epsilon: float):
    config = related("liu-simeone", privacy__total_epsilon=epsilon, rounds=30)
    setting, ledger = forecast_run(config)
    figures = ledger.privacy(setting)
    assert figures["server"]["epsilon"] <= epsilon
    if epsilon == 2.0:
        assert figures["server"]["epsilon"] == pytest.approx(epsilon, rel=1e-6)
    assert figures["outsider"]["epsilon"] is None, "the level depends on who was drawn"


@pytest.mark.parametrize("contraction", [0.8, 0.99, 1.0])
@pytest.mark.parametrize("spread", [0.01, 1.0, 3.0])
def test_no_other_levels_within_the_limits_leave_less_noise_in_the_last_model(contraction: float, spread: float):
    """One device in every round and random power limits: the split minimises Σₜ ρ^(T−1−t)/βₜ²."""
    T = 12
    found = link("liu-simeone", rounds=T, privacy__total_epsilon=4.0, **{"liu-simeone__contraction": contraction})
    s, weights = found.setting, contraction ** np.arange(T)[::-1]
    scale, rng = s.noise_std / s.bound, np.random.default_rng(0)
    allowed = reference.gaussian_mu(4.0, s.delta) ** 2
    some_power, some_privacy = False, False
    for _ in range(20):
        limits = scale * math.sqrt(allowed / T) * np.exp(spread * rng.standard_normal(T))
        best = found.scheme._split(limits, np.arange(T), np.zeros(T, np.int64), np.ones(T))
        assert np.all(best <= limits)
        used = float(np.sum((best / scale) ** 2))
        assert used <= allowed
        some_power, some_privacy = some_power or (best == limits).any(), some_privacy or (best < limits).any()
        if (best < limits).any():
            assert used >= allowed * (1 - 1e-6)
        noise = float(np.sum(weights / best**2))
        for size in np.geomspace(1e-3, 3, 50):  # close by and far away, each as high as the budget lets it
            other = best * np.exp(size * rng.standard_normal(T))
            nu = reference.filled_to(other / scale, limits / scale, allowed * (1 - 1e-9))
            other = np.minimum(min(nu, 1e9) * other, limits)
            assert np.sum((other / scale) ** 2) <= allowed * (1 + 1e-12)
            assert np.sum(weights / other**2) >= noise * (1 - 1e-9)
    assert some_privacy
    assert some_power or spread == 0.01


def test_liu_simeone_gives_later_rounds_more_and_with_contraction_one_all_the_same():
    even, rising = (
        link("liu-simeone", rounds=20, channel__gain_min=0.05, **{"liu-simeone__contraction": rho})
        for rho in (1.0, 0.9)
    )
    betas = [plan.beta for plan in plans(even, 20)]
    assert betas == pytest.approx([betas[0]] * 20)
    betas = [plan.beta for plan in plans(rising, 20)]
    assert [b / a for a, b in itertools.pairwise(betas)] == pytest.approx([0.9**-0.25] * 19)


def test_with_contraction_one_liu_simeone_has_the_levels_of_wfl_pdp_on_the_same_budget():
    own = link("liu-simeone", rounds=30, privacy__total_epsilon=8.0, **{"liu-simeone__contraction": 1.0})
    other = link_of(with_budget(related("wfl-pdp", rounds=30), Budget(8.0, "server")))
    limits = {plan.require_air().limit for plan in plans(own, 30)}
    assert limits == {"power", "privacy"}
    assert [p.beta for p in plans(own, 30)] == pytest.approx([p.beta for p in plans(other, 30)], rel=1e-8)


def test_at_a_given_noise_multiplier_artificial_noise_leaves_as_much_noise_in_the_estimate_as_none():
    """The estimate's noise is zC/r whoever made it, so that devices' noise spends energy and gains nothing."""
    changes = {"privacy__epsilon": 0.5, "channel__gain_min": 0.05}
    for noisy, plain in zip(
        plans(link("artificial-noise", **changes), 5), plans(link("wfl-pdp", **changes), 5), strict=True
    ):
        assert noisy.require_air().limit == plain.require_air().limit == "privacy"
        assert noisy.event.noise_multiplier == pytest.approx(plain.event.noise_multiplier, rel=1e-9)
        assert noisy.beta > plain.beta
        assert np.all(noisy.require_air().energy_bounds > plain.require_air().energy_bounds)


def test_the_levels_of_liu_simeone_are_those_of_the_draws_at_hand():
    """They are kept from round to round, but not for another seed."""
    found, other = link("liu-simeone", rounds=20), link("liu-simeone", rounds=20, seed=9)
    first = [plan.beta for plan in plans(found, 20)]
    assert [found.scheme.prepare(other.draws, t).beta for t in range(20)] == [p.beta for p in plans(other, 20)]
    assert [plan.beta for plan in plans(found, 20)] == first
    assert first != [plan.beta for plan in plans(other, 20)]


def test_a_contraction_that_leaves_the_first_rounds_nothing_is_refused_with_the_smallest_that_is_not():
    with pytest.raises(InputError, match=r"liu-simeone\.contraction = 0\.5: must be at least 0\.758 for 300 rounds"):
        plans(link("liu-simeone", rounds=300, **{"liu-simeone__contraction": 0.5}), 1)
    assert plans(link("liu-simeone", rounds=300, **{"liu-simeone__contraction": 0.758}), 1)


def test_the_noise_that_liu_simeone_requires_is_that_of_a_device_in_every_round_and_only_against_the_server():
    config = related("liu-simeone", rounds=10, **{"liu-simeone__contraction": 0.9})
    need = required_noise(config, Budget(2.0, "server"))
    s = link_of(config).setting
    levels = need.beta * 0.9 ** (np.arange(10)[::-1] / 4)
    mu_squared = float(np.sum((levels * s.bound / s.noise_std) ** 2))
    assert mu_squared == pytest.approx(reference.gaussian_mu(2.0, s.delta) ** 2, rel=1e-6)
    assert need.loss.epsilon <= 2.0
    with pytest.raises(InputError, match="--adversary outsider"):
        required_noise(config, Budget(2.0, "outsider"))


# artificial-noise: what power is left goes into noise


NOISY = [{"privacy__epsilon": 100.0}, {"privacy__epsilon": 0.1}]  # limited by power, and mostly by privacy


@pytest.mark.parametrize("changes", NOISY)
@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
def test_with_artificial_noise_every_device_uses_its_whole_power(changes: dict[str, Any], sampling: str):
    for plan in plans(link("artificial-noise", **changes, cohort__sampling=sampling), 20):
        air = plan.require_air()
        assert air.energy_bounds == pytest.approx(air.powers, rel=1e-12)
        assert np.all(air.added >= 0)


@pytest.mark.parametrize("changes", NOISY)
def test_the_noise_multiplier_with_artificial_noise_is_at_least_the_claims(changes: dict[str, Any]):
    found = link("artificial-noise", **changes)
    s = found.setting
    rate = s.cohort_size / s.devices
    z = 2 * math.sqrt(2) * rate * math.sqrt(math.log(1.25 * rate / s.delta)) / s.epsilon
    for plan in plans(found, 20):
        air = plan.require_air()
        sigma = math.sqrt(s.noise_std**2 + float(np.sum(np.abs(air.gains) ** 2 * air.added)) / s.dimension)
        assert plan.event.noise_multiplier == pytest.approx(sigma / (air.beta * s.bound), rel=1e-12)
        assert plan.event.noise_multiplier >= z * (1 - 1e-12)
        if air.limit == "privacy":
            assert plan.event.noise_multiplier == pytest.approx(z, rel=1e-9)


@pytest.mark.parametrize("changes", NOISY)
def test_what_arrives_carries_the_noise_of_the_plan(changes: dict[str, Any]):
    """Devices that have learned nothing: all that arrives is noise, of standard deviation zβC."""
    e = build(related("artificial-noise", **changes, model__hidden=128, channel__noise_std=3.0))
    found, s = [], e.setting
    for t in range(5):
        plan = e.scheme.prepare(e.draws, t)
        count = len(plan.sending)
        part = LocalUpdates(slice(0, count), torch.zeros(count, s.dimension), np.zeros(count))
        sent = transmissions(e.scheme, e.draws, plan, part, None, memory=Memory())
        y = listen(e.draws, plan, None) + plan.arriving(sent.signals, part.places)
        found.append(y.double().numpy() / (plan.event.noise_multiplier * plan.beta * s.bound))
    noise = np.concatenate(found)
    assert len(noise) > 40_000
    assert np.mean(noise**2) == pytest.approx(1.0, abs=5 * math.sqrt(2 / len(noise)))
    assert abs(np.mean(noise)) < 5 / math.sqrt(len(noise))
    assert abs(np.mean(noise[1:] * noise[:-1])) < 5 / math.sqrt(len(noise))
    quiet = [e.scheme.prepare(e.draws, t).event.noise_multiplier * e.scheme.prepare(e.draws, t).beta for t in range(5)]
    assert min(quiet) * s.bound > 1.01 * s.noise_std, "without the devices' share it would be less"


@pytest.mark.parametrize("changes", NOISY)
def test_the_energy_recorded_is_that_of_signal_and_noise(changes: dict[str, Any]):
    e = build(related("artificial-noise", **changes, training__clip=0.05))  # every update is at its bound
    plan, result = e.scheme.prepare(e.draws, 0), play(e)
    air, d = plan.require_air(), e.setting.dimension
    theta = e.network.initial(generator(e.config.seed, Purpose.MODEL))
    due = []
    for part, _ in local_updates(e.training, e.draws, theta, 0, plan.training):
        for place in range(part.places.start, part.places.stop):
            update = part.updates[place - part.places.start].double()
            signal = update * min(1.0, e.setting.bound / float(update.norm())) * air.beta / abs(air.gains[place])
            noise = e.draws.device_noise(
                0, int(plan.sending[place]), width=d, std=math.sqrt(air.added[place] / d)
            ).double()
            due.append(float((signal + noise).square().sum()))
    assert list(result.device_energy) == pytest.approx(due, rel=1e-4)
    assert result.energy == pytest.approx(sum(due), rel=1e-4)
    # Six standard deviations of ‖signal + noise‖²/P, at its maximum over all ways to split P.
    assert np.array(result.device_energy) == pytest.approx(air.powers, rel=6 * (math.sqrt(2) + 2) / math.sqrt(d))


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 30.0])
@pytest.mark.parametrize("scheme", ["artificial-noise", "truncated-inversion"])
def test_on_a_budget_the_worst_device_meets_it(scheme: str, epsilon: float):
    for sampling in ("without-replacement", "poisson"):
        config = with_budget(related(scheme, rounds=60, cohort__sampling=sampling), Budget(epsilon, "server"))
        setting, ledger = forecast_run(config)
        figure = ledger.privacy(setting)["server"]["epsilon"]
        assert figure <= epsilon
        if ledger.privacy_limited_rounds:
            assert figure > 0.99 * epsilon
        else:
            assert epsilon == 30.0, "only a loose budget leaves all rounds to the power limits"


# truncated-inversion: whoever is above the floor sends, at one level


@pytest.mark.parametrize("floor", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("private", [False, True])
def test_those_above_the_floor_send_and_nobody_else(floor: float, private: bool):
    changes = {"channel__silent_below": floor, "truncated-inversion__private": private}
    found = link("truncated-inversion", **changes)
    g, levels = floor or 0.1, set()  # the mean of the demo's gains
    for t, plan in enumerate(plans(found, 40)):
        magnitudes = np.abs(found.draws.gains(t, plan.cohort))
        assert plan.sending.tolist() == plan.cohort[magnitudes >= g].tolist()
        assert plan.event.participants == tuple(plan.sending.tolist()), "who is silent loses no privacy"
        air = plan.require_air()
        assert np.all((air.beta * air.bound / np.abs(air.gains)) ** 2 <= air.powers * (1 + 1e-12))
        assert plan.divisor == (len(plan.sending) or math.inf)
        levels.add(plan.beta)
    assert len(levels) == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"channel__gain_mean": 1e-4, "channel__gain_min": 0.01}, 1.0),
        ({"channel__gain_mean": 5.0, "channel__silent_below": 0.5}, math.exp(-0.1)),
    ],
)
def test_gains_at_the_end_of_their_range_are_not_below_a_floor_that_is_there(changes: dict[str, Any], expected: float):
    """|h| of such a gain comes out of a complex number, and may be the floor less a rounding error."""
    found = plans(link("truncated-inversion", **changes), 100)
    assert np.mean([len(plan.sending) for plan in found]) / 8 == pytest.approx(expected, abs=0.05)


def test_a_round_in_which_nobody_sends_leaves_the_model_as_it_is():
    config = related("truncated-inversion", channel__silent_below=0.4, rounds=8)
    heard = [len(plan.sending) for plan in plans(link_of(config), 8)]
    assert 0 in heard
    empty = heard.index(0)
    before, after = (loop.run(config.model_copy(update={"rounds": t})).parameters for t in (max(empty, 1), empty + 1))
    if empty == 0:
        before = build(config).network.initial(generator(config.seed, Purpose.MODEL))
    assert torch.equal(before, after)


def test_the_default_floor_is_where_level_times_senders_is_maximal():
    for changes in ({}, {"channel__gain_mean": 0.9}, {"channel__gain_mean": 1e-4}):
        found = link("truncated-inversion", **changes)
        law = found.setting.cell.gain
        best = reference.best_floor(reference.GainRange(law.gain_mean, law.gain_min, law.gain_max))
        assert found.scheme.floor == pytest.approx(best, rel=1e-9)


def test_truncated_inversion_has_a_privacy_limit_only_when_it_is_asked_for():
    plain, tight = (link("truncated-inversion", privacy__epsilon=epsilon) for epsilon in (100.0, 1e-3))
    assert {plan.beta for plan in plans(plain, 3)} == {plan.beta for plan in plans(tight, 3)}
    assert {plan.require_air().limit for plan in plans(tight, 3)} == {"power"}
    asked = link("truncated-inversion", privacy__epsilon=1e-3, **{"truncated-inversion__private": True})
    for plan in plans(asked, 3):
        assert plan.require_air().limit == "privacy"
        assert plan.beta == pytest.approx(asked.setting.privacy_limit)
    assert with_budget(plain_config := related("truncated-inversion"), Budget(2.0)).own.private
    assert not plain_config.own.private


# noise on the air and noise in the plan are the same


@dataclass(frozen=True)
class NoiseThatNobodyAdds(WflP):
    """Its plan counts noise of the devices, but they add none."""

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        plan = super().prepare(draws, t)
        air = plan.require_air()
        air = replace(air, beta=air.beta / 2, added=np.zeros(len(air.gains)))
        return RoundPlan.over_air(self.setting, t, plan.cohort, air, width=plan.subcarriers, claimed=False)


@dataclass(frozen=True)
class NoiseThatNobodyCounts(WflP):
    """Its devices add noise, but its plan does not count it."""

    def noise_std(self, plan: RoundPlan, device: int) -> float:
        return 1.0


@pytest.mark.parametrize("kind", [NoiseThatNobodyAdds, NoiseThatNobodyCounts])
def test_a_scheme_whose_plan_and_devices_disagree_on_noise_is_refused(kind: type[WflP]):
    e = build(related("wfl-p"))
    theta = e.network.initial(generator(0, Purpose.MODEL))
    require_sound(WflP(e.setting), e.draws, theta)
    with pytest.raises(GuardError, match=f"{kind.__name__}: over the air devices add noise if and only if"):
        require_sound(kind(e.setting), e.draws, theta)


# pfels with error feedback

FEEDBACK = {"compression__error_feedback": True}


def test_what_is_kept_and_what_is_sent_are_the_clipped_update():
    """Update and memory, clipped to ητC₁, come in two parts: one on the air, the other held back."""
    e = build(small(**FEEDBACK, training__clip=0.95))
    theta, setting = e.network.initial(generator(0, Purpose.MODEL)), e.setting
    plan, chosen = e.scheme.prepare(e.draws, 0), e.scheme.indices(e.draws, theta, 0)
    held = {device: Kept(0.002 * torch.randn(setting.dimension)) for device in plan.cohort.tolist()[::2]}
    air, lengths = plan.require_air(), []
    for part, _ in local_updates(e.training, e.draws, theta, 0, plan.sending):
        devices, whole = plan.sending[part.places].tolist(), part.updates.double()
        for row, device in enumerate(devices):
            if device in held:
                whole[row] += held[device].row.double()
        lengths += whole.norm(dim=1).tolist()
        whole *= (setting.bound / whole.norm(dim=1, keepdim=True)).clamp(max=1)
        x, kept = e.scheme.send_and_keep(plan, part, chosen, Memory(held))
        h = torch.from_numpy(np.abs(air.gains[part.places]))
        total = kept.double()
        assert not bool(kept[:, chosen].any())
        total[:, chosen] += x.double() * h.unsqueeze(1) / air.beta
        assert torch.allclose(total, whole, rtol=1e-5, atol=1e-8)
    assert min(lengths) < setting.bound < max(lengths), "some are clipped, and some are not"


def test_the_first_round_with_error_feedback_is_that_of_plain_pfels_to_the_bit():
    plain, fed = loop.run(small(rounds=1)), loop.run(small(rounds=1, **FEEDBACK))
    assert torch.equal(plain.parameters, fed.parameters)
    assert plain.records == fed.records
    plain, fed = loop.run(small()), loop.run(small(**FEEDBACK))
    assert not torch.equal(plain.parameters, fed.parameters)


def test_error_feedback_changes_neither_levels_nor_energy_bounds_nor_privacy():
    plain, fed = loop.run(small(cohort__size=20)), loop.run(small(cohort__size=20, **FEEDBACK))
    for key in ("beta", "limit", "noise_multiplier", "energy_bound", "subcarriers", "privacy", "cohort"):
        assert [record[key] for record in plain.records] == [record[key] for record in fed.records]
    assert plain.summary["privacy"] == fed.summary["privacy"]
    assert [r["energy"] for r in plain.records[1:]] != [r["energy"] for r in fed.records[1:]]


def test_what_pfels_devices_hold_back_stays_within_the_bound_and_their_energy_within_the_limit_on_average():
    """The mask of a round is drawn apart from what devices hold, so that E‖AΔ‖² is still p·‖Δ‖²."""
    e = build(small(**FEEDBACK, cohort__size=30, training__clip=0.1, rounds=30))
    memory, ratios = Memory(), []
    for t in range(30):
        plan, result = e.scheme.prepare(e.draws, t), play(e, t, memory)
        memory = memory.after(plan, result)
        assert max(float(kept.row.norm()) for kept in memory.devices.values()) <= e.setting.bound
        ratios.append(result.energy / plan.require_air().energy_bounds.sum())
    assert np.mean(ratios) <= 1 + 5 * np.std(ratios) / math.sqrt(len(ratios))


def test_a_run_with_error_feedback_resumes_to_the_same_bytes_and_keeps_nothing_of_a_device(tmp_path: Path):
    config = small(**FEEDBACK, rounds=8, run__checkpoint_every=1)
    loop.run(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        loop.run(config, tmp_path / "cut", progress=stop_after(4))
    checkpoint = tmp_path / "cut" / "checkpoint.safetensors"
    kept = load_file(checkpoint)["memory.ids"].tolist()
    records = loop.run(config, tmp_path / "cut", resume=True).records[:4]
    assert kept == sorted({device for record in records for device in record["cohort"]})
    assert contents(tmp_path / "whole") == contents(tmp_path / "cut")
    assert not [name for name in load_file(checkpoint) if name.startswith("memory")]


def test_error_feedback_is_refused_where_no_scheme_has_it():
    with pytest.raises(InputError, match=r"compression\.error_feedback: wfl-pdp does not use it"):
        load_config("demo", {"scheme": "wfl-pdp", "compression.error_feedback": True})
