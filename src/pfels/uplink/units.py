"""From units of σ₀² to joules, and between watts, decibels and dBm."""

import math

BOLTZMANN = 1.380649e-23  # J/K, exact since 2019


def ratio(db: float) -> float:
    """Decibels as a ratio of powers.

    >>> ratio(20.0)
    100.0
    """
    return float(10 ** (db / 10))


def decibels(power_ratio: float) -> float:
    """A ratio of powers in decibels."""
    return 10 * math.log10(power_ratio)


def watts(dbm: float) -> float:
    """dBm in watts.

    >>> watts(30.0)
    1.0
    """
    return ratio(dbm) / 1000


def dbm(power_w: float) -> float:
    """Watts in dBm."""
    return decibels(power_w * 1000)


def noise_density_j(*, temperature_k: float, noise_figure_db: float) -> float:
    """N₀ = kTF, the energy of the receiver's noise in one complex dimension; σ₀² is half of it, in a real one."""
    return BOLTZMANN * temperature_k * ratio(noise_figure_db)


def joules_per_unit(*, noise_density_j: float, reference_loss_db: float) -> float:
    """What a device radiates for ‖x‖² = σ₀²: kTF/2, times the loss at a gain of 1.

    σ₀² is kTF/2 joules at the receiver, and a signal x arrives with the energy |h|²‖x‖², so ‖x‖² counts what would
    arrive at a gain of 1.

    >>> noise = noise_density_j(temperature_k=290.0, noise_figure_db=5.0)
    >>> f"{2.55e11 * joules_per_unit(noise_density_j=noise, reference_loss_db=66.0):.2g} J"
    '0.0064 J'
    """
    return noise_density_j / 2 * ratio(reference_loss_db)
