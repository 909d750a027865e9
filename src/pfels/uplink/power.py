"""The alignment coefficient β under the power and the privacy limits, and what a transmission costs."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import Gains, Reals
from pfels.errors import GuardError
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.uplink.clipping import check_sensitivity, norms


class Alignment(NamedTuple):
    """The level β at which every device's signal arrives, and the limit that set it ("power" or "privacy")."""

    beta: float
    limit: str


def align(gains: Gains, powers: Reals, *, bound: float, share: float, privacy_limit: float) -> Alignment:
    """The largest β that respects every device's power and the privacy limit ε/C₂ (Thm 5, eq. (35)).

    `bound` is ητC₁ and `share` is k/d. With share = 1 this is eq. (37), and with privacy_limit = ∞ eq. (36). Where
    nobody transmits and nothing limits β, β is infinite: the round adds no noise and changes nothing.
    """
    power_limit = float(np.min(np.abs(gains) * np.sqrt(powers), initial=math.inf)) / (bound * math.sqrt(share))
    if power_limit <= privacy_limit:
        return Alignment(power_limit, "power")
    return Alignment(privacy_limit, "privacy")


def expected_energy(gains: Gains, *, beta: float, bound: float, share: float) -> Reals:
    """The most that E‖xᵢ‖² can be: (β/|hᵢ|)²·(k/d)·(ητC₁)² (Lemma 5, eq. (33))."""
    cost: Reals = (beta / np.abs(gains)) ** 2 * share * bound**2
    return cost


def transmit(projected: Tensor, gains: Gains, powers: Reals, *, beta: float, bound: float, share: float) -> Tensor:
    """The signals xᵢ = (β/|hᵢ|)·AΔᵢ, one a row (eq. (31)); refused if one could break a limit.

    No signal is formed whose projected update is longer than `bound`, since the privacy figures rest on it, nor
    one whose expected energy could pass the device's power limit (eq. (8)).
    """
    check_sensitivity(projected, bound=bound)
    cost = expected_energy(gains, beta=beta, bound=bound, share=share)
    if np.any(cost > powers * (1 + 1e-9)):
        worst = int(np.argmax(cost / powers))
        raise GuardError(
            f"expected energy {cost[worst]:.6g} exceeds the power limit {powers[worst]:.6g}: not transmitted"
        )
    scale = torch.from_numpy(beta / np.abs(gains)).to(projected)
    return projected * scale.unsqueeze(-1)


def energy(signals: Tensor) -> Reals:
    """‖xᵢ‖² of every row, the energy that its transmission takes."""
    squares: Reals = norms(signals).square().cpu().numpy()
    return squares


def carries(gains: Gains, powers: Reals, *, beta: float, bound: float) -> NDArray[np.bool_]:
    """Who can send at level β without ever passing its power limit: |h|√P ≥ βs."""
    able: NDArray[np.bool_] = np.abs(gains) * np.sqrt(powers) >= beta * bound
    return able


def serving_level(*, beta: float, carried: Callable[[float], float]) -> float:
    """The level at most β at which most arrives: the largest β′·(share of devices that can send at β′).

    A higher level lifts every signal over the noise but silences more devices. `carried(β)` is that share.
    """
    levels = beta * np.geomspace(1e-4, 1.0, 801)
    return float(max(levels, key=lambda level: level * carried(level)))
