"""One contract for all schemes, and the theorems that tie them to each other."""

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pfels import seeding
from pfels.errors import GuardError
from pfels.experiment import loop
from pfels.experiment.setup import Experiment, build
from pfels.schemes.plan import Tally
from pfels.schemes.registry import SCHEMES, load_scheme
from pfels.schemes.round import play as play_round
from pfels.seeding import Purpose, generator
from pfels.training.local import evaluate
from tests.conftest import small

RECORD = {
    "round",
    "cohort",
    "participants",
    "beta",
    "noise_multiplier",
    "energy",
    "subcarriers",
    "train_loss",
    "test_accuracy",
}
SUMMARY = {
    "scheme",
    "seed",
    "rounds",
    "dimension",
    "accuracy",
    "loss",
    "energy",
    "subcarriers",
    "airtime_s",
    "seconds",
    "privacy",
}
LOOSE = {"channel__snr_min_db": 180.0, "channel__snr_max_db": 180.0, "privacy__epsilon": 1e8, "training__clip": 10.0}


def play(e: Experiment, t: int = 0) -> tuple[torch.Tensor, Tally]:
    tally = Tally()
    theta = e.network.initial(generator(e.config.seed, Purpose.MODEL))
    return play_round(e.scheme, e.system, e.scheme.prepare(e.system, t), theta, tally), tally


def as_scheme(e: Experiment, name: str) -> Experiment:
    return replace(e, scheme=load_scheme(name))


# the contract


def test_a_run_has_the_promised_fields_and_a_record_a_round(scheme: str):
    result = loop.run(small(scheme=scheme))
    assert result.summary.keys() >= SUMMARY
    assert [r["round"] for r in result.records] == list(range(6))
    assert all(r.keys() >= RECORD for r in result.records)
    assert len(result.parameters) == result.summary["dimension"]


def test_the_same_config_gives_the_same_bits(scheme: str):
    a, b = (loop.run(small(scheme=scheme, seed=5)) for _ in range(2))
    assert torch.equal(a.parameters, b.parameters)
    assert a.records == b.records


def test_another_seed_gives_another_run(scheme: str):
    a, b = (loop.run(small(scheme=scheme, seed=s)) for s in (0, 1))
    assert not torch.equal(a.parameters, b.parameters)


def test_ledger_totals_are_the_sum_of_the_rounds(scheme: str):
    e = build(small(scheme=scheme))
    on_air = e.scheme.prepare(e.system, 0).air is not None
    result = loop.run(e.config)
    for key in ("energy", "energy_bound", "subcarriers", "silent"):
        values = [r[key] for r in result.records]
        if on_air or key in ("subcarriers", "silent"):
            assert result.summary[key] == pytest.approx(sum(values), rel=1e-12)
        else:
            assert values == [None] * 6
            assert result.summary[key] is None


def test_airtime_follows_from_the_subcarriers_of_every_round(scheme: str):
    e = build(small(scheme=scheme, channel__subcarriers=100, channel__slot_ms=3.0))
    settled = [e.scheme.prepare(e.system, t).subcarriers for t in range(6)]
    result = loop.run(e.config)
    assert [r["subcarriers"] for r in result.records] == settled
    assert result.summary["airtime_s"] == pytest.approx(sum(math.ceil(k / 100) * 0.003 for k in settled))


def test_a_run_reports_its_least_noise_and_is_measured_on_the_test_examples(scheme: str):
    e = build(small(scheme=scheme))
    result = loop.run(e.config)
    levels = [r["noise_multiplier"] for r in result.records]
    assert result.summary["privacy"]["noise_multiplier_min"] == min(levels)
    accuracy, loss = evaluate(e.network, result.parameters, e.federation.test, crew=e.training.crew)
    assert (result.summary["accuracy"], result.summary["loss"]) == (accuracy, pytest.approx(loss))
    assert len(e.federation.test) == 360


