"""A cell is its effects together: losses and margins multiply, and the weakest gain that sends is known."""

import math

import numpy as np
import pytest

from pfels.uplink.channel import SnrLaw
from pfels.uplink.effects.antennas import Antennas
from pfels.uplink.effects.cell import Cell
from pfels.uplink.effects.effect import Effect
from pfels.uplink.effects.gain import Gain
from pfels.uplink.effects.knowledge import GainKnowledge
from pfels.uplink.effects.silence import Silence

WHO = np.arange(40)
LEVELS = np.array([1e-5, 0.004, 0.01, 0.03, 0.2])


class Hill(Effect):
    """Every channel is `loss` times as weak, and may be `slack` times as strong as a device knows."""

    loss: float = 1.0
    slack: float = 1.0

    def losses(self, seed, t, devices):
        return np.full(len(devices), self.loss)

    def typical_losses(self):
        return np.array([1.0, self.loss])

    @property
    def margin(self):
        return self.slack

    def check(self, cell):
        if self.loss > 100:
            raise ValueError(f"loss = {self.loss:g}: beyond {cell.gain.gain_max:g}")


class Wood(Hill):
    """The same once more."""


def cell(*effects: Effect) -> Cell:
    return Cell(1.0, SnrLaw(0.0, 10.0, "linear"), effects=effects)


def test_margins_multiply():
    found = cell(Hill(slack=1.5), Wood(slack=1.25), GainKnowledge(csi_error_db=6.0))
    assert found.margin == pytest.approx(1.5 * 1.25 * 10**0.3, rel=1e-12)
    assert cell(Silence(silent_below=0.01)).margin == 1


def test_losses_weaken_the_channels_to_all_antennas_alike():
    plain, lossy = cell(), cell(Hill(loss=2.0), Wood(loss=3.0))
    np.testing.assert_allclose(6 * lossy.mean_gains(0, 3, WHO), plain.mean_gains(0, 3, WHO), rtol=1e-12)
    there, here = (each.other_strengths(0, 3, WHO, antennas=4) for each in (plain, lossy))
    np.testing.assert_allclose(6 * here, there, rtol=1e-12)
    assert there.shape == (3, 40)


def test_what_is_carried_is_the_mean_over_all_losses_and_nothing_below_the_floor():
    exceeds = Gain().exceeds
    mean = np.mean([exceeds(loss * LEVELS) for loss in (1, 2, 3, 6)], axis=0)
    np.testing.assert_allclose(cell(Hill(loss=2.0), Wood(loss=3.0)).carried(LEVELS), mean, rtol=1e-12)
    np.testing.assert_array_equal(cell().carried(LEVELS), exceeds(LEVELS))
    floor = cell(Silence(silent_below=0.02)).carried(LEVELS)
    np.testing.assert_array_equal(floor, exceeds(np.maximum(LEVELS, 0.02)))


def test_several_antennas_hear_at_most_what_the_strongest_gains_over_the_weakest_allow():
    law = Gain()
    assert cell(Antennas(antennas=3)).exposure_bound == pytest.approx(1 + 2 * (law.gain_max / law.gain_min) ** 2)
    assert cell(Antennas(antennas=3), Silence(silent_below=0.02)).exposure_bound == pytest.approx(1 + 2 * 5**2)
    below = cell(Antennas(antennas=3), Silence(silent_below=law.gain_min / 2))
    assert below.gain_floor == law.gain_min
    assert cell(Silence(silent_below=0.02)).exposure_bound == 1


@pytest.mark.parametrize("place", [0, 1])
def test_every_effect_is_asked_whether_it_goes_with_the_others(place: int):
    effects: list[Effect] = [Hill(loss=2.0), Wood(loss=3.0)]
    cell(*effects).check()
    effects[place] = type(effects[place])(loss=101.0)
    with pytest.raises(ValueError, match=r"loss = 101: beyond 0\.1"):
        cell(*effects).check()


def test_known_gains_are_exact_where_no_effect_says_otherwise():
    assert cell(Hill(loss=2.0)).errors(0, 3, WHO) is None
    errors = cell(GainKnowledge(csi_error_db=6.0)).errors(0, 3, WHO)
    assert errors is not None
    assert math.isclose(cell(GainKnowledge(csi_error_db=6.0)).margin, 10**0.3)
    assert (np.abs(errors) <= 10**0.3 * (1 + 1e-12)).all()
