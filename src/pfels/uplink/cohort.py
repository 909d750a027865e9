"""The devices that take part in a round: sampled, or by turns."""

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


def by_turns(order: DeviceIds, *, groups: int, round: int) -> DeviceIds:
    """The ids of the group whose turn it is, ascending: the devices in their `order` cut evenly into `groups`, of which
    round t takes the one of number t mod g."""
    turn, size = round % groups, len(order)
    return np.sort(order[turn * size // groups : (turn + 1) * size // groups])
