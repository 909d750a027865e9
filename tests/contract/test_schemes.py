"""One contract for all schemes, those of installed packages included."""

import math
import sys
from typing import Any

import numpy as np
import pytest
import torch

from pfels import seeding
from pfels.errors import RunError
from pfels.experiment import loop
from pfels.experiment.setup import Experiment, build
from pfels.privacy.events import Sampling
from pfels.schemes.draws import Draws
from pfels.schemes.memory import Memory
from pfels.schemes.plan import RoundResult
from pfels.schemes.registry import scheme_entry, scheme_names
from pfels.schemes.round import play as play_round
from pfels.seeding import Purpose, generator
from pfels.studies.audit import audit
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


def play(e: Experiment, t: int = 0) -> RoundResult:
    theta = e.network.initial(generator(e.config.seed, Purpose.MODEL))
    return play_round(e.scheme, e.draws, e.scheme.prepare(e.draws, t), theta, e.training, memory=Memory())


def test_a_run_has_the_promised_fields_and_one_record_per_round(scheme: str):
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
    on_air = e.scheme.prepare(e.draws, 0).air is not None
    result = loop.run(e.config)
    for key in ("energy", "energy_bound", "subcarriers", "silent"):
        values = [r[key] for r in result.records]
        if on_air or key in ("subcarriers", "silent"):
            assert result.summary[key] == pytest.approx(sum(values), rel=1e-12)
        else:
            assert values == [None] * 6
            assert result.summary[key] is None


def test_airtime_follows_from_the_subcarriers_of_every_round(scheme: str):
    e = build(small(scheme=scheme, channel__subcarriers=100, channel__slot_ms=3.0, radio__frame="paper"))
    settled = [e.scheme.prepare(e.draws, t).subcarriers for t in range(6)]
    result = loop.run(e.config)
    assert [r["subcarriers"] for r in result.records] == settled
    assert result.summary["airtime_s"] == pytest.approx(sum(math.ceil(k / 100) * 0.003 for k in settled))


def test_a_run_reports_its_least_noise_and_is_measured_on_the_test_examples(scheme: str):
    e = build(small(scheme=scheme))
    result = loop.run(e.config)
    levels = [r["noise_multiplier"] for r in result.records]
    assert result.summary["privacy"]["noise_multiplier_min"] == min(levels)
    accuracy, loss = evaluate(e.network, result.parameters, e.federation.test, pool=e.training.pool)
    assert (result.summary["accuracy"], result.summary["loss"]) == (accuracy, pytest.approx(loss))
    assert len(e.federation.test) == 360


def test_noise_is_drawn_once_for_each_round_and_sender(scheme: str, monkeypatch: pytest.MonkeyPatch):
    """Noise that repeats over rounds or devices, or that follows another draw, hides nothing."""
    drawn: list[tuple[str, int, int | None]] = []
    receiver, device = Draws.receiver_noise, Draws.device_noise

    def noted_receiver(self: Draws, t: int, width: int) -> torch.Tensor:
        drawn.append(("receiver", t, None))
        return receiver(self, t, width)

    def noted_device(self: Draws, t: int, who: int, *, width: int, std: float) -> torch.Tensor:
        drawn.append(("device", t, who))
        return device(self, t, who, width=width, std=std)

    monkeypatch.setattr(Draws, "receiver_noise", noted_receiver)
    monkeypatch.setattr(Draws, "device_noise", noted_device)
    e = build(small(scheme=scheme, rounds=3))
    due: list[tuple[str, int, int | None]] = []
    for t in range(3):
        plan = e.scheme.prepare(e.draws, t)
        if plan.air is not None:
            due.append(("receiver", t, None))
        if plan.air.added is not None if plan.air else plan.event.noise_multiplier > 0:
            due += [("device", t, who) for who in plan.sending.tolist()]
    loop.run(e.config)
    assert sorted(drawn, key=repr) == sorted(due, key=repr)


def test_noise_is_fresh_normal_noise_as_the_plan_states_it_and_the_server_knows_nothing_but_what_it_receives(
    scheme: str,
):
    """The checks of an audit: of the noise as it was received, of one real device at a time, and of the server's part
    once more without any update."""
    e = build(small(scheme=scheme))
    plan = e.scheme.prepare(e.draws, 0)
    found = audit(small(scheme=scheme, rounds=10), canaries=10)
    if found["claimed"]["epsilon"] is None:
        assert plan.event.noise_multiplier == 0
        return
    on_devices = plan.air is None or plan.air.added is not None
    due = {"server": True, "receiver": plan.air is not None, "devices": on_devices}
    assert {each["noise"] for each in found["noise"]} == {source for source, is_due in due.items() if is_due}
    assert [each for each in found["noise"] if each["rejected"]] == []
    assert found["replay"] == {"rounds": 10, "saw": None, "rejected": False}
    assert found["emptied"]["rounds"] > 0
    assert not found["emptied"]["rejected"]


