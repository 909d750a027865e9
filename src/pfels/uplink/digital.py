"""Digital links: bits at the Shannon rate less a gap, on whole resource elements, with complex symbols.

`snr` is always the ratio after the gap: received energy per resource element over kTF·gap. All functions take arrays
with one value per transmission.
"""

import math
from typing import NamedTuple

import numpy as np

from pfels.arrays import Reals


class Upload(NamedTuple):
    """Resource elements that each upload takes, and the joules that it radiates on each of them."""

    elements: Reals
    element_j: Reals


def bits_per_element(snr: Reals) -> Reals:
    """The rate log₂(1 + SNR) of one resource element.

    >>> bits_per_element(np.array([3.0]))
    array([2.])
    """
    rate: Reals = np.log1p(snr) / math.log(2)
    return rate


def cheapest_snr(*, amplifier_w: Reals, circuit_w: float) -> Reals:
    """The SNR at which a bit costs a device least, if the amplifier draws `amplifier_w` per unit of it.

    It minimises (a·x + c)/log(1 + x), so (1 + x)·log(1 + x) − x = c/a. The left side is convex and rises, so Newton's
    method finds x from any start. The more the circuit draws, the sooner it should be off again; without it the
    cheapest bit takes forever, and x is 0.

    >>> cheapest_snr(amplifier_w=np.array([1.0]), circuit_w=1.0).round(4)  # 1 + x = e
    array([1.7183])
    """
    wanted = circuit_w / amplifier_w
    x: Reals = np.sqrt(2 * wanted)  # for small x the left side is x²/2
    for _ in range(60 if circuit_w > 0 else 0):
        log, before = np.log1p(x), x
        x = x - ((1 + x) * log - x - wanted) / log
        if (np.abs(x - before) <= 1e-9 * x).all():  # each step doubles the number of digits: all are right by now
            break
    return x


def upload(
    *, bits: float, snr_per_j: Reals, limit_j: Reals, drawn_per_j: float, circuit_w: float, elements_per_s: float
) -> Upload:
    """One upload per device, at the power within its limit that costs it the least energy.

    `snr_per_j` is the SNR of a joule per resource element, `limit_j` the maximum of such joules, and `drawn_per_j` what
    the amplifier draws for a joule. Without a circuit to switch off a device sends at its limit.
    """
    element_j = limit_j
    if circuit_w > 0:
        amplifier_w = drawn_per_j * elements_per_s / snr_per_j
        element_j = np.minimum(limit_j, cheapest_snr(amplifier_w=amplifier_w, circuit_w=circuit_w) / snr_per_j)
    return Upload(bits / bits_per_element(element_j * snr_per_j), element_j)


def broadcast_s(*, bits: float, bandwidth_hz: float, snr: Reals) -> Reals:
    """Seconds that a broadcast takes at the rate that a receiver with this SNR can decode.

    >>> broadcast_s(bits=4e6, bandwidth_hz=1e6, snr=np.array([3.0]))
    array([2.])
    """
    seconds: Reals = bits / (bandwidth_hz * bits_per_element(snr))
    return seconds
