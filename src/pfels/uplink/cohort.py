"""Who takes part in a round."""

import numpy as np

from pfels.arrays import Ids


def sample(generator: np.random.Generator, *, devices: int, size: int, sampling: str) -> Ids:
    """The ids, in rising order, of a round's cohort: exactly `size` devices, or each with probability size/devices.

    Poisson sampling draws how many take part, then who: the same law as one coin a device, at the cost of the
    cohort rather than of all devices.
    """
    if sampling == "poisson":
        size = int(generator.binomial(devices, size / devices))
    return np.sort(generator.choice(devices, size=size, replace=False))
