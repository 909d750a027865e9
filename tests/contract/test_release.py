"""A scheme cannot declare itself private: what it says of its release is held against what it does.

A scheme whose plan says that the release does not depend on the cohort gets a figure against an outsider. Its level,
its index set and its estimate must then be functions of what is public and of the received signal alone.
"""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from pfels.errors import GuardError
from pfels.experiment.setup import build
from pfels.schemes import registry
from pfels.schemes.dp_fedavg import DpFedAvg
from pfels.schemes.draws import Draws
from pfels.schemes.fedavg import FedAvg
from pfels.schemes.memory import Memory
from pfels.schemes.participation import ParticipationCount
from pfels.schemes.pfels import Pfels
from pfels.schemes.pfels_plus import PfelsPlus, public_level
from pfels.schemes.plan import RoundPlan
from pfels.schemes.registry import SchemeEntry, load_scheme, scheme_entry
from pfels.schemes.release import require_public_release, require_sound
from pfels.schemes.round import play
from pfels.schemes.setting import Setting
from pfels.schemes.wfl_p import WflP
from pfels.seeding import Purpose, generator
from pfels.training.updates import LocalUpdates
from pfels.uplink.compression import project
from tests.conftest import small


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
@pytest.mark.parametrize("t", [0, 5])
def test_level_index_set_and_estimate_depend_on_nobody_where_the_scheme_says_so(scheme: str, sampling: str, t: int):
    e = build(small(scheme=scheme, cohort__sampling=sampling))
    theta = torch.linspace(-0.1, 0.1, e.setting.dimension)
    require_public_release(lambda: load_scheme(scheme, e.setting), e.draws, theta, t=t)


def plus(kind: type[PfelsPlus], setting: Setting) -> PfelsPlus:
    return kind(setting, public_level(setting), ParticipationCount())


@dataclass(frozen=True)
class DividesBySenders(PfelsPlus):
    """PFELS+, except that the server divides by how many really sent, which tells how many did."""

    def receive(self, plan: RoundPlan, y: torch.Tensor, A: torch.Tensor | None) -> torch.Tensor:
        return super().receive(plan, y, A) / max(len(plan.sending), 1)


@dataclass(frozen=True)
class DividesByDrawn(FedAvg):
    """FedAvg, except that the server divides by how many were drawn."""

    def receive(self, plan: RoundPlan, y: torch.Tensor, A: torch.Tensor | None) -> torch.Tensor:
        return y / max(len(plan.cohort), 1)


@dataclass(frozen=True)
class LevelOfTheCohort(PfelsPlus):
    """PFELS+, except that the noise grows with the cohort."""

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        plan = super().prepare(draws, t)
        return replace(plan, event=replace(plan.event, noise_multiplier=1.0 + len(plan.sending)))


@dataclass(frozen=True)
class IndicesOfTheCohort(PfelsPlus):
    """PFELS+, except that the index set is shifted by the first device drawn."""

    def indices(self, draws: Draws, theta: torch.Tensor, t: int) -> torch.Tensor:
        shift = int(draws.cohort(t).sum())
        return (super().indices(draws, theta, t) + shift) % self.setting.dimension


@dataclass(frozen=True)
class DividesByThoseBelowTheCap(PfelsPlus):
    """PFELS+, except that the server divides by how many devices are really below the cap: the same number at first."""

    def receive(self, plan: RoundPlan, y: torch.Tensor, A: torch.Tensor | None) -> torch.Tensor:
        assert self.level.cap is not None
        return super().receive(plan, y, A) / max(self.setting.devices - len(self.sent.times), 1)


def test_what_a_scheme_counts_from_round_to_round_is_found_in_a_later_round():
    e = build(small(scheme="pfels-plus"))
    theta = torch.zeros(e.setting.dimension)
    require_public_release(lambda: plus(DividesByThoseBelowTheCap, e.setting), e.draws, theta, t=0)
    with pytest.raises(GuardError, match="but its estimate does"):
        require_public_release(lambda: plus(DividesByThoseBelowTheCap, e.setting), e.draws, theta, t=5)


@dataclass(frozen=True)
class ForgetsItsNoise:
    """DP-FedAvg by delegation, which loses the noise on the way."""

    inner: DpFedAvg

    @property
    def setting(self) -> Setting:
        return self.inner.setting

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        return self.inner.prepare(draws, t)

    def indices(self, draws: Draws, theta: torch.Tensor, t: int) -> None:
        return None

    def send(self, plan: RoundPlan, part: LocalUpdates, A: torch.Tensor | None) -> torch.Tensor:
        return self.inner.send(plan, part, A)

    def receive(self, plan: RoundPlan, y: torch.Tensor, A: torch.Tensor | None) -> torch.Tensor:
        return self.inner.receive(plan, y, A)


