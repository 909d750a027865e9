"""Devices that repeat what they sent at their turn: what they add to the received sum, and its energy."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pfels.arrays import Reals
from pfels.errors import GuardError
from pfels.runtime.distributed import Ranks
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.memory import Kept, Memory
from pfels.schemes.plan import RoundPlan
from pfels.uplink.power import check_signals

ROUNDING = 1e-9  # relative; levels that differ by less are the same


def repeat(plan: RoundPlan, memory: Memory, y: Tensor, *, ranks: Ranks) -> list[float]:
    """Add to y what the devices of `plan.repeating` kept, each at its level, and return the energies.

    The norms of what was kept are known, so what is beyond its bound is refused without being formed. All devices of a
    turn have the same level L, so Σ Lᵢvᵢ = L·Σ vᵢ + Σ (Lᵢ − L)vᵢ with Lᵢ = 0 for those who are silent: the first sum is
    known since the turn, and only the rows of the silent ones are read again.
    """
    if plan.air is None or not len(plan.repeating):
        return []
    first = len(plan.training)
    places = {device: first + i for i, device in enumerate(plan.repeating.tolist())}
    arriving, levels = plan.arriving_levels(slice(0, len(plan.sending))).tolist(), plan.air.levels.tolist()
    turns = memory.turns()
    missing = places.keys() - {device for turn in turns.values() for device in turn}
    if missing:
        raise GuardError(f"device {min(missing)} is to repeat what it sent, but has kept nothing")
    if plan.ends is not None:
        planned = zip(places, plan.ends[first:].tolist(), strict=True)
        other = [device for device, end in planned if memory.devices[device].used_until != end]
        if other:
            raise GuardError(f"device {other[0]} is to repeat what it sent at another turn than the one it has kept")
    ends = sorted(turns)
    mine = {end: turns[end] for end in ends[ranks.share(len(ends))]}
    on_air = {end: [device for device in turn if device in places] for end, turn in mine.items()}
    everyone = [device for some in on_air.values() for device in some]
    lengths = [memory.devices[device].norm for device in everyone]
    # Before anything is added: nothing is sent if one of them is refused.
    spent: list[float] = repeat_energies(plan, lengths, [places[device] for device in everyone]).tolist()
    if plan.air.spectrum is not None:
        return [each for turn in mine.values() for each in _repeat_by_subcarrier(plan, turn, places, y)]
    for end, turn in mine.items():
        if not on_air[end]:
            continue
        level = levels[places[on_air[end][0]]]
        y.add_(memory.sums[end], alpha=level)
        heard = [arriving[places[device]] if device in places else 0.0 for device in turn]
        for kept, correction in zip(turn.values(), [each - level for each in heard], strict=True):
            if abs(correction) > ROUNDING * level:
                y.add_(kept.row, alpha=correction)
    return spent


def _repeat_by_subcarrier(
    plan: RoundPlan, turn: Mapping[int, Kept], places: Mapping[int, int], y: Tensor
) -> list[float]:
    """The same for one turn, where what arrives differs between subcarriers: every row is read.

    A row arrives at most as long as it was kept; where its energy is beyond the power limit it is scaled down to it.
    """
    air, spent = plan.require_air(), list[float]()
    spectrum = air.spectrum
    assert spectrum is not None, "the same on all subcarriers"
    arriving = plan.arriving_weights(slice(0, len(plan.sending)))
    for place, kept in sorted((places[device], kept) for device, kept in turn.items() if device in places):
        scale = float(air.levels[place] / abs(air.gains[place]))
        energy = scale**2 * spectrum.inverted_energy(kept.row, place)
        capped = min(1.0, math.sqrt(air.powers[place] / energy)) if energy else 1.0
        spectrum.add_heard(y, kept.row, place, weight=capped * complex(arriving[place]))
        spent.append(energy * capped**2)
    return spent


def repeat_energies(plan: RoundPlan, lengths: Sequence[float], places: Sequence[int]) -> Reals:
    """The energy with which devices at these places of `plan.sending` repeat vectors of these norms, or a GuardError if
    one is beyond its bound."""
    air, at = plan.require_air(), np.array(places, np.int64)
    gains, levels = air.gains[at], air.levels[at]
    spent: Reals = (levels / np.abs(gains) * np.array(lengths)) ** 2
    check_signals(spent, gains, beta=levels, bound=air.bound)
    return spent
