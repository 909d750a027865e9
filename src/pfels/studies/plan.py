"""The link budget of a training before anyone trains: β, noise, privacy, energy, spectrum, and the best k."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from pfels.arrays import Reals
from pfels.config.load import require_config
from pfels.config.tree import Config
from pfels.experiment import link
from pfels.experiment.forecast import Outlook, foresee
from pfels.experiment.link import link_system
from pfels.privacy.calibration import Footing
from pfels.schemes.registry import SCHEMES
from pfels.schemes.system import System
from pfels.studies.budget import on_footing
from pfels.studies.theory import BOUNDS, Course, Losses, best_kept, largest_smoothness, learning_rate_limit


def plan(
    config: Config,
    *,
    schemes: Sequence[str] = tuple(SCHEMES),
    losses: Losses | None = None,
    footing: Footing | None = None,
) -> dict[str, Any]:
    """What every scheme would use up over the rounds of this config, and the k that the convergence bounds prefer.

    Cohorts, gains and powers are those that the run itself would draw, so β, noise and privacy are exactly its own.
    Energy is in expectation, with every update at its norm bound, as in the paper's tables. `losses` are the
    assumptions of the convergence theorem; left out, they are `assumed_losses`. With a `footing`, every private scheme
    is brought to that budget for the whole training.
    """
    require_config(config)
    dimension = link.dimension(config)
    # The convergence bound is about PFELS, and WFL-P's level tells what the power limits allow: eq. (36).
    configs = {name: _of_scheme(config, name) for name in dict.fromkeys((*schemes, "pfels", "wfl-p"))}
    if footing is not None:
        configs = {name: on_footing(each, footing) for name, each in configs.items()}
    systems = {name: link_system(each, dimension=dimension) for name, each in configs.items()}
    asked = {name: systems[name] for name in dict.fromkeys((*schemes, "wfl-p"))}
    outlooks = foresee(asked, rounds=config.rounds, subcarriers=config.channel.subcarriers)
    system = systems["pfels"]
    reach = np.array(outlooks["wfl-p"].betas) * system.bound
    return {
        "dimension": system.dimension,
        "kept": system.kept,
        "rounds": config.rounds,
        "devices": system.devices,
        "cohort": system.cohort_size,
        "seed": config.seed,
        "schemes": {name: budget(outlooks[name], systems[name], config) for name in schemes},
        "theory": _theory(config, system, reach, losses or assumed_losses(config)),
    }


def budget(outlook: Outlook, system: System, config: Config) -> dict[str, Any]:
    """One scheme's outlook as JSON values; schemes with ideal links have no β, no limit and no energy."""
    totals = outlook.ledger().summary(system, slot_s=config.channel.slot_ms / 1000)
    rounds, energy = config.rounds, totals["energy_bound"]
    return {
        "beta": _levels(outlook.betas),
        "limits": {name: count / rounds for name, count in sorted(outlook.limits.items())},
        "privacy_limited_rounds": totals["privacy_limited_rounds"],
        "noise_multiplier_min": totals["privacy"]["noise_multiplier_min"],
        "noise_multiplier_median": statistics.median(outlook.noise_multipliers) if outlook.noise_multipliers else None,
        "energy": energy,
        "energy_per_round": None if energy is None else energy / rounds,
        "subcarriers": totals["subcarriers"],
        "subcarriers_per_round": totals["subcarriers"] / rounds,
        "airtime_s": totals["airtime_s"],
        "silent": totals["silent"],
        "privacy": totals["privacy"],
    }


def _of_scheme(config: Config, name: str) -> Config:
    """The config with another scheme; what only pfels-plus has stays with it."""
    changed: dict[str, Any] = {"scheme": name}
    if name != "pfels-plus":
        changed["channel"] = config.channel.model_copy(update={"silent_below": 0.0})
        changed["compression"] = config.compression.model_copy(update={"kind": "rand-k", "error_feedback": False})
    return config.model_copy(update=changed)


def _levels(betas: Sequence[float]) -> dict[str, float] | None:
    betas = list(filter(math.isfinite, betas))
    return {"median": statistics.median(betas), "min": min(betas), "max": max(betas)} if betas else None


def assumed_losses(config: Config) -> Losses:
    """What is assumed of the losses where nobody says more: the worst that the clipping and the theorem allow.

    No gradient is longer than C₁ (Assumption 1), so ζ̄² ≤ C₁² and, where data are not IID, κ² ≤ C₁². A start that
    knows nothing has the loss log(classes). L is the largest with which Theorem 4 covers the learning rate. With all
    four so, the preferred k depends neither on the learning rate nor on C₁.
    """
    training = config.training
    return Losses(
        smoothness=largest_smoothness(learning_rate=training.learning_rate, local_steps=training.local_epochs),
        gradient_variance=training.clip**2,
        kappa_squared=0.0 if config.data.partition == "iid" else training.clip**2,
        initial_gap=math.log(link.example(config).classes),
    )


def course_of(config: Config, system: System, reach: Reals) -> Course:
    """The training as the convergence bound sees it."""
    return Course(
        learning_rate=config.training.learning_rate,
        local_steps=config.training.local_epochs,  # the paper's own reading of τ: epochs
        cohort=system.cohort_size,
        dimension=system.dimension,
        noise_std=system.noise_std,
        bound=system.bound,
        privacy_limit=system.privacy_limit,
        reach=reach,
    )


def _theory(config: Config, system: System, reach: Reals, losses: Losses) -> dict[str, Any]:
    """Both bounds at the config's k and at the k that each prefers, for PFELS."""
    course, training = course_of(config, system, reach), config.training
    limit = learning_rate_limit(losses, local_steps=training.local_epochs, lost=1 - system.kept / system.dimension)
    bounds = {}
    for name, bound in BOUNDS.items():
        best = best_kept(bound, losses, course)
        terms = {k: bound(losses, course, kept=k) for k in (system.kept, best)}
        at = [
            {"kept": k, "ratio": k / system.dimension, **vars(terms[k]), "total": terms[k].total}
            for k in (system.kept, best)
        ]
        bounds[name] = {"here": at[0], "best": at[1]}
    return {
        "assumed": vars(losses),
        "learning_rate": training.learning_rate,
        "learning_rate_limit": limit,
        "learning_rate_covered": training.learning_rate <= limit * (1 + 1e-12),
        "bounds": bounds,
    }
