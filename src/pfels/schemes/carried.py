"""Which share of the devices a level reaches, from the laws of the channel alone: everybody can compute it."""

from functools import lru_cache

import numpy as np

from pfels.arrays import Reals
from pfels.schemes.setting import Setting
from pfels.uplink.channel import SnrLaw, snr_at

QUANTILES = (np.arange(256) + 0.5) / 256  # of the law of the power limits


def carried_shares(setting: Setting, amplitude: float) -> Reals:
    """P(|h|√P ≥ amplitude and |h| ≥ `silent_below`) for devices at each of the QUANTILES of the power limit P: the
    share of rounds in which such a device can send a vector of norm s at level β, with amplitude = βs. With fading, |h|
    is the effective gain."""
    return setting.cell.carried(amplitude / _power_roots(setting.cell.power, setting.dimension, setting.noise_std))


@lru_cache(maxsize=4)  # a search for a level asks for them at every step
def _power_roots(law: SnrLaw, dimension: int, noise_std: float) -> Reals:
    """√P at each of the QUANTILES."""
    powers = snr_at(QUANTILES, low_db=law.low_db, high_db=law.high_db, scale=law.scale)
    found: Reals = np.sqrt(powers * dimension) * noise_std
    found.setflags(write=False)
    return found
