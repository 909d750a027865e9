"""Audits: honest schemes are not rejected and nearly reach their claim; schemes broken on purpose are rejected."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
import torch

import pfels
from pfels.cli import main
from pfels.config.tree import Config
from pfels.documents.audit import Audit
from pfels.experiment.setup import build
from pfels.schemes import registry
from pfels.schemes.dp_fedavg import DpFedAvg
from pfels.schemes.draws import Draws
from pfels.schemes.participation import ParticipationCount
from pfels.schemes.pfels_plus import PfelsPlus, public_level
from pfels.schemes.plan import RoundPlan
from pfels.schemes.registry import scheme_entry, scheme_names
from pfels.schemes.setting import Setting
from pfels.studies.audit import audit_configs, audited
from pfels.studies.canaries import HUGE, Canaries
from pfels.training.updates import LocalUpdates
from pfels.uplink.clipping import clip, norms
from pfels.uplink.compression import lift, project
from tests.conftest import small

NOISY = [name for name in scheme_names() if name != "fedavg"]


def setup(scheme: str, **changes: Any) -> Config:
    return small(scheme=scheme, rounds=40, model__hidden=32, **changes)


@pytest.fixture(scope="module")
def audits() -> dict[str, Audit]:
    """An audit of every scheme that has noise."""
    return {name: pfels.audit(setup(name), canaries=120) for name in NOISY}


@pytest.mark.parametrize("name", NOISY)
def test_no_scheme_is_rejected(name: str, audits: dict[str, Audit]):
    found = audits[name]
    assert (found["rejected"], found["rejected_by"], found["stopped"]) == (False, [], None)
    for view in found["views"].values():
        assert view["certified"]["epsilon"] <= view["claimed"]["epsilon"]
        assert view["estimate"]["low"] <= view["estimate"]["epsilon"] <= view["estimate"]["high"]


@pytest.mark.parametrize("name", NOISY)
def test_one_canary_moves_what_is_received_by_just_what_the_ledger_books_for_it(name: str, audits: dict[str, Audit]):
    alone = audits[name]["alone"]
    assert alone["participations"] > 0
    assert alone["epsilon"] == pytest.approx(alone["booked"], rel=1e-3)


@pytest.mark.parametrize("name", ["pfels-plus", "pfels-echo"])
def test_the_server_finds_canaries_nearly_as_well_as_is_claimed(name: str):
    found = pfels.audit(setup(name), canaries=300)
    assert 0.7 <= found["estimate"]["epsilon"] / found["claimed"]["epsilon"] <= 1.3  # ± 0.1, one standard error
    assert found["certified"]["epsilon"] > found["claimed"]["epsilon"] / 10
    assert not found["rejected"]


def test_without_noise_nothing_is_claimed_and_nothing_is_tried():
    found = pfels.audit(setup("fedavg"))
    assert (found["claimed"]["epsilon"], found["rejected"], found["alone"]) == (None, False, None)
    assert found["estimate"]["epsilon"] is None


def test_against_an_outsider_the_models_are_what_counts():
    found = pfels.audit(setup("pfels-plus", privacy__adversary="outsider", privacy__total_epsilon=8.0), canaries=300)
    assert found["claimed"] == found["views"]["models"]["claimed"]
    assert (found["claimed"]["adversary"], found["claimed"]["neighbours"]) == ("outsider", "add-remove")
    assert found["estimate"]["epsilon"] / found["claimed"]["epsilon"] >= 0.3
    assert not found["rejected"]


@pytest.mark.parametrize("changes", [{"compression__error_feedback": True}, {"compression__kind": "public-top-k"}])
def test_what_devices_remember_and_what_masks_follow_is_audited_too(changes: dict[str, Any]):
    found = pfels.audit(setup("pfels-plus", **changes), canaries=120)
    assert found["alone"]["epsilon"] == pytest.approx(found["alone"]["booked"], rel=5e-3)
    assert not found["rejected"]


def test_several_trainings_are_pooled_and_sharpen_the_estimate():
    one, four = (pfels.audit(setup("pfels-plus"), canaries=60, runs=runs) for runs in (1, 4))
    assert four["seeds"] == [0, 1, 2, 3]
    widths = [found["estimate"]["high"] - found["estimate"]["low"] for found in (one, four)]
    assert widths[1] == pytest.approx(widths[0] / 2, rel=0.35)
    assert four["included"] == sum(
        pfels.audit(setup("pfels-plus", seed=seed), canaries=60)["included"] for seed in range(4)
    )
    assert not four["rejected"]


def test_an_audit_is_the_same_every_time_and_whatever_the_workers():
    a, b = (pfels.audit(setup("pfels-plus"), canaries=40, workers=workers) for workers in (1, 2))
    assert a == b


def test_the_audited_training_draws_devices_as_often_and_real_ones_over_the_same_channels():
    config = setup("pfels-plus")
    (bigger,) = audit_configs(config, canaries=60, runs=1)
    assert (bigger.data.devices, bigger.cohort.size, bigger.delta) == (90, 24, config.delta)
    real = np.arange(30)
    draws = [build(config).draws, Draws(replace(build(config).setting, devices=90, cohort_size=24), 0)]
    assert np.array_equal(draws[0].gains(5, real), draws[1].gains(5, real))
    assert np.array_equal(draws[0].powers(real), draws[1].powers(real))


def test_directions_are_of_one_length_on_every_index_set_and_overlap_no_more_than_by_chance():
    canaries, d = Canaries(0, 100, 50, 1000, 10), 1000
    indices = torch.arange(0, d, 3)
    for some in (None, indices):
        width = d if some is None else len(some)
        rows = torch.stack(canaries.signs(range(100, 150), some)).double() / np.sqrt(width)
        assert torch.allclose(rows.norm(dim=1), torch.ones(50, dtype=torch.float64))
        overlaps = (rows @ rows.T)[~torch.eye(50, dtype=torch.bool)]
        assert float(overlaps.square().mean()) == pytest.approx(1 / width, rel=0.15)
    coins = Canaries(0, 100, 4000, 10, 10).coins()
    assert abs(coins.mean() - 0.5) < 4 * 0.5 / np.sqrt(4000)


@dataclass(frozen=True)
class SparseUploads(DpFedAvg):
    """DP-FedAvg that uploads rand-k alone: an honest scheme that this package does not have."""

    def indices(self, draws: Draws, theta: torch.Tensor, t: int) -> torch.Tensor:
        return draws.rand_k(t)

    def send(self, plan: RoundPlan, part: LocalUpdates, A: torch.Tensor | None) -> torch.Tensor:
        return project(clip(part.updates, bound=self.setting.bound), A)

    def receive(self, plan: RoundPlan, y: torch.Tensor, A: torch.Tensor | None) -> torch.Tensor:
        return lift(y, A, dimension=self.setting.dimension) / self.setting.cohort_size


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
def test_a_scheme_of_another_kind_is_audited_as_it_is(sampling: str, monkeypatch: pytest.MonkeyPatch):
    found = audit_in_place(monkeypatch, "dp-fedavg", SparseUploads, cohort__sampling=sampling)
    assert found["alone"]["epsilon"] == pytest.approx(found["alone"]["booked"], rel=1e-3)
    assert found["estimate"]["ratio"] == pytest.approx(1, abs=4 * 0.1)  # its standard error, with 120 canaries
    assert not found["rejected"]


# Schemes broken on purpose.


@dataclass(frozen=True)
class ClipRemoved(PfelsPlus):
    """PFELS+ without its clips."""

    def send(self, plan: RoundPlan, part: LocalUpdates, A: torch.Tensor | None) -> torch.Tensor:
        return plan.transmit(project(part.updates, A), part.places)


@dataclass(frozen=True)
class ClipAndGuardsRemoved(ClipRemoved):
    """The same, with limits so wide that no guard notices, and the event of the limits that they were."""

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        plan, wide = PfelsPlus.prepare(self, draws, t), 2 * HUGE
        air = replace(plan.require_air(), bound=self.level.bound * wide, powers=plan.require_air().powers * wide**2)
        return replace(plan, air=air)


@dataclass(frozen=True)
class NoiseSaidToBeTwice(PfelsPlus):
    """PFELS+ whose events say twice the noise that the channel has."""

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        plan = PfelsPlus.prepare(self, draws, t)
        z = 2 * plan.event.noise_multiplier
        return replace(plan, event=replace(plan.event, noise_multiplier=z, server_noise_multiplier=z))


@dataclass(frozen=True)
class NoiseHalvedOnDevices(DpFedAvg):
    """DP-FedAvg whose devices add half the noise that its events say."""

    def noise_std(self, plan: RoundPlan, device: int) -> float:
        return DpFedAvg.noise_std(self, plan, device) / 2


@dataclass(frozen=True)
class LevelFollowsUpdates(PfelsPlus):
    """PFELS+ that brings the longest update of the cohort to the bound and all others down with it, in place of a clip
    per device: nobody sends more than its bound, and one long update silences everybody else."""

    def send(self, plan: RoundPlan, part: LocalUpdates, A: torch.Tensor | None) -> torch.Tensor:
        rows = project(part.updates, A)
        longest = float(norms(rows).max())
        return plan.transmit(rows * min(1.0, self.level.bound * (1 - 1e-6) / max(longest, 1e-30)), part.places)


@dataclass(frozen=True)
class LevelFollowsLastRound(PfelsPlus):
    """PFELS+ that is as loud as the updates of the round before were long, and never louder than it may be."""

    loudness: list[float] = field(default_factory=lambda: [1.0])

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        plan = PfelsPlus.prepare(self, draws, t)
        return replace(plan, air=replace(plan.require_air(), beta=self.level.beta * self.loudness[0]))

    def send(self, plan: RoundPlan, part: LocalUpdates, A: torch.Tensor | None) -> torch.Tensor:
        self.loudness[0] = min(1.0, float(norms(part.updates).max()) / (20 * self.setting.bound))
        return plan.transmit(clip(project(part.updates, A), bound=self.level.bound), part.places)


def plus(kind: Any) -> Callable[[Setting], Any]:
    return lambda s: kind(s, public_level(s), ParticipationCount())


def audit_in_place(
    monkeypatch: pytest.MonkeyPatch, name: str, create: Callable[[Setting], Any], **changes: Any
) -> Audit:
    """The audit of a scheme in the place of one of the package."""
    monkeypatch.setitem(registry._SCHEMES, name, replace(scheme_entry(name), create=create))
    return pfels.audit(setup(name, **changes), canaries=120)


def test_a_clip_removed_is_rejected_by_the_guard_that_stops_it(monkeypatch: pytest.MonkeyPatch):
    found = audit_in_place(monkeypatch, "pfels-plus", plus(ClipRemoved))
    assert (found["rejected"], found["rejected_by"]) == (True, ["guard"])
    assert "round 1: an update of norm" in (found["stopped"] or "")


def test_a_clip_removed_behind_the_guards_back_is_rejected_by_what_one_device_moves(monkeypatch: pytest.MonkeyPatch):
    found = audit_in_place(monkeypatch, "pfels-plus", plus(ClipAndGuardsRemoved))
    assert found["rejected"]
    assert "alone" in found["rejected_by"]
    assert found["alone"]["epsilon"] > 100 * found["alone"]["booked"]


def test_noise_said_to_be_twice_what_it_is_is_rejected_by_scores_and_by_what_one_device_moves(
    monkeypatch: pytest.MonkeyPatch,
):
    found = audit_in_place(monkeypatch, "pfels-plus", plus(NoiseSaidToBeTwice))
    assert {"server: estimate", "alone"} <= set(found["rejected_by"])
    assert found["views"]["server"]["estimate"]["ratio"] == pytest.approx(2, rel=0.3)


def test_noise_halved_on_the_devices_is_rejected_by_scores(monkeypatch: pytest.MonkeyPatch):
    found = audit_in_place(monkeypatch, "dp-fedavg", NoiseHalvedOnDevices)
    assert "server: estimate" in found["rejected_by"]
    assert found["views"]["server"]["estimate"]["ratio"] == pytest.approx(2, rel=0.3)


@pytest.mark.parametrize("name", ["pfels", "pfels-plus", "pfels-echo"])
def test_a_receiver_with_half_the_noise_is_rejected_by_scores(name: str, monkeypatch: pytest.MonkeyPatch):
    honest = Draws.receiver_noise
    monkeypatch.setattr(Draws, "receiver_noise", lambda self, t, width: honest(self, t, width) / 2)
    assert "server: estimate" in pfels.audit(setup(name), canaries=120)["rejected_by"]


def test_enough_canaries_certify_that_a_claim_is_wrong(monkeypatch: pytest.MonkeyPatch):
    """At a small claim the certified bound alone suffices: a quarter of the noise, 400 canaries."""
    honest = Draws.receiver_noise
    monkeypatch.setattr(Draws, "receiver_noise", lambda self, t, width: honest(self, t, width) / 4)
    found = pfels.audit(setup("pfels-plus", privacy__total_epsilon=1.0), canaries=400)
    assert "server: certified" in found["rejected_by"]


@pytest.mark.parametrize("kind", [LevelFollowsUpdates, LevelFollowsLastRound])
def test_a_level_that_follows_the_updates_is_rejected_by_what_one_device_moves(
    kind: Any, monkeypatch: pytest.MonkeyPatch
):
    found = audit_in_place(monkeypatch, "pfels-plus", plus(kind))
    assert "alone" in found["rejected_by"]
    assert found["alone"]["epsilon"] > 5 * found["alone"]["booked"]


# The command.


def call(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["pfels", "audit", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), capsys.readouterr().out


TINY = ["demo", "-s", "scheme=pfels-plus", "-s", "rounds=20", "-s", "data.devices=20", "-s", "cohort.size=5"]


def test_a_rejected_claim_ends_in_exit_code_1_with_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    code, said = call([*TINY, "--canaries", "100"], monkeypatch, capsys)
    assert (code, "Not rejected: nothing" in said) == (0, True)
    honest = Draws.receiver_noise
    monkeypatch.setattr(Draws, "receiver_noise", lambda self, t, width: honest(self, t, width) / 4)
    code, said = call([*TINY, "--canaries", "100", "--out", "bad"], monkeypatch, capsys)
    assert (code, "Rejected by server: estimate" in said) == (1, True)
    assert sorted(path.name for path in (tmp_path / "bad").iterdir()) == ["audit.json", "audit.png", "scores.csv"]
    assert json.loads((tmp_path / "bad" / "audit.json").read_text())["rejected"] is True
    lines = (tmp_path / "bad" / "scores.csv").read_text().splitlines()
    assert lines[0] == "view,seed,included,booked_mu,score"
    assert sum(line.startswith("models,") for line in lines) == 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--canaries", "1"], "canaries = 1: must be a whole number from 2 to 2000"),
        (["--canaries", "-5"], "canaries = -5: must be a whole number from 2 to 2000"),
        (["--canaries", "2001"], "canaries = 2001: must be a whole number from 2 to 2000, 20 per device"),
        (["--canaries", "many"], "Invalid value for '--canaries'"),
        (["--runs", "0"], "runs = 0: must be a whole number of at least 1"),
        (["-s", "scheme=pfles"], "scheme = 'pfles': unknown scheme"),
        (["-s", "scheme=fedavg", "-s", "compression.ratio=0.5"], "compression.ratio: fedavg does not use it"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    arguments: list[str], message: str, tmp_path: Path, pfels_command: Callable[..., CompletedProcess[str]]
):
    done = pfels_command("audit", "demo", *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert message in line
    assert list(tmp_path.iterdir()) == []


def test_two_canaries_are_enough_to_run_and_too_few_to_estimate():
    found = audited(setup("pfels-plus"), canaries=2).document
    assert (found["estimate"]["epsilon"], found["rejected"]) == (None, False)
    assert found["certified"]["epsilon"] == 0
