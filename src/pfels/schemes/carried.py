"""Which share of the devices a level reaches, from the laws of the channel alone: everybody can compute it."""

import numpy as np

from pfels.arrays import Reals
from pfels.schemes.setting import Setting
from pfels.uplink.channel import gain_exceeds, snr_at
from pfels.uplink.spectrum import typical_costs

QUANTILES = (np.arange(256) + 0.5) / 256  # of the law of the power limits


def carried_shares(setting: Setting, amplitude: float) -> Reals:
    """P(|h|√P ≥ amplitude and |h| ≥ `silent_below`) for devices at each of the QUANTILES of the power limit P: the
    share of rounds in which such a device can send a vector of norm s at level β, with amplitude = βs. With fading, |h|
    is the effective gain."""
    gain, snr = setting.gain_law, setting.snr_law
    powers = snr_at(QUANTILES, low_db=snr.low_db, high_db=snr.high_db, scale=snr.scale)
    amplitudes = np.sqrt(powers * setting.dimension) * setting.noise_std
    needed = np.maximum(amplitude / amplitudes, setting.silent_below)
    if setting.fading is None:
        return gain_exceeds(needed, mean=gain.mean, low=gain.low, high=gain.high)
    means = np.outer(np.sqrt(typical_costs(setting.band, setting.fading)), needed)
    shares: Reals = gain_exceeds(means, mean=gain.mean, low=gain.low, high=gain.high).mean(0)
    return shares
