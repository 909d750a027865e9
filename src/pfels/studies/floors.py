"""Which gain floor serves a budget best, for a server with several antennas.

A device that inverts a weak channel transmits loudly, and every other antenna hears it. A budget that must hold surely
against M antennas needs μ²·(1 + (M − 1)(gain_max/floor)²) to fit in it, so a low floor costs noise and a high one
silences devices. What the models gain is the level β times the expected number of senders: the floor that maximises it.
"""

import numpy as np

from pfels.config.load import load_config
from pfels.config.tree import Config
from pfels.documents.privacy import BestFloor
from pfels.errors import InputError
from pfels.experiment.assumptions import ANTENNAS
from pfels.experiment.link import link_of
from pfels.privacy.calibration import Budget
from pfels.schemes.registry import BudgetBy, scheme_entry
from pfels.studies.budget import with_budget

CANDIDATES = 9  # floors that are tried, from the law's minimum to its maximum


def best_floors(config: Config, budget: Budget) -> list[BestFloor]:
    """One row for each number of antennas; none for a scheme that has no floor or no budget of its own."""
    entry = scheme_entry(config.scheme)
    if "silence" not in entry.uses or entry.budget is not BudgetBy.TOTAL:
        return []
    law = config.channel
    floors = np.geomspace(max(law.gain_min, law.gain_max / 300), law.gain_max * 0.9, CANDIDATES)
    rows: list[BestFloor] = []
    for m in ANTENNAS if law.model == "flat" else ANTENNAS[:1]:
        found = [each for floor in floors if (each := _at(config, budget, m, float(floor))) is not None]
        best = max(found, key=lambda row: row["signal"])
        first = rows[0] if rows else best
        rows.append({**best, "signal": best["signal"] / (first["beta"] * first["senders"])})
    return rows


def _at(config: Config, budget: Budget, antennas: int, floor: float) -> BestFloor | None:
    rounded = float(f"{floor:.2g}")
    changed = load_config(config, {"channel.antennas": antennas, "channel.silent_below": rounded})
    try:
        link = link_of(with_budget(changed, budget))
    except InputError:  # nobody can carry any level above this floor
        return None
    plan = link.scheme.prepare(link.draws, 0)
    return {
        "antennas": antennas,
        "silent_below": rounded,
        "noise_multiplier": plan.event.noise_multiplier,
        "beta": plan.beta,
        "senders": plan.divisor,
        "signal": plan.beta * plan.divisor,
    }
