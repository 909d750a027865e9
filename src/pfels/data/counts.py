"""How many examples a device has on average, without reading the data."""

import math

from pfels.data.catalog import find

# Synthetic(α, β): min(lognormal(4, 2) + 50, 2000) examples per device (data/synthetic.py).
_MU, _SIGMA, _LEAST, _MOST = 4.0, 2.0, 50, 2000


def mean_examples(name: str, *, devices: int, per_device: int | None, by_writer: bool) -> float:
    """Training examples per device, in the mean over the devices.

    By writer `per_device` is a minimum, and the mean is taken over all writers or is that minimum.

    >>> mean_examples("cifar10", devices=1000, per_device=None, by_writer=False)
    50.0
    """
    entry = find(name)
    if name == "synthetic":
        return _synthetic() if per_device is None else per_device
    if by_writer and entry.writers:
        found = max(entry.train / entry.writers, per_device or 1)
    else:
        found = entry.train / devices if per_device is None else per_device
    return found * 0.9 if entry.held_out else float(found)


def _synthetic() -> float:
    """The mean of that law, by the formula for a lognormal law that is cut off."""
    most = math.log(_MOST - _LEAST)
    below = math.exp(_MU + _SIGMA**2 / 2) * _normal((most - _MU - _SIGMA**2) / _SIGMA)
    return _LEAST + below + (_MOST - _LEAST) * (1 - _normal((most - _MU) / _SIGMA))


def _normal(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2
