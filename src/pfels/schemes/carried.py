"""Which share of the devices a level reaches, from the laws of the channel alone: everybody can compute it."""

from functools import lru_cache

import numpy as np

from pfels.arrays import Reals
from pfels.schemes.setting import Setting
from pfels.uplink.channel import SnrLaw, gain_exceeds, snr_at
from pfels.uplink.spectrum import typical_costs

QUANTILES = (np.arange(256) + 0.5) / 256  # of the law of the power limits


def carried_shares(setting: Setting, amplitude: float) -> Reals:
    """P(|h|√P ≥ amplitude and |h| ≥ `silent_below`) for devices at each of the QUANTILES of the power limit P: the
    share of rounds in which such a device can send a vector of norm s at level β, with amplitude = βs. With fading, |h|
    is the effective gain."""
    gain = setting.gain_law
    roots = _power_roots(setting.snr_law, setting.dimension, setting.noise_std)
    needed = np.maximum(amplitude / roots, setting.silent_below)
    if setting.fading is None:
        return gain_exceeds(needed, mean=gain.mean, low=gain.low, high=gain.high)
    means = np.outer(np.sqrt(typical_costs(setting.band, setting.fading)), needed)
    shares: Reals = gain_exceeds(means, mean=gain.mean, low=gain.low, high=gain.high).mean(0)
    return shares


@lru_cache(maxsize=4)  # a search for a level asks for them at every step
def _power_roots(law: SnrLaw, dimension: int, noise_std: float) -> Reals:
    """√P at each of the QUANTILES."""
    powers = snr_at(QUANTILES, low_db=law.low_db, high_db=law.high_db, scale=law.scale)
    found: Reals = np.sqrt(powers * dimension) * noise_std
    found.setflags(write=False)
    return found
