"""A config brought to a budget: the same ε for the whole training, certified against the same adversary."""

import math
from collections.abc import Callable

import numpy as np

from pfels.arrays import DeviceIds, Reals
from pfels.config.load import load_config, validate
from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.experiment.link import Link, link_of
from pfels.privacy.accountant import COHORT_DEPENDENT
from pfels.privacy.calibration import Budget, RequiredNoise, calibrate
from pfels.privacy.claim import claimed_epsilon, claimed_noise_multiplier
from pfels.privacy.events import Adversary, RoundEvent, beta_at
from pfels.privacy.gaussian import gaussian_mu, mu_squared
from pfels.schemes.exposure import plan_round
from pfels.schemes.registry import BudgetBy, scheme_entry, usable_schemes
from pfels.schemes.scheme import CalibratesItself
from pfels.schemes.setting import Setting

SAFE = 1 + 1e-9  # the rounding of a running sum must not spend more than the budget


def with_budget(config: Config, budget: Budget) -> Config:
    """The config whose scheme meets the budget: it spends at most ε, and just that where its level is the claim's.

    A scheme that calibrates itself is given the budget. A scheme with the paper's claim is given the claimed ε with
    which its worst device, over the very rounds that the run will draw, just meets it. A scheme whose registry entry
    says of no budget how it sets the noise stays as it is.
    """
    if not isinstance(budget, Budget):
        raise InputError(f"budget = {budget!r}: must be a Budget, such as pfels.Budget(8.0, 'server')")
    changed: dict[str, float | str | bool] = dict(budget.settings())
    if scheme_entry(config.scheme).budget is BudgetBy.SWITCH:
        changed[f"{config.scheme}.private"] = True
        config = load_config(config, {f"{config.scheme}.private": True})
    if scheme_entry(config.scheme).budget in (BudgetBy.CLAIM, BudgetBy.SWITCH):
        first = _first_event(link_of(config))
        find = _noise_against_outsiders if _outsider_counts(first, budget) else _noise_against_server
        changed["privacy.epsilon"] = claimed_epsilon(
            noise_multiplier=find(config, budget) * SAFE,
            delta=config.delta,
            devices=config.data.devices,
            cohort=config.cohort.size,
        )
    tree = config.tree()
    for key, value in changed.items():
        table, _, leaf = key.partition(".")
        tree[table][leaf] = value
    return validate(tree)


def set_by_budget(scheme: str) -> bool:
    """Whether a budget sets the noise of this scheme."""
    return scheme_entry(scheme).budget is not None


def required_noise(config: Config, budget: Budget, participations: int | None = None) -> RequiredNoise:
    """What the budget requires of the config's scheme before anybody is drawn: a device is assumed to take part in
    `participations` rounds, or in all of them, where the scheme itself sets no cap."""
    kind, name = scheme_entry(config.scheme).budget, config.scheme
    if kind is None:
        able = [other for other in usable_schemes() if set_by_budget(other)]
        raise InputError(f"scheme = {name!r}: has no noise to calibrate; use {', '.join(able)}")
    if kind is BudgetBy.TOTAL:
        if participations is not None:
            raise InputError(f"--participations: {name} sets its own cap; leave it out")
        scheme = link_of(with_budget(config, budget)).scheme
        assert isinstance(scheme, CalibratesItself), f"{name}: its registry entry says that it calibrates itself"
        return scheme.required_noise()
    link = link_of(with_budget(config, budget) if kind is BudgetBy.SWITCH else config)
    plan, setting = link.scheme.prepare(link.draws, 0), link.setting
    if budget.adversary is not Adversary.SERVER and plan.event.cohort_dependent:
        raise InputError(f"--adversary {budget.adversary}: {COHORT_DEPENDENT}; ask for --adversary server")
    if budget.adversary is Adversary.BLIND_SERVER and plan.air is None:
        raise InputError(f"--adversary blind-server: {name} sends on links of its own, where the server sees who sends")
    found = calibrate(
        adversary=budget.adversary, epsilon=budget.epsilon, delta=setting.delta, rounds=config.rounds,
        devices=setting.devices, cohort=setting.cohort_size, sampling=setting.sampling, participations=participations,
        exposure=setting.cell.exposure_bound if budget.adversary is Adversary.SERVER and plan.air is not None else 1.0,
    )  # fmt: skip
    z = found.noise_multiplier
    if plan.air is not None:
        return RequiredNoise(
            z,
            beta_at(noise_multiplier=z, bound=setting.bound * setting.cell.margin, noise_std=setting.noise_std),
            found.loss,
        )
    if budget.adversary is Adversary.SERVER:  # it sees single updates, each with less noise than the sum
        z *= _claimed_noise(setting) / plan.event.server_noise_multiplier
    return RequiredNoise(z, None, found.loss)


