"""The theorems that tie the schemes of the paper to each other."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from pfels.errors import GuardError
from pfels.experiment import loop
from pfels.experiment.setup import Experiment, build
from pfels.schemes.plan import RoundResult
from pfels.schemes.registry import load_scheme, scheme_entry, scheme_names
from pfels.schemes.round import local_updates
from pfels.schemes.round import play as play_round
from pfels.seeding import Purpose, generator
from tests.conftest import small

LOOSE = {"channel__snr_min_db": 180.0, "channel__snr_max_db": 180.0, "privacy__epsilon": 1e8, "training__clip": 10.0}


def play(e: Experiment, t: int = 0) -> RoundResult:
    theta = e.network.initial(generator(e.config.seed, Purpose.MODEL))
    return play_round(e.scheme, e.draws, e.scheme.prepare(e.draws, t), theta, e.training, memory={})


def as_scheme(e: Experiment, name: str) -> Experiment:
    return replace(e, scheme=load_scheme(name, e.setting))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("pfels", "pfels"),
        ("wfl-p", "wfl_p"),
        ("wfl-pdp", "wfl_p"),
        ("dp-fedavg", "dp_fedavg"),
        ("pfels-plus", "pfels_plus"),
    ],
)
def test_without_its_clip_a_scheme_refuses_to_transmit(name: str, file: str, monkeypatch: pytest.MonkeyPatch):
    e = build(small(scheme=name, training__clip=1e-3))
    monkeypatch.setattr(f"pfels.schemes.{file}.clip", lambda rows, bound: rows)
    with pytest.raises(GuardError, match="sensitivity"):
        play(e)


@pytest.mark.parametrize(
    ("name", "devices", "ratio"),
    [
        ("pfels", 1, 0.3),
        ("pfels-plus", 1, 0.3),
        ("wfl-p", 1, 1.0),
        ("wfl-pdp", 1, 1.0),
        ("dp-fedavg", 8, 1.0),
        ("fedavg", 8, 1.0),
    ],
)
def test_subcarriers_are_k_or_d_over_the_air_and_r_times_d_on_orthogonal_links(name: str, devices: int, ratio: float):
    result = loop.run(small(scheme=name))
    assert result.summary["subcarriers"] == 6 * devices * round(ratio * result.summary["dimension"])


def test_p_one_and_no_privacy_limit_is_wfl_p():
    e = build(small(compression__ratio=1.0, privacy__epsilon=1e9))
    pfels, wfl_p = play(e).estimate, play(as_scheme(e, "wfl-p")).estimate
    assert torch.allclose(pfels, wfl_p, rtol=1e-5, atol=1e-8)


def test_p_one_is_wfl_pdp():
    e = build(small(compression__ratio=1.0, privacy__epsilon=0.05))
    assert e.scheme.prepare(e.draws, 0).require_air().limit == "privacy"
    assert torch.allclose(play(e).estimate, play(as_scheme(e, "wfl-pdp")).estimate, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", ["wfl-p", "wfl-pdp", "dp-fedavg"])
def test_no_noise_and_loose_clip_is_fedavg(name: str):
    """Power and ε without limit leave no noise: β → ∞ and the estimate is the plain mean."""
    e = build(small(scheme=name, **LOOSE))
    assert torch.allclose(play(e).estimate, play(as_scheme(e, "fedavg")).estimate, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
def test_no_noise_and_loose_clip_make_pfels_fedavg_on_the_kept_coordinates(sampling: str):
    e = build(small(**LOOSE, cohort__sampling=sampling, seed=1))
    assert (len(e.draws.cohort(0)) == 8) == (sampling != "poisson"), "both divide by r, whoever was drawn"
    kept = e.draws.rand_k(0)
    estimate, mean = play(e).estimate, play(as_scheme(e, "fedavg")).estimate
    assert torch.allclose(estimate[kept], mean[kept], rtol=1e-4, atol=1e-7)
    dropped = torch.ones(len(estimate), dtype=torch.bool)
    dropped[kept] = False
    assert not bool(estimate[dropped].any())


@pytest.mark.parametrize("name", ["pfels", "wfl-p", "wfl-pdp", "dp-fedavg"])
def test_the_estimates_noise_is_the_noise_multiplier_times_the_bound_over_r(name: str):
    """Δ̂ = mean + noise with standard deviation zC/r on every received coordinate: what the accountants price."""
    e = build(small(scheme=name, model__hidden=128, channel__noise_std=3.0))
    plan, received = e.scheme.prepare(e.draws, 0), slice(None)
    if name == "pfels":
        received = e.draws.rand_k(0)
    quiet = build(small(scheme="fedavg", model__hidden=128))
    clipped = clipped_mean(quiet)
    noise = (play(e).estimate - clipped)[received]
    std = plan.event.noise_multiplier * e.setting.bound / e.setting.cohort_size
    assert float(noise.std()) == pytest.approx(std, rel=5 / math.sqrt(2 * len(noise)))


def clipped_mean(e: Experiment) -> torch.Tensor:
    theta = e.network.initial(generator(e.config.seed, Purpose.MODEL))
    total = torch.zeros_like(theta)
    for part, _ in local_updates(e.training, e.draws, theta, 0, e.draws.cohort(0)):
        lengths = part.updates.norm(dim=1, keepdim=True)
        total += (part.updates * (e.setting.bound / lengths).clamp(max=1)).sum(0)
    return total / e.setting.cohort_size


@pytest.mark.parametrize("name", ["fedavg", "dp-fedavg"])
def test_links_of_their_own_are_counted_for_those_who_were_drawn(name: str):
    e = build(small(scheme=name, cohort__sampling="poisson"))
    plans = [e.scheme.prepare(e.draws, t) for t in range(6)]
    assert len({len(plan.cohort) for plan in plans}) > 1
    assert all(plan.subcarriers == len(plan.cohort) * e.setting.dimension for plan in plans)


def test_with_poisson_cohorts_the_noise_of_dp_fedavg_follows_their_size_and_no_outsiders_figure_is_made_up():
    e = build(small(scheme="dp-fedavg", cohort__sampling="poisson"))
    sized = build(small(scheme="dp-fedavg"))
    fixed = sized.scheme.prepare(sized.draws, 0).event.server_noise_multiplier * math.sqrt(8)
    for t in range(6):
        plan = e.scheme.prepare(e.draws, t)
        assert plan.event.noise_multiplier == pytest.approx(fixed * math.sqrt(len(plan.cohort) / 8))
    assert loop.run(e.config).summary["privacy"]["outsider"]["epsilon"] is None


def test_the_privacy_limit_gives_just_the_claimed_epsilon():
    e = build(small(privacy__epsilon=0.01))
    plan = e.scheme.prepare(e.draws, 0)
    assert plan.require_air().limit == "privacy"
    dp = as_scheme(e, "dp-fedavg").scheme.prepare(e.draws, 0)
    assert plan.event.noise_multiplier == pytest.approx(dp.event.noise_multiplier, rel=1e-12)


def test_schemes_meet_the_same_cohorts_and_channels():
    e = build(small())
    names = [name for name in scheme_names() if scheme_entry(name).sampling is None]
    plans = [load_scheme(name, e.setting).prepare(e.draws, 3) for name in names]
    assert len(plans) >= 5
    assert all(np.array_equal(plan.cohort, plans[0].cohort) for plan in plans)
    gains = dict(zip(plans[0].sending.tolist(), plans[0].require_air().gains, strict=True))
    for plan in plans:
        if plan.air:
            assert plan.air.gains.tolist() == [gains[device] for device in plan.sending.tolist()]
