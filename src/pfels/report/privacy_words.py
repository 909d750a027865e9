"""A word beside ε: strong, reasonable or weak. A convention, not a theorem.

The steps are those of Ponomareva et al., How to DP-fy ML (JAIR 77, 2023, arXiv 2303.00654): ε ≤ 1 is their first tier
(strong), ε ≤ 10 their second (reasonable), above is their third (weak to none). They are for a whole training
and presume a δ well below one over the number of those who are protected.
"""

STRONG, REASONABLE = 1.0, 10.0
USELESS = 100.0  # ours: e¹⁰⁰ bounds nothing

CONVENTION = (
    f"strong: ε ≤ {STRONG:g}; reasonable: ε ≤ {REASONABLE:g}; weak: above; over a whole training (Ponomareva et al. "
    "2023, How to DP-fy ML). This is a convention, not a theorem"
)


def word(epsilon: float | None) -> str:
    """The word for an ε over a whole training, whatever its δ; always show it with δ and adversary.

    >>> [word(epsilon) for epsilon in (0.5, 1, 8, 15, 200, None)]
    ['strong', 'strong', 'reasonable', 'weak', 'too large to be useful', 'no guarantee']
    """
    if epsilon is None:
        return "no guarantee"
    if epsilon > USELESS:
        return "too large to be useful"
    return "strong" if epsilon <= STRONG else "reasonable" if epsilon <= REASONABLE else "weak"


def delta_note(*, delta: float, devices: int) -> str:
    """What is to be said of a δ that the convention does not presume; nothing where it is below 1/N.

    A mechanism that publishes everything about each device with probability δ is (0, δ)-private: with δ = 1/N it gives
    away one device on average.
    """
    if delta * devices < 1 - 1e-9:
        return ""
    return (
        f"The convention presumes δ well below 1/N = {1 / devices:.3g}, which δ = {delta:g} is not: at this δ, giving "
        "away one device of N entirely would still count as private. Judge by ε at δ = 1e-5"
    )
