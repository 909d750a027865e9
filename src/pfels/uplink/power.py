"""The alignment coefficient β under the power and privacy limits, transmission with its guards, and its energy."""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import Gains, Reals
from pfels.errors import GuardError
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.uplink.clipping import check_sensitivity, norms

Amplitude = TypeVar("Amplitude", float, Reals)


ROUNDING = 1e-5  # float32 may lengthen a signal by a few parts in 1e7


class Alignment(NamedTuple):
    """The level β at which every device's signal arrives, and the limit that determined it ("power" or "privacy")."""

    beta: float
    limit: str


def beta_limit(weakest_amplitude: Amplitude, *, bound: float, share: float) -> Amplitude:
    """The maximum β within every device's power limit: minᵢ |hᵢ|√Pᵢ / (ητC₁·√(k/d)) (Thm 5, eq. (35)).

    `weakest_amplitude` is minᵢ |hᵢ|√Pᵢ of one round, or an array with one value per round. `bound` is ητC₁ and
    `share` is k/d.

    >>> beta_limit(0.5, bound=2.0, share=0.25)
    0.5
    """
    return weakest_amplitude / (bound * math.sqrt(share))


def align(gains: Gains, powers: Reals, *, bound: float, share: float, privacy_limit: float) -> Alignment:
    """The maximum β within every device's power limit and the privacy limit ε/C₂ (Thm 5, eq. (35)).

    `bound` is ητC₁ and `share` is k/d. With share = 1 this is eq. (37), and with privacy_limit = ∞ eq. (36). If
    no device transmits and nothing limits β, β is infinite: the round adds no noise and changes nothing.
    """
    weakest_amplitude = float((np.abs(gains) * np.sqrt(powers)).min(initial=math.inf))
    power_limit = beta_limit(weakest_amplitude, bound=bound, share=share)
    if power_limit <= privacy_limit:
        return Alignment(power_limit, "power")
    return Alignment(privacy_limit, "privacy")


def expected_energy(gains: Gains, *, beta: float | Reals, bound: float, share: float) -> Reals:
    """The upper bound of E‖xᵢ‖² per device: (β/|hᵢ|)²·(k/d)·(ητC₁)² (Lemma 5, eq. (33)); β for all, or one each."""
    cost: Reals = (beta / np.abs(gains)) ** 2 * share * bound**2
    return cost


def transmit(
    projected: Tensor, gains: Gains, powers: Reals, *, beta: float | Reals, bound: float, share: float
) -> Tensor:
    """The signals xᵢ = (β/|hᵢ|)·AΔᵢ, one row per device (eq. (31)); a GuardError if one could violate a limit.

    No signal is formed if the norm of its projected update exceeds `bound`, on which the privacy figures rely, or if
    its expected energy could exceed the device's power limit (eq. (8)).
    """
    check_sensitivity(projected, bound=bound)
    check_power(expected_energy(gains, beta=beta, bound=bound, share=share), powers)
    scale = torch.from_numpy(beta / np.abs(gains)).to(projected)
    return projected * scale.unsqueeze(-1)


def within(signals: Tensor, powers: Reals) -> Tensor:
    """Signals, those beyond their device's power limit scaled down to it."""
    limits = torch.from_numpy(np.sqrt(powers)).to(signals)
    return signals * (limits / norms(signals).to(signals)).clamp(max=1.0).unsqueeze(-1)


def check_power(expected: Reals, powers: Reals) -> None:
    """A GuardError if a device's expected energy could exceed its power limit (eq. (8))."""
    if (expected > powers * (1 + 1e-9)).any():
        worst = int(np.argmax(expected / powers))
        raise GuardError(
            f"expected energy {expected[worst]:.6g} exceeds the power limit {powers[worst]:.6g}: not transmitted"
        )


def check_signals(energies: Reals, gains: Gains, *, beta: float | Reals, bound: float) -> None:
    """A GuardError if a signal is longer than (β/|hᵢ|)·s, and so arrives with more than its norm bound s at level β."""
    allowed = (beta * bound / np.abs(gains)) ** 2 * (1 + ROUNDING)
    if not (energies <= allowed).all():
        worst = int(np.argmax(energies / allowed))
        raise GuardError(
            f"a signal of energy {energies[worst]:.6g} exceeds the {allowed[worst]:.6g} of its norm bound: "
            "not transmitted"
        )


def energy(signals: Tensor) -> Reals:
    """‖xᵢ‖² of every row: the energy of its transmission."""
    squares: Reals = norms(signals).square().cpu().numpy()
    return squares


def can_transmit(gains: Gains, powers: Reals, *, beta: float | Reals, bound: float) -> NDArray[np.bool_]:
    """A mask of the devices that can transmit at level β within their power limit: |h|√P ≥ βs, s = `bound`; β for all,
    or one each."""
    able: NDArray[np.bool_] = np.abs(gains) * np.sqrt(powers) >= beta * bound
    return able


def best_carried_level(*, beta: float, carried: Callable[[float], float]) -> float:
    """The level β′ ≤ β that maximises β′·(share of devices that can transmit at β′).

    A higher level raises every signal above the noise but excludes more devices. `carried(β′)` is that share.
    """
    levels = beta * np.geomspace(1e-4, 1.0, 801)
    return float(max(levels, key=lambda level: level * carried(level)))
