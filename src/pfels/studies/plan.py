"""The link budget before any training: β, noise, privacy, energy, spectrum, and the best k."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pfels.arrays import Reals
from pfels.config.load import changes, load_config
from pfels.config.scheme_settings import require_used_by_any, used_by
from pfels.config.tree import Config
from pfels.documents.studies import BoundAtK, BoundTerms, Levels, LinkPlan, Plan, SchemePlan, Theory
from pfels.experiment.assumptions import with_data_notes
from pfels.experiment.forecast import Forecast, cached_draws, forecast
from pfels.experiment.link import Link, data_notes, example, frame_of, link_of, model_dimension
from pfels.privacy.calibration import Budget
from pfels.runtime.arguments import instance
from pfels.schemes.draws import CachedDraws
from pfels.schemes.plan import RoundPlan
from pfels.schemes.registry import chosen_schemes
from pfels.schemes.scheme import decodes
from pfels.schemes.setting import Setting
from pfels.studies.budget import set_by_budget, with_budget
from pfels.studies.noise_ratio import noise_ratios
from pfels.studies.radio import RadioTrace
from pfels.studies.radio_plan import radio_plan, radio_units
from pfels.studies.theory import (
    BOUNDS,
    Bound,
    LossAssumptions,
    TrainingCourse,
    best_kept,
    largest_smoothness,
    learning_rate_limit,
)


def plan(
    base: Config | str | Path = "demo",
    *,
    schemes: Sequence[str] | str | None = None,
    overrides: Mapping[str, Any] | None = None,
    losses: LossAssumptions | None = None,
    budget: Budget | None = None,
    measure: bool = False,
) -> Plan:
    """What every scheme would use over the rounds of a config, and the k that the convergence bounds prefer.

    `base` is a config, a preset or a TOML file; each scheme takes those of the overrides that it uses. Cohorts, gains
    and powers are those that the run itself would draw, so β, noise and privacy are exactly its own. Energy is in
    expectation, with every update at its norm bound, as in the paper's tables. `losses` are the assumptions of the
    convergence theorem; left out, they are `assumed_losses`. With a `budget`, every scheme whose noise a budget sets
    is brought to it; `on_budget` says which were. Ideal links are priced as digital ones over the channel of `pfels`.
    With `measure`, one device trains on this machine, and `radio.compute_s` is the time that it took.

    >>> import pfels
    >>> planned = pfels.plan(pfels.load_config("demo", {"rounds": 5}), schemes=["pfels"])
    >>> planned["schemes"]["pfels"]["subcarriers"]
    3615
    """
    names, changed = chosen_schemes(schemes), changes(overrides)
    if losses is not None:
        instance("losses", losses, LossAssumptions, such_as="LossAssumptions(smoothness=0.5, …)")
    if measure:
        from pfels.studies.measure import measured_training_s

        own = load_config(base, {**used_by("pfels", changed), "scheme": "pfels"})
        changed["radio.compute_s"] = measured_training_s(own)
    # The convergence bound is about PFELS, and WFL-P's level tells what the power limits allow: eq. (36).
    everyone = list(dict.fromkeys((*names, "pfels", "wfl-p")))
    configs = {name: load_config(base, {**used_by(name, changed), "scheme": name}) for name in everyone}
    require_used_by_any(changed, names)
    config = configs["pfels"]
    if budget is not None:
        configs = {name: with_budget(each, budget) for name, each in configs.items()}
    d = model_dimension(config)
    links = {name: link_of(each, dimension=d) for name, each in configs.items()}
    asked = {name: links[name] for name in dict.fromkeys((*names, "wfl-p"))}
    radios = {name: RadioTrace(config.data.devices) for name in asked}
    draws = cached_draws(links)

    def observe(name: str, plan: RoundPlan, own: CachedDraws) -> None:
        radios[name].add(plan, draws["pfels"] if plan.air is None else own)

    forecasts = forecast(asked, rounds=config.rounds, frame=frame_of(config), draws=draws, observe=observe)
    rows: dict[str, SchemePlan] = {}
    for name in names:
        own = configs[name] if radios[name].over_air else configs[name].model_copy(update={"channel": config.channel})
        link_plan = scheme_plan(forecasts[name], links[name], config)
        rows[name] = {**link_plan, "radio": radio_plan(radios[name], own, dimension=d)}
        if budget is not None:
            rows[name]["on_budget"] = set_by_budget(name)
    setting = links["pfels"].setting
    weakest = np.array(forecasts["wfl-p"].betas) * setting.bound
    return {
        "dimension": setting.dimension,
        "kept": setting.kept,
        "rounds": config.rounds,
        "devices": setting.devices,
        "cohort": setting.cohort_size,
        "seed": config.seed,
        "radio": radio_units(config, measured=measure),
        "schemes": rows,
        "theory": _theory(config, setting, weakest, losses or assumed_losses(config)),
    }


def scheme_plan(forecast: Forecast, link: Link, config: Config) -> LinkPlan:
    """One scheme's link budget in the units of the channel; ideal links have no β, no limit and no energy."""
    ledger = forecast.ledger()
    totals = ledger.summary(link.setting, slot_s=frame_of(config).slot_s)
    privacy = with_data_notes(totals["privacy"], data_notes(config), ledger.server, delta=link.setting.delta)
    rounds, energy, noise = config.rounds, totals["energy_bound"], forecast.noise_multipliers
    ratios = noise_ratios(forecast, link)
    row: LinkPlan = {
        "beta": _levels(forecast.betas),
        "limits": {name: count / rounds for name, count in sorted(forecast.limits.items())},
        "privacy_limited_rounds": totals["privacy_limited_rounds"],
        "noise_multiplier_min": totals["privacy"]["noise_multiplier_min"],
        "noise_multiplier_median": statistics.median(noise) if noise else None,
        "noise_ratio_round": ratios.round,
        "noise_ratio_sum": ratios.sum,
        "noise_ratio_coordinate": ratios.coordinate,
        "energy": energy,
        "energy_per_round": None if energy is None else energy / rounds,
        "subcarriers": totals["subcarriers"],
        "subcarriers_per_round": totals["subcarriers"] / rounds,
        "airtime_s": totals["airtime_s"],
        "silent": totals["silent"],
        "privacy": privacy,
    }
    if decodes(link.scheme):
        row["echo"] = link.scheme.echo_plan()
    return row