def test_no_random_address_serves_twice_in_a_training(scheme: str, monkeypatch: pytest.MonkeyPatch):
    """Two draws from one stream would be the same numbers: noise that follows the mask or the last round hides nothing.

    What is asked for again is the same draw (who is in the cohort, over which channel), from the same line.
    """
    asked: dict[tuple, set[tuple[str, int, int | None]]] = {}
    make = seeding.np.random.Philox

    def noted(key: Any, counter: np.ndarray | None = None) -> np.random.Philox:
        if counter is None:  # the split of the digits, the same for all seeds
            return make(key=key)
        frame = sys._getframe(1)
        while frame.f_code.co_filename == seeding.__file__:
            frame = frame.f_back
        (seed, purpose), at = key.generate_state(2).tolist(), counter.tolist()
        if purpose != Purpose.MODEL:  # the one model that all start from
            by = (frame.f_code.co_qualname, frame.f_lineno, frame.f_locals.get("t"))
            asked.setdefault((seed, purpose, *at), set()).add(by)
        return make(key, counter=counter)

    monkeypatch.setattr(seeding.np.random, "Philox", noted)
    loop.run(small(scheme=scheme, rounds=3))
    assert {address: by for address, by in asked.items() if len({line for _, line, _ in by}) > 1} == {}
    noises = [by for by in asked.values() if any("noise" in name for name, _, _ in by)]
    assert all(len(by) == 1 for by in noises), "a round's noise is its own"
    assert bool(noises) == (scheme != "fedavg")


def test_realised_energy_is_near_its_bound_and_within_every_devices_limit_on_average(scheme: str):
    e = build(small(scheme=scheme, training__clip=0.05))  # so that every update is at its bound
    for t in range(5):
        link = e.scheme.prepare(e.system, t)
        if link.air is None:
            assert play(e, t)[1].energies == []
            continue
        assert np.all(link.on_air.energy_bounds <= link.on_air.powers * (1 + 1e-9))
        _, tally = play(e, t)
        assert 0.7 <= sum(tally.energies) / link.on_air.energy_bounds.sum() <= 1.5


def test_poisson_cohorts_are_an_option_of_every_scheme(scheme: str):
    result = loop.run(small(scheme=scheme, cohort__sampling="poisson", rounds=12))
    assert len({len(r["cohort"]) for r in result.records}) > 1


def test_an_empty_poisson_cohort_harms_nothing(scheme: str):
    result = loop.run(small(scheme=scheme, cohort__sampling="poisson", cohort__size=1, rounds=12, privacy__delta=1e-3))
    empty = [r for r in result.records if not r["cohort"]]
    assert empty
    assert all(r["participants"] == 0 and r["train_loss"] is None for r in empty)
    assert bool(torch.isfinite(result.parameters).all())


def test_a_device_whose_training_diverges_is_silent_and_counted(scheme: str):
    e = build(small(scheme=scheme, training__learning_rate=1e20, model__name="mlp"))
    estimate, tally = play(e)
    assert tally.silent == 8
    assert tally.mean_loss is None
    assert bool(torch.isfinite(estimate).all())
    record = loop.run(small(scheme=scheme, training__learning_rate=1e20, rounds=1)).records[0]
    assert (record["participants"], record["silent"]) == (0, 8)


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


# the theorems


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
    pfels, wfl_p = play(e)[0], play(as_scheme(e, "wfl-p"))[0]
    assert torch.allclose(pfels, wfl_p, rtol=1e-5, atol=1e-8)


