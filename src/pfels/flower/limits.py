"""What a node accepts of a server, in numbers. All of it is decided from the request, the run's config and its plan.

The settings of a simulation may be anything that is a number. A server could choose them such that single precision
fails for some data and not for others: then what a node answers would tell which. Within these limits a clipped update
stays within its bound whatever the data are, and noise on its lattice holds whatever it is added to.
"""

import math

from torch import Tensor

from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.schemes.plan import RoundPlan
from pfels.schemes.scheme import Scheme, adds_noise

RANGES: dict[str, tuple[float, float]] = {
    "rounds": (1, 1e6),
    "data.devices": (1, 1e7),
    "data.per_device": (1, 1e7),
    "data.alpha": (0, 1e6),
    "data.beta": (0, 1e6),
    "model.hidden": (1, 1e5),
    "training.learning_rate": (1e-6, 1e3),
    "training.local_epochs": (1, 1000),
    "training.batch_size": (1, 1e6),
    "training.momentum": (0, 0.9999),
    "training.clip": (1e-6, 1e6),
    "cohort.size": (1, 1e7),
    "channel.gain_mean": (1e-9, 1e6),
    "channel.gain_min": (1e-9, 1e6),
    "channel.gain_max": (1e-9, 1e6),
    "channel.silent_below": (0, 1e6),
    "channel.noise_std": (1e-6, 1e6),
    "channel.snr_min_db": (-100, 100),
    "channel.snr_max_db": (-100, 100),
    "channel.subcarriers": (1, 1e7),
    "channel.slot_ms": (1e-6, 1e6),
    "compression.ratio": (1e-6, 1),
    "privacy.epsilon": (1e-6, 1e6),
    "privacy.delta": (1e-30, 1),
    "privacy.total_epsilon": (1e-6, 1e6),
    "server.learning_rate": (1e-9, 1e6),
    "run.eval_every": (1, 1e9),
    "run.checkpoint_every": (1, 1e9),
}
BOUND = (1e-9, 1e9)  # ητC₁
LENGTH = (1e-12, 1e15)  # of the longest signal that a device may transmit
LEVEL = (1e-24, 1e24)  # by which a device multiplies its update: its square is a number in single precision, too
BESIDE_NOISE = 2.0**40  # the longest signal over the noise that its device adds: 2⁶⁰ of the noise's steps
LARGEST_PARAMETER = 1e9


def require_settings(config: Config) -> None:
    """An InputError for settings that no training needs."""
    flat = config.flat()
    for key, (low, high) in RANGES.items():
        if key in flat and not low <= flat[key] <= high:
            raise InputError(f"{key} = {flat[key]!r}: a node accepts {low:g} to {high:g}")
    bound = config.training.update_bound
    if not BOUND[0] <= bound <= BOUND[1]:
        raise InputError(
            f"training.clip: learning_rate·local_epochs·clip = {bound:g}; a node accepts {BOUND[0]:g} to {BOUND[1]:g}"
        )


def require_model(theta: Tensor, *, dimension: int) -> None:
    """An InputError unless the model has this many parameters, all of them numbers that a model has."""
    if theta.shape != (dimension,):
        raise InputError(f"a model of {theta.numel():,} parameters; this node has {dimension:,}")
    if not bool((theta.abs() <= LARGEST_PARAMETER).all()):
        raise InputError(f"a model with a parameter that is no number, or beyond {LARGEST_PARAMETER:g}")


def require_plan(scheme: Scheme, plan: RoundPlan) -> None:
    """An InputError for a round in which a sender's signal could be too small or too large for single precision, or
    for the lattice of the noise beside it."""
    for place, device in enumerate(plan.sending.tolist()):
        longest = scheme.setting.bound
        if plan.air is not None:
            level = float(plan.air.levels[place] / abs(plan.air.gains[place]))
            longest = level * plan.air.bound
            if not (LEVEL[0] <= level <= LEVEL[1] and LENGTH[0] <= longest <= LENGTH[1]):
                raise InputError(f"round {plan.round}: signals of length {longest:g}, at the level {level:g}")
        std = scheme.noise_std(plan, device) if adds_noise(scheme) else 0.0
        if not math.isfinite(std) or (std > 0 and not longest / std <= BESIDE_NOISE):
            raise InputError(f"round {plan.round}: noise of {std:g} beside signals of length {longest:g}")
