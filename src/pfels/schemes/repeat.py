"""Devices that repeat what they sent at their turn: what they add to the received sum, and its energy."""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pfels.arrays import Reals, Rounds
from pfels.errors import GuardError
from pfels.runtime.distributed import Ranks
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.memory import Memory, Turn
from pfels.schemes.plan import RoundPlan
from pfels.uplink.power import check_signals

ROUNDING = 1e-9  # relative; levels that differ by less are the same


class Heard(NamedTuple):
    """The devices of one turn that are on the air: their rows in the turn, and their places among the senders."""

    turn: Turn
    rows: Rounds
    places: Rounds


def repeat(plan: RoundPlan, memory: Memory, y: Tensor, *, ranks: Ranks) -> list[float]:
    """Add to y what the devices of `plan.repeating` kept, each at its level, and return the energies.

    The norms of what was kept are known, so what is beyond its bound is refused without being formed.
    """
    if plan.air is None or not len(plan.repeating):
        return []
    heard = _heard(plan, memory)
    mine = heard[ranks.share(len(heard))]
    if not mine:
        return []
    lengths = np.concatenate([turn.norms[rows] for turn, rows, _ in mine])
    # Before anything is added: nothing is sent if one of them is refused.
    spent: list[float] = repeat_energies(plan, lengths, np.concatenate([places for *_, places in mine])).tolist()
    if plan.air.spectrum is not None:
        return [energy for one in mine for energy in _repeat_by_subcarrier(plan, one, y)]
    for vector, level in _terms(plan, mine):
        y.add_(vector, alpha=level)
    return spent


def _heard(plan: RoundPlan, memory: Memory) -> list[Heard]:
    """Who repeats what it sent, turn by turn; a GuardError if one of them did not keep what it is to repeat."""
    assert plan.ends is not None, "devices repeat what they sent at a known turn"
    ends, found = plan.ends[len(plan.training) :], list[Heard]()
    order = np.argsort(ends, kind="stable")
    places, last = order + len(plan.training), ends[order]
    cuts = [0, *(np.diff(last).nonzero()[0] + 1).tolist(), len(last)]
    for begin, stop in pairwise(cuts):
        at, end = places[begin:stop], int(last[begin])
        turn, asked = memory.turns.get(end), plan.sending[at]
        if turn is None:
            raise GuardError(_missing(memory, asked.tolist(), end))
        rows = turn.devices.searchsorted(asked)
        if (turn.devices.take(rows, mode="clip") != asked).any():
            raise GuardError(_missing(memory, asked.tolist(), end))
        found.append(Heard(turn, rows, at))
    return found


def _missing(memory: Memory, devices: list[int], end: int) -> str:
    ends = {device: memory.devices[device].used_until for device in devices if device in memory.devices}
    device = next(device for device in devices if ends.get(device) != end)
    if device not in ends:
        return f"device {device} is to repeat what it sent, but has kept nothing"
    return f"device {device} is to repeat what it sent at another turn than the one it has kept"


def _terms(plan: RoundPlan, heard: list[Heard]) -> list[tuple[Tensor, float]]:
    """The vectors, and the levels at which they add up to what arrives.

    All devices of a turn have the same level L, so Σ Lᵢvᵢ = L·Σ vᵢ + Σ (Lᵢ − L)vᵢ with Lᵢ = 0 for those who are
    silent: the first sum is known since the turn, and only the vectors of the silent ones are read again.
    """
    arriving, levels = plan.arriving_levels(slice(0, len(plan.sending))), plan.require_air().levels
    terms: list[tuple[Tensor, float]] = []
    for turn, rows, places in heard:
        level = float(levels[places[0]])
        corrections = np.full(len(turn.rows), -level)
        corrections[rows] += arriving[places]
        others = (np.abs(corrections) > ROUNDING * level).nonzero()[0]
        terms.append((turn.total, level))
        terms += [(turn.rows[row], float(corrections[row])) for row in others.tolist()]
    return terms


def _repeat_by_subcarrier(plan: RoundPlan, heard: Heard, y: Tensor) -> list[float]:
    """The same for one turn, where what arrives differs between subcarriers: every row is read.

    A row arrives at most as long as it was kept; where its energy is beyond the power limit it is scaled down to it.
    """
    air, spent = plan.require_air(), list[float]()
    spectrum = air.spectrum
    assert spectrum is not None, "the same on all subcarriers"
    arriving = plan.arriving_weights(slice(0, len(plan.sending)))
    for place, row in sorted(zip(heard.places.tolist(), heard.rows.tolist(), strict=True)):
        v = heard.turn.rows[row]
        scale = float(air.levels[place] / abs(air.gains[place]))
        energy = scale**2 * spectrum.inverted_energy(v, place)
        capped = min(1.0, math.sqrt(air.powers[place] / energy)) if energy else 1.0
        spectrum.add_heard(y, v, place, weight=capped * complex(arriving[place]))
        spent.append(energy * capped**2)
    return spent


def repeat_energies(plan: RoundPlan, lengths: Reals, places: Rounds) -> Reals:
    """The energy with which devices at these places of `plan.sending` repeat vectors of these norms, or a GuardError if
    one is beyond its bound."""
    air = plan.require_air()
    gains, levels = air.gains[places], air.levels[places]
    spent: Reals = (levels / np.abs(gains) * lengths) ** 2
    check_signals(spent, gains, beta=levels, bound=air.bound)
    return spent