def test_p_one_is_wfl_pdp():
    e = build(small(compression__ratio=1.0, privacy__epsilon=0.05))
    assert e.scheme.prepare(e.system, 0).on_air.limit == "privacy"
    assert torch.allclose(play(e)[0], play(as_scheme(e, "wfl-pdp"))[0], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", ["wfl-p", "wfl-pdp", "dp-fedavg"])
def test_no_noise_and_loose_clip_is_fedavg(name: str):
    """Power and ε without limit leave no noise: β → ∞ and the estimate is the plain mean."""
    e = build(small(scheme=name, **LOOSE))
    assert torch.allclose(play(e)[0], play(as_scheme(e, "fedavg"))[0], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
def test_no_noise_and_loose_clip_make_pfels_fedavg_on_the_kept_coordinates(sampling: str):
    e = build(small(**LOOSE, cohort__sampling=sampling, seed=1))
    assert (len(e.system.cohort(0)) == 8) == (sampling != "poisson"), "both divide by r, whoever was drawn"
    kept = e.system.rand_k(0)
    estimate, mean = play(e)[0], play(as_scheme(e, "fedavg"))[0]
    assert torch.allclose(estimate[kept], mean[kept], rtol=1e-4, atol=1e-7)
    dropped = torch.ones(len(estimate), dtype=torch.bool)
    dropped[kept] = False
    assert not bool(estimate[dropped].any())


@pytest.mark.parametrize("name", ["pfels", "wfl-p", "wfl-pdp", "dp-fedavg"])
def test_the_estimates_noise_is_the_noise_multiplier_times_the_bound_over_r(name: str):
    """Δ̂ = mean + noise with standard deviation zC/r on every received coordinate: what the accountants price."""
    e = build(small(scheme=name, model__hidden=128, channel__noise_std=3.0))
    link, received = e.scheme.prepare(e.system, 0), slice(None)
    if name == "pfels":
        received = e.system.rand_k(0)
    quiet = build(small(scheme="fedavg", model__hidden=128))
    clipped = clipped_mean(quiet)
    noise = (play(e)[0] - clipped)[received]
    std = link.event.noise_multiplier * e.system.bound / e.system.cohort_size
    assert float(noise.std()) == pytest.approx(std, rel=5 / math.sqrt(2 * len(noise)))


def clipped_mean(e: Experiment) -> torch.Tensor:
    theta = e.network.initial(generator(e.config.seed, Purpose.MODEL))
    total = torch.zeros_like(theta)
    for part in e.system.local_updates(theta, 0, e.system.cohort(0), Tally()):
        lengths = part.updates.norm(dim=1, keepdim=True)
        total += (part.updates * (e.system.bound / lengths).clamp(max=1)).sum(0)
    return total / e.system.cohort_size


@pytest.mark.parametrize("name", ["fedavg", "dp-fedavg"])
def test_links_of_their_own_are_counted_for_those_who_were_drawn(name: str):
    e = build(small(scheme=name, cohort__sampling="poisson"))
    links = [e.scheme.prepare(e.system, t) for t in range(6)]
    assert len({len(link.cohort) for link in links}) > 1
    assert all(link.subcarriers == len(link.cohort) * e.system.dimension for link in links)


def test_with_poisson_cohorts_the_noise_of_dp_fedavg_follows_their_size_and_no_outsiders_figure_is_made_up():
    e = build(small(scheme="dp-fedavg", cohort__sampling="poisson"))
    fixed = build(small(scheme="dp-fedavg")).scheme.prepare(e.system, 0).event.server_noise_multiplier * math.sqrt(8)
    for t in range(6):
        link = e.scheme.prepare(e.system, t)
        assert link.event.noise_multiplier == pytest.approx(fixed * math.sqrt(len(link.cohort) / 8))
    assert loop.run(e.config).summary["privacy"]["outsider"]["epsilon"] is None


def test_the_privacy_limit_gives_just_the_claimed_epsilon():
    e = build(small(privacy__epsilon=0.01))
    link = e.scheme.prepare(e.system, 0)
    assert link.on_air.limit == "privacy"
    dp = as_scheme(e, "dp-fedavg").scheme.prepare(e.system, 0)
    assert link.event.noise_multiplier == pytest.approx(dp.event.noise_multiplier, rel=1e-12)


def test_schemes_meet_the_same_cohorts_and_channels():
    e = build(small())
    links = [load_scheme(name).prepare(e.system, 3) for name in SCHEMES if name != "pfels-plus"]
    assert all(np.array_equal(link.cohort, links[0].cohort) for link in links)
    assert all(np.array_equal(link.air.gains, links[0].on_air.gains) for link in links if link.air)
