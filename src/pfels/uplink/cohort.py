"""Sampling of the devices that take part in a round."""

import numpy as np

from pfels.arrays import DeviceIds


def sample(generator: np.random.Generator, *, devices: int, size: int, sampling: str) -> DeviceIds:
    """The ids of a round's cohort, ascending: exactly `size` devices, or each with probability size/devices.

    Poisson sampling draws the cohort size first, then the devices: the same distribution as one Bernoulli draw per
    device, but the cost grows with the cohort instead of with all devices.
    """
    if sampling == "poisson":
        size = int(generator.binomial(devices, size / devices))
    return np.sort(generator.choice(devices, size=size, replace=False))