def test_no_two_purposes_share_a_stream(scheme: str, monkeypatch: pytest.MonkeyPatch):
    """An address is asked for by one line of code alone: two lines would get the same numbers."""
    asked: dict[tuple, set[tuple[str, int]]] = {}
    make = seeding.np.random.Philox

    def noted(key: Any, counter: np.ndarray | None = None) -> np.random.Philox:
        if counter is None:  # the split of the digits, the same for all seeds
            return make(key=key)
        frame = sys._getframe(1)
        while frame.f_code.co_filename == seeding.__file__:
            frame = frame.f_back
        (seed, purpose), at = key.generate_state(2).tolist(), counter.tolist()
        if purpose != Purpose.MODEL:  # the one model that all start from
            asked.setdefault((seed, purpose, *at), set()).add((frame.f_code.co_qualname, frame.f_lineno))
        return make(key, counter=counter)

    monkeypatch.setattr(seeding.np.random, "Philox", noted)
    loop.run(small(scheme=scheme, rounds=3))
    assert asked
    assert {address: by for address, by in asked.items() if len(by) > 1} == {}


def test_realised_energy_is_near_its_bound_and_within_every_devices_limit_on_average(scheme: str):
    # Every update is at its bound, and with three blocks echo has one band: a round stands by itself.
    e = build(small(scheme=scheme, training__clip=0.05, compression__ratio=0.3))
    for t in range(5):
        plan = e.scheme.prepare(e.draws, t)
        if plan.air is None:
            assert play(e, t).energy is None
            continue
        assert np.all(plan.require_air().energy_bounds <= plan.require_air().powers * (1 + 1e-9))
        result = play(e, t)
        assert 0.7 <= result.energy / plan.require_air().energy_bounds.sum() <= 1.5


SAMPLED = [name for name in scheme_names() if scheme_entry(name).sampling is not Sampling.TURNS]


@pytest.mark.parametrize("scheme", SAMPLED)
def test_poisson_cohorts_are_an_option_of_every_scheme_that_draws_cohorts(scheme: str):
    result = loop.run(small(scheme=scheme, cohort__sampling="poisson", rounds=12))
    assert len({len(r["cohort"]) for r in result.records}) > 1


@pytest.mark.parametrize("scheme", SAMPLED)
def test_an_empty_poisson_cohort_harms_nothing(scheme: str):
    result = loop.run(small(scheme=scheme, cohort__sampling="poisson", cohort__size=1, rounds=12, privacy__delta=1e-3))
    empty = [r for r in result.records if not r["cohort"]]
    assert empty
    assert all(r["participants"] == 0 and r["train_loss"] is None for r in empty)
    assert bool(torch.isfinite(result.parameters).all())


@pytest.mark.parametrize("t", [0, 3])
def test_the_estimate_is_what_arrived_over_the_divisor_and_the_level(scheme: str, t: int):
    """The plan says all that the server does to what it received: nothing else can scale the noise."""
    e = build(small(scheme=scheme))
    plan, theta = e.scheme.prepare(e.draws, t), e.network.initial(generator(e.config.seed, Purpose.MODEL))
    A = e.scheme.indices(e.draws, theta, t)
    y = torch.linspace(-1, 1, e.setting.dimension if A is None else len(A))
    lifted = torch.zeros(e.setting.dimension)
    lifted[slice(None) if A is None else A] = y
    level = 1.0 if plan.air is None else plan.beta
    assert 0 < plan.divisor * level < math.inf
    assert torch.allclose(e.scheme.receive(plan, y.clone(), A), lifted / (plan.divisor * level), rtol=1e-6, atol=0)


def test_a_device_whose_training_diverges_is_silent_and_counted(scheme: str):
    e = build(small(scheme=scheme, training__learning_rate=1e20, model__name="mlp"))
    result = play(e)
    assert result.unheard == len(e.scheme.prepare(e.draws, 0).training) > 0
    assert result.train_loss is None
    assert bool(torch.isfinite(result.estimate).all())
    with pytest.raises(RunError, match=r"^round 1: the training of all \d+ devices diverged"):
        loop.run(small(scheme=scheme, training__learning_rate=1e20, rounds=1))
