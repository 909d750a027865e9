"""Ranges of ε, δ, noise multipliers and counts; errors of one line."""

import math
from numbers import Real

from pfels.errors import InputError, quoted

SMALLEST_NOISE_MULTIPLIER = 1e-12  # below this 1/z² leaves the range in which floats resolve δ
LARGEST_NOISE_MULTIPLIER = 1e100
SMALLEST_DELTA = 1e-300
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-20, 1e20


def require_positive(name: str, value: float) -> None:
    """Nothing, or an InputError unless the number is finite and above zero."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and value > 0):
        raise InputError(f"{name} = {f'{value:g}' if number else quoted(value)}: must be a finite number > 0")


def require_budget(name: str, epsilon: float) -> None:
    """Nothing, or an InputError unless ε can be a budget: beyond these, squares and quotients are no numbers."""
    require_positive(name, epsilon)
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise InputError(f"{name} = {epsilon:g}: must be in [{SMALLEST_EPSILON:g}, {LARGEST_EPSILON:g}]")


def require_noise_multiplier(name: str, value: float) -> None:
    """Nothing, or an InputError unless the number can be a noise multiplier."""
    low, high = SMALLEST_NOISE_MULTIPLIER, LARGEST_NOISE_MULTIPLIER
    if not low <= value <= high:
        raise InputError(f"{name} = {value:g}: must be a number from {low:g} to {high:g}")


def require_delta(delta: float) -> None:
    """Nothing, or an InputError unless δ is in (0, 1)."""
    if not SMALLEST_DELTA <= delta < 1:
        raise InputError(f"delta = {delta:g}: must be in (0, 1), and no less than {SMALLEST_DELTA:g}")


def require_count(name: str, value: int, *, minimum: int = 1, maximum: int | None = None) -> None:
    """Raise an InputError unless the number is an integer within its range."""
    if value != int(value) or value < minimum or (maximum is not None and value > maximum):
        span = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise InputError(f"{name} = {value}: must be a whole number {span}")


def require_cohort(*, devices: int, cohort: int) -> None:
    """Nothing, or an InputError unless 1 ≤ r ≤ N."""
    require_count("devices", devices)
    require_count("cohort", cohort, maximum=devices)
