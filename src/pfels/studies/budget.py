"""Every private scheme on one footing: the same budget for the whole training, certified against the same adversary."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from pfels.arrays import Ids, Reals
from pfels.config.load import validate
from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.experiment import link as experiment_link
from pfels.experiment.link import link_system
from pfels.privacy.accountant import COHORT_DEPENDENT, outsider_loss, server_loss
from pfels.privacy.calibration import Budget, Footing, calibrate
from pfels.privacy.claim import claimed_epsilon, claimed_noise_multiplier
from pfels.privacy.events import Adversary, Loss, RoundEvent, beta_at
from pfels.privacy.gaussian import gaussian_mu
from pfels.schemes.pfels_plus import public_level
from pfels.schemes.registry import load_scheme
from pfels.schemes.system import System

SAFE = 1 + 1e-9  # the rounding of a running sum must not spend more than the budget


def on_footing(config: Config, footing: Footing) -> Config:
    """The config whose scheme meets the budget with no more noise than it needs.

    pfels-plus is given the budget itself. The schemes with the paper's claim are given the claimed ε whose worst
    device, over the very rounds that the run will draw, just meets it. Schemes without privacy stay as they are.
    """
    changed = footing.settings()
    scheme = load_scheme(config.scheme)
    first = scheme.prepare(_system(config, config.privacy.epsilon), 0)
    if first.claimed_epsilon is not None:
        find = _noise_against_outsiders if _outsider_counts(first.event, footing) else _noise_against_server
        z = find(config, footing)
        changed["privacy.epsilon"] = claimed_epsilon(
            noise_multiplier=z * SAFE, delta=config.delta, devices=config.data.devices, cohort=config.cohort.size
        )
    tree = config.model_dump(exclude_none=True)
    for key, value in changed.items():
        table, _, leaf = key.partition(".")
        tree[table][leaf] = value
    return validate(tree)


@dataclass(frozen=True)
class Need:
    """The noise multiplier that a budget asks of a scheme, the level β that gives it (None on links of their own), and
    what the accountant says of a training with it: never more than the budget."""

    noise_multiplier: float
    beta: float | None
    loss: Loss


def needed(config: Config, footing: Footing, participations: int | None = None) -> Need:
    """What the budget asks of the config's scheme before anybody is drawn: a device is taken to take part in
    `participations` rounds, or in all of them, where the scheme itself sets no limit."""
    system = _system(config, config.privacy.epsilon)
    if config.scheme == "pfels-plus":
        if participations is not None:
            raise InputError("--participations: pfels-plus sets a limit of its own; leave it out")
        return _level(replace(system, budget=Budget(footing.epsilon, footing.adversary, config.rounds)), config.rounds)
    link = load_scheme(config.scheme).prepare(system, 0)
    if link.claimed_epsilon is None:
        raise InputError(f"scheme = {config.scheme!r}: no budget sets its noise; one sets that of pfels, say")
    if footing.adversary is Adversary.OUTSIDER and link.event.cohort_dependent:
        raise InputError(f"--adversary outsider: {COHORT_DEPENDENT}; ask for --adversary server")
    found = calibrate(
        adversary=footing.adversary, epsilon=footing.epsilon, delta=system.delta, rounds=config.rounds,
        devices=system.devices, cohort=system.cohort_size, sampling=system.sampling, participations=participations,
    )  # fmt: skip
    z = found.noise_multiplier
    if link.air is not None:
        return Need(z, beta_at(noise_multiplier=z, bound=system.bound, noise_std=system.noise_std), found.loss)
    if footing.adversary is Adversary.SERVER:  # it sees single updates, each with less noise than the sum
        z *= _claimed(system) / link.event.server_noise_multiplier
    return Need(z, None, found.loss)


def _level(system: System, rounds: int) -> Need:
    """The one public level of pfels-plus, and what it costs: less than the budget where power limits it."""
    assert system.budget is not None
    level = public_level(system)
    z, times = level.noise_multiplier, level.ration or rounds
    loss = server_loss(mu_squared=times / z**2, participations=times, delta=system.delta)
    if system.budget.adversary is Adversary.OUTSIDER:
        loss = outsider_loss(
            {z: rounds}, devices=system.devices, cohort=system.cohort_size, sampling=system.sampling, delta=system.delta
        )
    return Need(z, level.beta, loss)


def _claimed(system: System) -> float:
    return claimed_noise_multiplier(
        epsilon=system.epsilon, delta=system.delta, devices=system.devices, cohort=system.cohort_size
    )


def _system(config: Config, epsilon: float) -> System:
    privacy = config.privacy.model_copy(update={"epsilon": epsilon})
    return link_system(config.model_copy(update={"privacy": privacy}), dimension=experiment_link.dimension(config))


def _outsider_counts(event: RoundEvent, footing: Footing) -> bool:
    """Whether the scheme has a figure against an outsider; where it has none, the server's must meet the budget."""
    return footing.adversary is Adversary.OUTSIDER and not event.cohort_dependent


def _noise_against_outsiders(config: Config, footing: Footing) -> float:
    system = _system(config, config.privacy.epsilon)
    return calibrate(
        adversary=Adversary.OUTSIDER, epsilon=footing.epsilon, delta=system.delta, rounds=config.rounds,
        devices=system.devices, cohort=system.cohort_size, sampling=system.sampling,
    ).noise_multiplier  # fmt: skip


def _noise_against_server(config: Config, footing: Footing) -> float:
    """The least noise multiplier of a claim with which the worst device meets the budget against the server."""
    who, costs = _participations(config)
    most = gaussian_mu(epsilon=footing.epsilon, delta=config.delta) ** 2

    def excess(log_z: float) -> float:
        return float(np.bincount(who, costs(np.exp(log_z)), minlength=1).max() - most)

    low, high = np.log(1e-6), np.log(1e9)
    if excess(low) <= 0:  # the power limits alone meet the budget, or nobody ever takes part
        return float(np.exp(low))
    root = brentq(excess, low, high, xtol=1e-13)
    return float(np.exp(root)) * (1 + 1e-12)


def _participations(config: Config) -> tuple[Ids, Callable[[float], Reals]]:
    """A device for each time that one takes part, and what these times cost, 1/z² each as the server sees it, under a
    claim whose noise multiplier is z."""
    scheme, claim = load_scheme(config.scheme), _system(config, config.privacy.epsilon)
    on_air = scheme.prepare(claim, 0).air is not None
    system = _system(config, math.inf) if on_air else claim  # on the air, what the power limits alone would allow
    events = [scheme.prepare(system, t).event for t in range(config.rounds)]
    who = np.array([device for event in events for device in event.participants], np.int64)
    seen = np.array([event.server_noise_multiplier for event in events for _ in event.participants])
    if on_air:
        return who, lambda z: np.minimum(seen**-2, z**-2)
    return who, lambda z: (_claimed(claim) / seen) ** 2 * z**-2  # on links of their own nothing but the claim limits it
