"""A run's ledger adds up all of its rounds: one of them is enough to cost the whole run its figure."""

from itertools import permutations

import numpy as np
import torch

from pfels.experiment.ledger import Ledger
from pfels.experiment.setup import build
from pfels.schemes.plan import RoundPlan, RoundResult
from pfels.schemes.setting import Setting
from tests.conftest import small

SETTING = build(small(cohort__sampling="poisson")).setting
NOTHING = RoundResult(torch.zeros(1), None, 0, None)


def plan(t: int, z: float, *, who: tuple[int, ...] = (0, 1), dependent: bool = False) -> RoundPlan:
    return RoundPlan.ideal(SETTING, t, np.array(who, np.int64), z=z, cohort_dependent=dependent)


def after(*plans: RoundPlan, setting: Setting = SETTING) -> Ledger:
    ledger = Ledger.empty(devices=setting.devices)
    for each in plans:
        ledger = ledger.after(each, NOTHING, slots=1)
    return ledger


def test_one_round_whose_level_depends_on_the_cohort_takes_the_outsiders_figure_whenever_it_was():
    rounds = [plan(0, 2.0), plan(1, 2.0, dependent=True), plan(2, 2.0)]
    assert after(rounds[0], rounds[2]).privacy(SETTING)["outsider"]["epsilon"] is not None
    for order in permutations(rounds):
        outsider = after(*order).privacy(SETTING)["outsider"]
        assert outsider["epsilon"] is None
        assert "depends on who was drawn" in outsider["why"]


def test_a_round_in_which_nobody_happened_to_send_is_a_release_where_there_is_noise():
    """Its noise says that nobody did, which is what the outsider is not to know."""
    silent, heard = plan(1, 2.0, who=()), plan(0, 2.0)
    assert dict(after(heard, silent).noise_multipliers) == {2.0: 2}
    both, one = (after(*rounds).privacy(SETTING)["outsider"]["epsilon"] for rounds in ((heard, silent), (heard,)))
    assert both == after(heard, plan(1, 2.0)).privacy(SETTING)["outsider"]["epsilon"] > one


def test_without_noise_and_senders_nothing_is_released():
    assert dict(after(plan(0, 2.0), plan(1, 0.0, who=())).noise_multipliers) == {2.0: 1}
    assert after(plan(0, 2.0), plan(1, 0.0)).privacy(SETTING)["outsider"]["epsilon"] is None


def test_figures_of_one_round_are_of_the_round_with_the_least_noise():
    found, least = after(plan(0, 4.0), plan(1, 1.0), plan(2, 2.0)).privacy(SETTING), after(plan(0, 1.0))
    assert found["noise_multiplier_min"] == 1.0
    assert found["exact_per_round"] == least.privacy(SETTING)["exact_per_round"]


def test_a_ledger_that_is_stored_and_restored_is_the_same():
    ledger = after(plan(0, 4.0), plan(1, 1.0, dependent=True), plan(2, 2.0, who=(3,)))
    again = Ledger.restore(ledger.tensors(), ledger.totals(), devices=SETTING.devices)
    assert again.privacy(SETTING) == ledger.privacy(SETTING)
    assert again.totals() == ledger.totals()