def _first_event(link: Link) -> RoundEvent:
    return link.scheme.prepare(link.draws, 0).event


def _claimed_noise(setting: Setting) -> float:
    return claimed_noise_multiplier(
        epsilon=setting.epsilon, delta=setting.delta, devices=setting.devices, cohort=setting.cohort_size
    )


def _outsider_counts(event: RoundEvent, budget: Budget) -> bool:
    """Whether the scheme has a figure against an outsider; where it has none, the server's must meet the budget."""
    return budget.adversary is Adversary.OUTSIDER and not event.cohort_dependent


def _noise_against_outsiders(config: Config, budget: Budget) -> float:
    setting = link_of(config).setting
    return calibrate(
        adversary=Adversary.OUTSIDER, epsilon=budget.epsilon, delta=setting.delta, rounds=config.rounds,
        devices=setting.devices, cohort=setting.cohort_size, sampling=setting.sampling,
    ).noise_multiplier  # fmt: skip


def _noise_against_server(config: Config, budget: Budget) -> float:
    """The minimum noise multiplier of a claim with which the worst device meets the budget against the server."""
    who, costs = _participations(config)
    allowed = gaussian_mu(epsilon=budget.epsilon, delta=config.delta) ** 2

    def excess(log_z: float) -> float:
        return float(np.bincount(who, costs(np.exp(log_z)), minlength=1).max() - allowed)

    low, high = np.log(1e-6), np.log(1e9)
    if not len(who):  # nobody ever takes part
        return float(np.exp(low))
    if excess(low) <= 0:  # the power limits alone meet the budget: the claim of the round with the least noise
        return float(costs(np.exp(low)).max() ** -0.5) * (1 - 1e-6)
    from scipy.optimize import brentq  # takes longer to import than most figures take

    root = brentq(excess, low, high, xtol=1e-13)
    return float(np.exp(root)) * (1 + 1e-12)


def _participations(config: Config) -> tuple[DeviceIds, Callable[[float], Reals]]:
    """One device id per participation, and what each costs, μ² as the server sees it, under a claim whose noise
    multiplier is z."""
    claim = link_of(config)
    on_air = claim.scheme.prepare(claim.draws, 0).air is not None
    unlimited = config.privacy.model_copy(update={"epsilon": math.inf})  # over the air: what the power limits allow
    link = link_of(config.model_copy(update={"privacy": unlimited})) if on_air else claim
    plans = [plan_round(link.scheme, link.draws, t) for t in range(config.rounds)]
    if link.setting.cell.antennas > 1 and any(plan.air is not None and plan.air.added is not None for plan in plans):
        raise InputError(
            f"channel.antennas = {link.setting.cell.antennas}: {config.scheme} relies on noise that devices add, which "
            "several antennas can cancel; no budget sets its level then"
        )
    events = [plan.event for plan in plans]
    exposed = np.concatenate([e.exposures or np.ones(len(e.participants)) for e in events])
    who = np.array([device for event in events for device in event.participants], np.int64)
    seen = np.array([event.server_noise_multiplier for event in events for _ in event.participants])
    if on_air:
        return who, lambda z: np.minimum(mu_squared(seen), mu_squared(z)) * exposed
    # On ideal links nothing but the claim limits the noise.
    return who, lambda z: (_claimed_noise(claim.setting) / seen) ** 2 * mu_squared(z)