@dataclass(frozen=True)
class NoisyOverTheAir(WflP):
    """WFL-P whose devices add noise, which nobody checks against their power."""

    def noise_std(self, plan: RoundPlan, device: int) -> float:
        return 1.0


@dataclass(frozen=True)
class HalfAMemory(WflP):
    """WFL-P with one half of what a scheme that remembers needs."""

    def keep(self, plan: RoundPlan, part: LocalUpdates, memory: object) -> torch.Tensor:
        return part.updates


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda setting: ForgetsItsNoise(DpFedAvg(setting)), "its devices add none"),
        (NoisyOverTheAir, "their power limits count it"),
        (HalfAMemory, "needs `send_and_keep` as well"),
    ],
)
def test_a_scheme_that_does_not_do_what_its_plan_says_is_refused(make: Any, message: str):
    e = build(small(scheme="dp-fedavg"))
    with pytest.raises(GuardError, match=message):
        require_sound(make(e.setting), e.draws, torch.zeros(e.setting.dimension))


@dataclass(frozen=True)
class SendsTooMuch(Pfels):
    """PFELS that neither clips nor asks for its power."""

    def send(self, plan: RoundPlan, part: LocalUpdates, A: torch.Tensor | None) -> torch.Tensor:
        return project(part.updates, A) * 1e6


@dataclass(frozen=True)
class SendsUnclipped(DpFedAvg):
    """DP-FedAvg without its clip."""

    def send(self, plan: RoundPlan, part: LocalUpdates, A: torch.Tensor | None) -> torch.Tensor:
        return part.updates * 1e3


@pytest.mark.parametrize(("kind", "name"), [(SendsTooMuch, "pfels"), (SendsUnclipped, "dp-fedavg")])
def test_nothing_longer_than_its_norm_bound_is_transmitted_whatever_a_scheme_does(kind: Any, name: str):
    e = build(small(scheme=name))
    scheme, theta = kind(e.setting), e.network.initial(generator(0, Purpose.MODEL))
    with pytest.raises(GuardError, match=r"norm bound|sensitivity bound"):
        play(scheme, e.draws, scheme.prepare(e.draws, 0), theta, e.training, memory=Memory())


def test_a_plan_that_contradicts_itself_is_refused():
    e = build(small(scheme="pfels"))
    plan = e.scheme.prepare(e.draws, 0)
    air = plan.require_air()
    with pytest.raises(GuardError, match="participants are not the devices that send"):
        replace(plan, event=replace(plan.event, participants=()))
    with pytest.raises(GuardError, match="8 devices send, with 7 gains"):
        replace(plan, air=replace(air, gains=air.gains[1:]))
    with pytest.raises(GuardError, match="exceeds the power limit"):
        replace(plan, air=replace(air, beta=air.beta * 1e3))


@pytest.mark.parametrize(
    ("kind", "what"),
    [(DividesBySenders, "estimate"), (LevelOfTheCohort, "level"), (IndicesOfTheCohort, "index set")],
)
def test_a_scheme_whose_release_depends_on_the_cohort_is_found(kind: type[PfelsPlus], what: str):
    e = build(small(scheme="pfels-plus"))
    with pytest.raises(GuardError, match=f"says that its release does not depend on the cohort, but its {what} does"):
        require_public_release(lambda: plus(kind, e.setting), e.draws, torch.zeros(e.setting.dimension))


def test_dividing_by_a_fixed_cohort_size_is_public_and_by_a_drawn_one_is_not():
    fixed, drawn = (build(small(scheme="fedavg", cohort__sampling=s)) for s in ("without-replacement", "poisson"))
    require_public_release(lambda: DividesByDrawn(fixed.setting), fixed.draws, torch.zeros(fixed.setting.dimension))
    with pytest.raises(GuardError, match="estimate"):
        require_public_release(lambda: DividesByDrawn(drawn.setting), drawn.draws, torch.zeros(drawn.setting.dimension))


def test_no_run_of_such_a_scheme_begins(monkeypatch: pytest.MonkeyPatch):
    honest = scheme_entry("pfels-plus")
    cheat = SchemeEntry(
        lambda setting: plus(DividesBySenders, setting),
        uses=honest.uses,
        sampling=honest.sampling,
        budget=honest.budget,
    )
    monkeypatch.setitem(registry._SCHEMES, "pfels-plus", cheat)
    with pytest.raises(GuardError, match="DividesBySenders"):
        build(small(scheme="pfels-plus"))
