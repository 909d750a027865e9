"""The noise that the server's estimates will hold, over the largest signal that they can hold."""

import math
from typing import NamedTuple

import numpy as np

from pfels.arrays import Reals
from pfels.experiment.forecast import Forecast
from pfels.experiment.link import Link
from pfels.schemes.pfels_echo import PfelsEcho
from pfels.schemes.scheme import decodes
from pfels.uplink.echo import decoded_noise


class NoiseRatios(NamedTuple):
    """Norms of the noise over norms of the signal; None where a scheme decodes in a way that is not known here.

    `round`: in the estimate of one round, over the norm bound ητC₁ of an update; median over the rounds. `sum`: in the
    sum of all estimates, over that of updates that all have that norm and one direction. `coordinate`: the standard
    deviation of the noise in one coordinate of that sum, over the same, which is sum/√d.
    """

    round: float | None
    sum: float | None
    coordinate: float | None


def noise_ratios(found: Forecast, link: Link) -> NoiseRatios:
    """The ratios of a forecast training, after decoding.

    Of updates of norm ητC₁ in one direction, rounds with random index sets add p·ητC₁ each to the sum: T·p·ητC₁. Index
    sets that follow the model may meet the coordinates of the direction every time, and then add √p·ητC₁, the norm
    bound of what is sent. What the server does with the estimates (step, momentum, average) is left out.
    """
    powers, d = _after_decoding(found, link), link.setting.dimension
    if powers is None:
        return NoiseRatios(None, None, None)
    in_round, in_sum = powers
    rounds, signal = len(in_round), found.sent_shares
    if link.setting.mask != "rand-k":
        signal = math.sqrt(signal * rounds)
    total = math.sqrt(float(in_sum.sum())) / signal
    return NoiseRatios(math.sqrt(float(np.median(in_round))), total, total / math.sqrt(d))


def _after_decoding(found: Forecast, link: Link) -> tuple[Reals, Reals] | None:
    """The power of the noise in the estimate of each round, and each round's part of that in the sum of all."""
    powers, scheme = np.array(found.noise_powers), link.scheme
    if not decodes(scheme):
        return powers, powers
    if not isinstance(scheme, PfelsEcho):
        return None
    level, t = scheme.level, np.arange(len(powers))
    m = level.blocks
    decoded, left = decoded_noise(level.weights, heard=level.heard, turns=-(-len(powers) // m))
    return powers * decoded[t // m], powers * left[t[::-1] // m]
