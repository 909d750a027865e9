"""Audits of the noise itself, of the server's part, and of one real device after the other: what cheats is rejected."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch

import pfels
from pfels.documents.audit import Audit
from pfels.schemes import registry
from pfels.schemes.dp_fedavg import DpFedAvg
from pfels.schemes.draws import Draws
from pfels.schemes.echo_level import echo_level
from pfels.schemes.participation import ParticipationCount
from pfels.schemes.pfels_echo import PfelsEcho
from pfels.schemes.pfels_plus import PfelsPlus, public_level
from pfels.schemes.plan import RoundPlan
from pfels.schemes.registry import scheme_entry
from pfels.seeding import Purpose, generator
from pfels.studies.audit_verdict import ERROR_RATE, NOISE_ERRORS
from pfels.studies.server_replay import digest
from pfels.training.updates import LocalUpdates
from tests.conftest import small

ROUNDS = 15
STORE: dict[int, torch.Tensor] = {}
MODEL: list[torch.Tensor] = []
honest, honest_device = Draws.receiver_noise, Draws.device_noise


def audit(scheme: str, **changes: Any) -> Audit:
    return pfels.audit(small(scheme=scheme, rounds=ROUNDS, **changes), canaries=20)


def audit_of(monkeypatch: pytest.MonkeyPatch, scheme: str, create: Callable[..., Any]) -> Audit:
    """The audit of a scheme in the place of one of the package."""
    STORE.clear()
    monkeypatch.setitem(registry._SCHEMES, scheme, replace(scheme_entry(scheme), create=create))
    return audit(scheme)


def plus(kind: Any, **more: Any) -> Callable[..., Any]:
    return lambda s: kind(s, public_level(s), ParticipationCount(), **more)


def test_the_error_rates_of_all_checks_together_are_at_most_one_in_a_thousand():
    found = audit("artificial-noise")
    assert {each["noise"] for each in found["noise"]} == {"receiver", "devices", "server"}
    assert sum(each["error_rate"] for each in found["noise"]) <= NOISE_ERRORS * (1 + 1e-9)
    assert NOISE_ERRORS + 4 * 1e-4 <= 1e-3 * (1 + 1e-9)  # two limits of each of two views
    assert all(each["p"] >= ERROR_RATE and not each["rejected"] for each in found["noise"])


def test_several_trainings_share_the_error_rate():
    one = pfels.audit(small(scheme="pfels-plus", rounds=6), canaries=20)
    two = pfels.audit(small(scheme="pfels-plus", rounds=6), canaries=20, runs=2)
    for a, b in zip(one["noise"], two["noise"], strict=True):
        assert (a["noise"], a["check"]) == (b["noise"], b["check"])
        assert b["p"] <= 2 * a["p"] + 1e-12
    assert two["noise"][0]["compared"] == 2 * one["noise"][0]["compared"]
    assert two["replay"]["rounds"] == 12


def on_lattice(x: torch.Tensor, step: float) -> torch.Tensor:
    return torch.round(x / step) * step


NOISE: dict[str, tuple[Callable[..., torch.Tensor], str]] = {
    "the same in every round": (lambda d, t, w: honest(d, 0, w), "vectors"),
    "one of two": (lambda d, t, w: honest(d, t % 2, w), "vectors"),
    "none in one round": (lambda d, t, w: honest(d, t, w) * (t != 7), "level"),
    "a lattice": (lambda d, t, w: on_lattice(honest(d, t, w), d.setting.noise_std / 2), "values"),
    "the same whatever the seed": (lambda d, t, w: honest(replace(d, seed=9), t, w), "seeds"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOISE)
def test_receiver_noise_that_is_not_fresh_normal_noise_is_rejected(name: str, monkeypatch: pytest.MonkeyPatch):
    noise, by = NOISE[name]
    monkeypatch.setattr(Draws, "receiver_noise", noise)
    found = audit("pfels-plus")
    assert by in {each["check"] for each in found["noise"] if each["rejected"]}
    assert any(each.startswith(f"receiver noise ({by}): ") for each in found["rejected_by"])


@pytest.mark.parametrize("scheme", ["dp-fedavg", "artificial-noise"])
@pytest.mark.parametrize(
    ("noise", "by"),
    [
        (lambda d, t, i, **how: honest_device(d, t, 0, **how), "vectors"),
        (lambda d, t, i, **how: honest_device(d, 0, i, **how), "vectors"),
        (lambda d, t, i, **how: honest_device(d, t, i, **how) * (i != 5), "level"),
    ],
)
def test_devices_that_share_noise_or_add_none_are_rejected(
    scheme: str, noise: Any, by: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Draws, "device_noise", noise)
    found = audit(scheme)
    assert by in {each["check"] for each in found["noise"] if each["rejected"] and each["noise"] == "devices"}


def test_where_devices_add_noise_over_the_air_the_receivers_own_is_looked_at_by_itself(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Draws, "receiver_noise", lambda self, t, width: 0.5 * honest(self, t, width))
    odd = {(each["noise"], each["check"]) for each in audit("artificial-noise")["noise"] if each["rejected"]}
    assert ("receiver", "level") in odd
    assert not any(source == "devices" for source, _ in odd)


@dataclass(frozen=True)
class Adds(PfelsPlus):
    """PFELS+ whose server adds what a device learned."""

    how: str = "global"
    own: dict[int, torch.Tensor] = field(default_factory=dict)

    def send(self, plan: RoundPlan, part: LocalUpdates, A: torch.Tensor | None) -> torch.Tensor:
        if self.how == "plan":
            object.__setattr__(plan, "stash", part.updates[0].clone())
        (self.own if self.how == "instance" else STORE)[plan.round] = part.updates[0].clone()
        return super().send(plan, part, A)

    def receive(self, plan: RoundPlan, y: torch.Tensor, A: torch.Tensor | None) -> torch.Tensor:
        store = self.own if self.how == "instance" else STORE
        raw = getattr(plan, "stash", 0.0) if self.how == "plan" else store.get(plan.round, 0.0)
        wanted = self.how != "last" or plan.round == ROUNDS - 1
        return super().receive(plan, y, A) + (1e-5 * raw if wanted else 0.0)


@pytest.mark.parametrize("how", ["instance", "global", "plan", "last"])
def test_updates_that_reach_the_model_beside_the_received_sum_are_rejected(how: str, monkeypatch: pytest.MonkeyPatch):
    found = audit_of(monkeypatch, "pfels-plus", plus(Adds, how=how))
    first = ROUNDS if how == "last" else 1
    assert found["replay"]["saw"] == f"in round {first} the estimate depends on more than what was received"
    assert f"replay: {found['replay']['saw']}" in found["rejected_by"]


def test_they_are_also_if_an_earlier_audit_of_the_process_left_the_same_behind(monkeypatch: pytest.MonkeyPatch):
    audit_of(monkeypatch, "pfels-plus", plus(Adds))
    assert len(STORE) == ROUNDS
    assert audit("pfels-plus")["replay"]["rejected"]


@dataclass(frozen=True)
class WritesTheModel(PfelsPlus):
    """PFELS+ that writes into the model what a device learned."""

    def indices(self, draws: Draws, theta: torch.Tensor, t: int) -> torch.Tensor:
        MODEL[:] = [theta]
        return super().indices(draws, theta, t)

    def send(self, plan: RoundPlan, part: LocalUpdates, A: torch.Tensor | None) -> torch.Tensor:
        MODEL[0].add_(part.updates[0], alpha=1e-6)
        return super().send(plan, part, A)


@dataclass(frozen=True)
class PlacesFollowUpdates(PfelsPlus):
    """PFELS+ whose index set follows what a device learned in the round before."""

    own: dict[int, torch.Tensor] = field(default_factory=dict)

    def indices(self, draws: Draws, theta: torch.Tensor, t: int) -> torch.Tensor:
        last = self.own.get(t - 1)
        return super().indices(draws, theta, t) if last is None else last.abs().topk(self.setting.kept).indices

    def send(self, plan: RoundPlan, part: LocalUpdates, A: torch.Tensor | None) -> torch.Tensor:
        self.own[plan.round] = part.updates[0].clone()
        return super().send(plan, part, A)


@dataclass(frozen=True)
class DecodesWithUpdates(PfelsEcho):
    """PFELS-echo that decodes with what a device learned."""

    def send_and_keep(self, plan: RoundPlan, part: LocalUpdates, A: Any, memory: Any) -> Any:
        STORE[plan.round] = part.updates[0].clone()
        return super().send_and_keep(plan, part, A, memory)

    def decode(self, plan: RoundPlan, y: torch.Tensor, decoded: Any) -> torch.Tensor:
        return super().decode(plan, y, decoded) + float(STORE.get(plan.round, torch.zeros(1)).abs().sum())


@pytest.mark.parametrize(
    ("scheme", "create", "saw"),
    [
        ("pfels-plus", plus(WritesTheModel), "the model is changed in other ways than by the estimate"),
        ("pfels-plus", plus(PlacesFollowUpdates), "the index set depends on more than is public"),
        ("pfels-echo", lambda s: DecodesWithUpdates(s, echo_level(s)), "depends on more than what was received"),
    ],
)
def test_a_server_that_knows_more_than_it_received_is_rejected(
    scheme: str, create: Any, saw: str, monkeypatch: pytest.MonkeyPatch
):
    found = audit_of(monkeypatch, scheme, create)
    assert saw in (found["replay"]["saw"] or "")


@dataclass(frozen=True)
class TakesNoiseOut(PfelsPlus):
    """PFELS+ whose server works out the noise of some rounds from the seed."""

    seed: list[int] = field(default_factory=list)

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        self.seed[:] = [draws.seed]  # type: ignore[list-item]
        return super().prepare(draws, t)

    def receive(self, plan: RoundPlan, y: torch.Tensor, A: torch.Tensor | None) -> torch.Tensor:
        if plan.round % 3 == 0:
            g = generator(self.seed[0], Purpose.CHANNEL_NOISE, round=plan.round)
            y = y - torch.from_numpy(g.standard_normal(len(y), dtype=np.float32)) * self.setting.noise_std
        return super().receive(plan, y, A)


def test_a_server_that_knows_the_noise_is_rejected(monkeypatch: pytest.MonkeyPatch):
    found = audit_of(monkeypatch, "pfels-plus", plus(TakesNoiseOut))
    assert not found["replay"]["rejected"]
    assert "estimates" in {each["check"] for each in found["noise"] if each["rejected"]}


@dataclass(frozen=True)
class AlwaysTheFirstRound(PfelsPlus):
    """PFELS+ whose plans all say that they are of the first round."""

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        return replace(super().prepare(draws, t), round=0)


def test_a_plan_that_says_the_wrong_round_repeats_noise_and_is_rejected(monkeypatch: pytest.MonkeyPatch):
    found = audit_of(monkeypatch, "pfels-plus", plus(AlwaysTheFirstRound))
    assert any("the receiver noise of rounds" in each and "is the same vector" in each for each in found["rejected_by"])


@dataclass(frozen=True)
class SendsOfTheFirst(PfelsPlus):
    """PFELS+ whose devices all send what the first of them learned: none more than it may."""

    def send(self, plan: RoundPlan, part: LocalUpdates, A: torch.Tensor | None) -> torch.Tensor:
        return super().send(plan, replace(part, updates=part.updates[:1].expand_as(part.updates).clone()), A)


def test_a_real_device_whose_data_others_send_is_rejected_though_no_canary_is(monkeypatch: pytest.MonkeyPatch):
    found = audit_of(monkeypatch, "pfels-plus", plus(SendsOfTheFirst))
    assert found["emptied"]["rejected"]
    assert found["emptied"]["ratio"] > 3
    assert any("times what is booked" in each for each in found["rejected_by"])


@dataclass(frozen=True)
class NoiseForSmallUpdates(DpFedAvg):
    """DP-FedAvg whose devices add noise only while what they learn is short."""

    long: dict[int, bool] = field(default_factory=dict)

    def send(self, plan: RoundPlan, part: LocalUpdates, A: torch.Tensor | None) -> torch.Tensor:
        for device, row in zip(plan.sending[part.places].tolist(), part.updates, strict=True):
            self.long[device] = float(row.norm()) > self.setting.bound
        return super().send(plan, part, A)

    def noise_std(self, plan: RoundPlan, device: int) -> float:
        return 0.0 if self.long.get(device) else super().noise_std(plan, device)


def test_noise_that_follows_the_data_is_rejected(monkeypatch: pytest.MonkeyPatch):
    found = audit_of(monkeypatch, "dp-fedavg", NoiseForSmallUpdates)
    assert "level" in {each["check"] for each in found["noise"] if each["rejected"]}


@dataclass(frozen=True)
class SaysHalf(DpFedAvg):
    """DP-FedAvg whose devices add half of the noise that is booked, and say so."""

    def noise_std(self, plan: RoundPlan, device: int) -> float:
        return 0.5 * super().noise_std(plan, device)


def test_noise_is_held_against_what_is_booked_whatever_devices_say(monkeypatch: pytest.MonkeyPatch):
    found = audit_of(monkeypatch, "dp-fedavg", SaysHalf)
    assert ("devices", "level") in {(each["noise"], each["check"]) for each in found["noise"] if each["rejected"]}


def test_a_digest_tells_any_bit_of_a_plan():
    from pfels.experiment.setup import build

    e = build(small(scheme="pfels"))
    plan = e.scheme.prepare(e.draws, 3)
    same, air = e.scheme.prepare(e.draws, 3), plan.require_air()
    assert digest(plan) == digest(same)
    others = [
        replace(plan, divisor=np.nextafter(plan.divisor, 99)),
        replace(plan, air=replace(air, beta=np.nextafter(air.beta, 0))),
        replace(plan, air=replace(air, gains=air.gains * (1 + 1e-15))),
        replace(plan, cohort=plan.cohort[::-1].copy()),
    ]
    assert len({digest(each) for each in [plan, *others]}) == 5
    zeros = [np.zeros(6), -np.zeros(6), np.zeros((2, 3)), np.zeros((3, 2)), np.zeros(6, np.int64), torch.zeros(6), None]
    assert len({digest(each) for each in zeros}) == len(zeros)
