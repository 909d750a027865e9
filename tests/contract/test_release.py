"""A scheme cannot declare itself private: what it says of its release is held against what it does.

A scheme whose plan says that the release does not depend on the cohort gets a figure against an outsider. Its level,
its index set and its estimate must then be functions of what is public and of the received signal alone.
"""

from dataclasses import dataclass, replace

import pytest
import torch

from pfels.errors import GuardError
from pfels.experiment.setup import build
from pfels.schemes import registry
from pfels.schemes.draws import Draws
from pfels.schemes.fedavg import FedAvg
from pfels.schemes.participation import ParticipationCount
from pfels.schemes.pfels_plus import PfelsPlus, public_level
from pfels.schemes.plan import RoundPlan
from pfels.schemes.registry import SchemeEntry, load_scheme, scheme_entry
from pfels.schemes.release import require_public_release
from pfels.schemes.setting import Setting
from tests.conftest import small


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
@pytest.mark.parametrize("t", [0, 5])
def test_level_index_set_and_estimate_depend_on_nobody_where_the_scheme_says_so(scheme: str, sampling: str, t: int):
    e = build(small(scheme=scheme, cohort__sampling=sampling))
    theta = torch.linspace(-0.1, 0.1, e.setting.dimension)
    require_public_release(load_scheme(scheme, e.setting), e.draws, theta, t=t)


def plus(kind: type[PfelsPlus], setting: Setting) -> PfelsPlus:
    return kind(setting, public_level(setting), ParticipationCount(torch.zeros(setting.devices).long().numpy()))


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


@pytest.mark.parametrize(
    ("kind", "what"),
    [(DividesBySenders, "estimate"), (LevelOfTheCohort, "level"), (IndicesOfTheCohort, "index set")],
)
def test_a_scheme_whose_release_depends_on_the_cohort_is_found(kind: type[PfelsPlus], what: str):
    e = build(small(scheme="pfels-plus"))
    with pytest.raises(GuardError, match=f"says that its release does not depend on the cohort, but its {what} does"):
        require_public_release(plus(kind, e.setting), e.draws, torch.zeros(e.setting.dimension))


def test_dividing_by_a_fixed_cohort_size_is_public_and_by_a_drawn_one_is_not():
    fixed, drawn = (build(small(scheme="fedavg", cohort__sampling=s)) for s in ("without-replacement", "poisson"))
    require_public_release(DividesByDrawn(fixed.setting), fixed.draws, torch.zeros(fixed.setting.dimension))
    with pytest.raises(GuardError, match="estimate"):
        require_public_release(DividesByDrawn(drawn.setting), drawn.draws, torch.zeros(drawn.setting.dimension))


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
