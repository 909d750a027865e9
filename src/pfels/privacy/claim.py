"""The paper's claim per round: C₂, ε and noise multiplier, and where its proof holds (Theorem 3)."""

import math

from pfels.errors import InputError
from pfels.privacy.checks import require_cohort, require_delta, require_noise_multiplier, require_positive


def c2(*, bound: float, noise_std: float, delta: float, devices: int, cohort: int) -> float:
    """The paper's C₂ = 2√2·ητC₁·r·√log(1.25r/(Nδ))/(Nσ₀), with which a round claims ε as long as C₂β ≤ ε (eq. (21))."""
    require_positive("bound", bound)
    require_positive("noise_std", noise_std)
    return claimed_noise_multiplier(epsilon=1.0, delta=delta, devices=devices, cohort=cohort) * bound / noise_std


def claimed_noise_multiplier(*, epsilon: float, delta: float, devices: int, cohort: int) -> float:
    """The z at which the paper claims ε for a round: z = 2√2·(r/N)·√log(1.25r/(Nδ))/ε, which is C₂β = ε (eq. (20))."""
    require_positive("epsilon", epsilon)
    require_delta(delta)
    require_cohort(devices=devices, cohort=cohort)
    rate = cohort / devices
    log = math.log(1.25 * rate / delta)
    if log <= 0:
        raise InputError(
            f"delta = {delta:g}: must be below 1.25·cohort/devices = {1.25 * rate:g} for the paper's claim"
        )
    return 2 * math.sqrt(2) * rate * math.sqrt(log) / epsilon


def claimed_epsilon(*, noise_multiplier: float, delta: float, devices: int, cohort: int) -> float:
    """The ε that the paper claims for a round with noise multiplier z, valid or not (eq. (20))."""
    require_noise_multiplier("noise_multiplier", noise_multiplier)
    return claimed_noise_multiplier(epsilon=1.0, delta=delta, devices=devices, cohort=cohort) / noise_multiplier


def claim_valid_below(*, devices: int, cohort: int) -> float:
    """The ε below which the theorem's proof holds: ε₀ = Nε/(2r) must be below 1, where eˣ − 1 < 2x (eq. (22))."""
    require_cohort(devices=devices, cohort=cohort)
    return 2 * cohort / devices


def claim_is_valid(*, epsilon: float, delta: float, devices: int, cohort: int) -> bool:
    """Whether the paper's theorem covers its claim: ε < 2r/N, and δ₀ = δN/r is a probability below 1."""
    return epsilon < claim_valid_below(devices=devices, cohort=cohort) and delta * devices / cohort < 1
