"""Convergence bounds for PFELS: Theorem 4 as the paper prints it, as its own proof has it, and with the inner product
computed exactly; and the k that each prefers.

All bound the mean of E‖∇f(θᵗ)‖² over the rounds by three errors. Printed and corrected differ in two places:

- **privacy error**: printed with r³. The proof takes the one noise vector that arrives for r independent ones that
  are averaged; Δ̂ holds Aᵀz/(rβ) once, of squared norm kσ₀²/(rβ)², so the exponent is 2.
- **compression error**: printed with λₖ/r, while the proof arrives at λₖ.

The proof also needs λₖ = 1 − k/d to be at most π = 1/3, so neither bound is proven below p = 2/3.

**exact** uses E⟨∇f, AᵀAΔ⟩ = p⟨∇f, Δ⟩, since A does not depend on Δ, where the proof has Young's inequality. With
a = ητL, G = ‖∇f(θ)‖², and h the mean of ∇fᵢ(θᵢˢ) over all devices i and steps s, if a ≤ 1/(12γ²):

1. Smoothness, with E‖AᵀAv‖² = p‖v‖²: E f(θ⁺) ≤ f − pητ·E⟨∇f, h⟩ + (L/2)(p·E‖Δ̄‖² + kσ₀²/(rβ)²), Δ̄ the cohort's mean.
2. 2⟨∇f, h⟩ = G + ‖h‖² − ‖∇f − h‖², and E‖∇f − h‖² ≤ L²D, D the mean of E‖θᵢˢ − θ‖² (Assumption 2, Jensen).
3. E‖Δ̄‖² ≤ 2η²τζ̄²/r + 2(ητ)²(E‖h‖² + M/r): gradient noise, then r devices drawn without replacement; M, the mean of
   E‖∇fᵢ(θᵢˢ)‖², is at most 2(L²D + γ²G + κ²) (Assumptions 3 and 5). As 2a ≤ 1, ‖h‖² drops out with that of step 2.
4. Drift: D ≤ η²τζ̄² + 2a²D + (4/3)(ητ)²(γ²G + κ²), and 2a² ≤ 1/2, so L²D ≤ 2a²ζ̄²/τ + (8/3)a²(γ²G + κ²).
5. Together at least half of G is left: (pητ/4)·G ≤ f − E f(θ⁺) + (pητ/2)·R + Lkσ₀²/(2r²β²), with
   R = (2a²/τ + 2a/(τr) + 8a³/(τr))·ζ̄² + ((8/3)a² + (4a/r)(1 + (8/3)a²))·κ². Sum over the rounds (Assumption 4).

So the mean of G is at most 4(f(θ⁰) − f_inf)/(Tpητ) + 2R + 2Ldσ₀²·mean(1/β²)/(ητr²). Compression costs progress, by 1/p,
and the noise per unit of progress does not grow with k: where privacy limits β, p = 1 is best; where power does, 1/β²
is proportional to p(ητC₁)², so that p enters the first and the last error only as pη.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pfels.arrays import Reals
from pfels.errors import InputError
from pfels.uplink.power import beta_limit

PI = 1 / 3  # the constant π that the proof of Theorem 4 settles on
EXACT_CONDITION = 12  # the exact bound needs 1/(ητL) to be at least this many times γ²


@dataclass(frozen=True, kw_only=True)
class LossAssumptions:
    """What Theorem 4 assumes of the devices' losses (Assumptions 2 to 5).

    L, by which gradients differ at most per unit of distance; ζ̄², the mean variance of a stochastic gradient;
    γ² ≥ 1 and κ² ≥ 0, by which the devices' gradients may be larger than that of their mean (1 and 0 where data are
    IID); and f(θ⁰) − f_inf.
    """

    smoothness: float
    gradient_variance: float
    gamma_squared: float = 1.0
    kappa_squared: float = 0.0
    initial_gap: float

    def __post_init__(self) -> None:
        minimum = {"smoothness": 0.0, "gradient_variance": 0.0, "gamma_squared": 1.0, "kappa_squared": 0.0}
        for name, low in {**minimum, "initial_gap": 0.0}.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= low) or (name == "smoothness" and value == 0):
                span = "above 0" if name == "smoothness" else f"of at least {low:g}"
                raise InputError(f"{name} = {value:g}: must be a finite number {span}")


@dataclass(frozen=True, kw_only=True)
class TrainingCourse:
    """A training as the bound sees it: r devices per round take τ steps of size η and send k of d coordinates.

    `weakest_amplitudes` is minᵢ |hᵢ|√Pᵢ over the cohort, for each of T rounds: with the norm bound ητC₁ and the
    privacy limit ε/C₂ it determines β for every k.
    """

    learning_rate: float
    local_steps: int
    cohort: int
    dimension: int
    noise_std: float
    bound: float
    privacy_limit: float
    weakest_amplitudes: Reals

    def betas(self, kept: int) -> Reals:
        """β of every round at this k (Thm 5, eq. (35))."""
        power_limit = beta_limit(self.weakest_amplitudes, bound=self.bound, share=kept / self.dimension)
        return np.minimum(power_limit, self.privacy_limit)

    def mean_inverse_square(self, kept: int) -> float:
        """The mean of 1/β² over the rounds, which is what power control minimises (eq. (34a))."""
        return float(np.mean(self.betas(kept) ** -2.0))


@dataclass(frozen=True)
class Bound:
    """A bound on the mean of E‖∇f(θᵗ)‖², in its three parts, and whether the proof covers this case."""

    optimisation: float
    compression: float
    privacy: float
    proven: bool

    @property
    def total(self) -> float:
        """The bound."""
        return self.optimisation + self.compression + self.privacy


def printed(losses: LossAssumptions, course: TrainingCourse, *, kept: int) -> Bound:
    """The bound as the paper prints it (Thm 4, eq. (23))."""
    return _bound(losses, course, kept, compression=1 / course.cohort, noise=course.cohort**3)


def corrected(losses: LossAssumptions, course: TrainingCourse, *, kept: int) -> Bound:
    """The bound that the proof arrives at: λₖ for λₖ/r, and one noise vector per round, so r² for r³."""
    return _bound(losses, course, kept, compression=1.0, noise=course.cohort**2)


def exact(losses: LossAssumptions, course: TrainingCourse, *, kept: int) -> Bound:
    """The bound with the exact inner product (above); its compression error is the progress that p < 1 costs."""
    step, tau, r = course.learning_rate * course.local_steps, course.local_steps, course.cohort
    L, zeta2, kappa2 = losses.smoothness, losses.gradient_variance, losses.kappa_squared  # noqa: N806
    a, p = step * L, kept / course.dimension
    noise = (2 * a**2 + 2 * a / r + 8 * a**3 / r) / tau * zeta2
    differences = (8 / 3 * a**2 + 4 * a / r * (1 + 8 / 3 * a**2)) * kappa2
    progress = 4 * losses.initial_gap / (len(course.weakest_amplitudes) * step)
    variance = course.noise_std**2 * course.mean_inverse_square(kept)
    return Bound(
        optimisation=progress + 2 * (noise + differences),
        compression=progress * (1 / p - 1),
        privacy=2 * L * course.dimension * variance / (step * r**2),
        proven=a <= (1 + 1e-12) / (EXACT_CONDITION * losses.gamma_squared),
    )


BOUNDS: dict[str, Callable[..., Bound]] = {"printed": printed, "corrected": corrected, "exact": exact}


def _bound(losses: LossAssumptions, course: TrainingCourse, kept: int, *, compression: float, noise: int) -> Bound:
    step, rounds = course.learning_rate * course.local_steps, len(course.weakest_amplitudes)  # ητ and T
    L, zeta2, kappa2 = losses.smoothness, losses.gradient_variance, losses.kappa_squared  # noqa: N806
    lost = 1 - kept / course.dimension  # λₖ
    variance = course.noise_std**2 * course.mean_inverse_square(kept)  # of the noise in y/β, in each coordinate
    return Bound(
        optimisation=8 * losses.initial_gap / (rounds * step) + 8 * step * L * (3 * kappa2 + 2 * zeta2),
        compression=8 * (step * L * (2 * kappa2 + zeta2) + zeta2 / (2 * PI)) * lost * compression,
        privacy=4 * L * kept * variance / (step * noise),
        proven=lost <= PI,
    )


def learning_rate_limit(losses: LossAssumptions, *, local_steps: int, lost: float) -> float:
    """The largest η that Theorem 4 covers where a share `lost` = λₖ of the coordinates is not sent."""
    L, gamma2 = losses.smoothness, losses.gamma_squared  # noqa: N806
    return 1 / (_condition(gamma2=gamma2, lost=lost) * local_steps * L)


def largest_smoothness(*, learning_rate: float, local_steps: int, gamma_squared: float = 1.0) -> float:
    """The largest L at which Theorem 4 covers this learning rate for every k."""
    return 1 / (_condition(gamma2=gamma_squared, lost=1.0) * local_steps * learning_rate)


def _condition(*, gamma2: float, lost: float) -> float:
    """What 1/(ητL) must at least be: the three conditions of Theorem 4."""
    return max(24 * (lost + 1) * gamma2, 4 * math.sqrt(4 * gamma2 + 2), 12.0)


def best_kept(bound: Callable[..., Bound], losses: LossAssumptions, course: TrainingCourse) -> int:
    """The k from 1 to d that minimises `bound` at this η, with β determined anew for each k.

    Both errors that depend on k are convex in it: the compression error is linear, or proportional to d/k − 1 (exact),
    and the privacy error of a round is k·max(k/a, 1/b²), or max(k/a, 1/b²) (exact). So the first k from which a step up
    no longer helps is the best of all.

    At matched progress, pη fixed, the exact bound needs no search: none of its errors rises with p, so p = 1 is best.
    """

    def raised(kept: int) -> float:  # the optimisation error does not depend on k, and would only blur the difference
        here, above = bound(losses, course, kept=kept), bound(losses, course, kept=kept + 1)
        return (above.compression - here.compression) + (above.privacy - here.privacy)

    low, high = 1, course.dimension
    while low < high:
        middle = (low + high) // 2
        if raised(middle) < 0:
            low = middle + 1
        else:
            high = middle
    return low