def _levels(betas: Sequence[float]) -> Levels | None:
    betas = list(filter(math.isfinite, betas))
    return {"median": statistics.median(betas), "min": min(betas), "max": max(betas)} if betas else None


def assumed_losses(config: Config) -> LossAssumptions:
    """What is assumed of the losses where nobody says more: the worst that the clipping and the theorem allow.

    No gradient is longer than C₁ (Assumption 1), so ζ̄² ≤ C₁² and, where data are not IID, κ² ≤ C₁². A start that
    knows nothing has the loss log(classes). L is the largest with which Theorem 4 covers the learning rate. With all
    four so, the k that the printed and the corrected bound prefer depends neither on the learning rate nor on C₁.
    """
    training = config.training
    return LossAssumptions(
        smoothness=largest_smoothness(learning_rate=training.learning_rate, local_steps=training.local_epochs),
        gradient_variance=training.clip**2,
        kappa_squared=0.0 if config.data.partition == "iid" else training.clip**2,
        initial_gap=math.log(example(config).classes),
    )


def course_of(config: Config, setting: Setting, weakest_amplitudes: Reals) -> TrainingCourse:
    """The training as the convergence bound sees it; `weakest_amplitudes` is minᵢ |hᵢ|√Pᵢ of every round."""
    return TrainingCourse(
        learning_rate=config.training.learning_rate,
        local_steps=config.training.local_epochs,  # the paper's own reading of τ: epochs
        cohort=setting.cohort_size,
        dimension=setting.dimension,
        noise_std=setting.noise_std,
        bound=setting.bound,
        privacy_limit=setting.privacy_limit,
        weakest_amplitudes=weakest_amplitudes,
    )


def _theory(config: Config, setting: Setting, weakest_amplitudes: Reals, losses: LossAssumptions) -> Theory:
    """Each bound at the config's k and at the k that it prefers, for PFELS at the config's learning rate."""
    course, training = course_of(config, setting, weakest_amplitudes), config.training
    limit = learning_rate_limit(losses, local_steps=training.local_epochs, lost=1 - setting.share)
    largest = training.clip**2  # Assumption 1: no gradient is longer than C₁
    bounds: dict[str, BoundAtK] = {}
    for name, bound in BOUNDS.items():
        here, best = setting.kept, best_kept(bound, losses, course)
        bounds[name] = {
            "here": _terms(bound(losses, course, kept=here), here, setting.dimension, largest),
            "best": _terms(bound(losses, course, kept=best), best, setting.dimension, largest),
        }
    return {
        "assumed": {
            "smoothness": losses.smoothness,
            "gradient_variance": losses.gradient_variance,
            "gamma_squared": losses.gamma_squared,
            "kappa_squared": losses.kappa_squared,
            "initial_gap": losses.initial_gap,
        },
        "gradient_bound_squared": largest,
        "learning_rate": training.learning_rate,
        "learning_rate_limit": limit,
        "learning_rate_covered": training.learning_rate <= limit * (1 + 1e-12),
        "bounds": bounds,
    }


def _terms(bound: Bound, kept: int, dimension: int, largest: float) -> BoundTerms:
    return {
        "kept": kept,
        "ratio": kept / dimension,
        "optimisation": bound.optimisation,
        "compression": bound.compression,
        "privacy": bound.privacy,
        "proven": bound.proven,
        "total": bound.total,
        "vacuous": bound.total > largest,
    }
