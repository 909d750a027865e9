"""What everybody knows of PFELS-echo before its first round: blocks, bands, weights, and the level."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from pfels.arrays import Reals
from pfels.documents.studies import EchoPlan
from pfels.errors import InputError
from pfels.privacy.calibration import calibrate
from pfels.privacy.events import Adversary, beta_at, noise_multiplier_at, turns_per_device
from pfels.schemes.carried import carried_shares
from pfels.schemes.scheme import OwnSettings
from pfels.schemes.setting import Setting
from pfels.uplink.echo import averaged_workload, model_workload, noise_rms, optimised_weights, square_root_weights
from pfels.uplink.power import best_carried_level

RATIO_TOLERANCE = 0.2  # how far 1/m may be from the ratio that was asked for
LEAST_HEARD = 1e-3  # of the devices heard at their turn; weights, which make up for it, are at most 1/this apart
FITS = 4  # who is heard depends on the weights and they on who is heard; each step brings both closer by far


class EchoSettings(OwnSettings):
    """`bands`: in how many rounds a device sends what it learned at a turn; 0: in as many as fit before its next turn.
    `weights`: with which weights, those of the square-root factorisation, or those that minimise the noise in the
    models of this training."""

    bands: int = Field(default=0, ge=0, le=10**9)
    weights: Literal["square-root", "optimised"] = "square-root"


@dataclass(frozen=True)
class EchoLevel:
    """The level β and the limit that set it; the noise multiplier z of a whole turn (the weights have norm 1); the norm
    bound s of what is sent; the number m of blocks; the weights c; the share `heard[j]` of those heard at their turn
    that are heard again at lag j; and the share `carried` of the devices that are heard at their turn."""

    beta: float
    limit: str
    noise_multiplier: float
    bound: float
    blocks: int
    weights: Reals
    heard: Reals
    carried: float

    @property
    def bands(self) -> int:
        """b, the number of rounds in which a device sends what it learned at a turn."""
        return len(self.weights)


def block_count(ratio: float) -> int:
    """m = round(1/p), where 1/m is close enough to p.

    >>> block_count(0.3)
    3
    """
    m = max(round(1 / ratio), 1)
    if abs(1 / m - ratio) > RATIO_TOLERANCE * ratio:
        near = ", ".join(f"{1 / each:.4g}" for each in sorted({m, m + (1 if 1 / m > ratio else -1)} - {0}))
        raise InputError(
            f"compression.ratio = {ratio:g}: pfels-echo cuts the model into m equal blocks, so it must be within 20 % "
            f"of some 1/m; use {near.replace(', ', ' or ')}"
        )
    return m


def band_count(bands: int, *, groups: int, blocks: int, rounds: int) -> int:
    """b: what is asked for, or as many as fit before a device's next turn, and no more than there are rounds for."""
    fit = groups // blocks
    if fit < 1:
        raise InputError(
            f"compression.ratio = {1 / blocks:.3g}: {blocks} blocks take longer than a device's {groups} rounds "
            f"from turn to turn; use a ratio of at least {1 / groups:.3g}, or a smaller cohort.size"
        )
    if bands > fit:
        raise InputError(
            f"pfels-echo.bands = {bands}: a device's echo would overlap its next turn, {groups} rounds later; with "
            f"{blocks} block{'s' * (blocks > 1)} at most {fit} fit"
        )
    return min(bands or fit, -(-rounds // blocks))


def echo_level(setting: Setting) -> EchoLevel:
    """The level of a whole training, from the budget and the laws of the channel alone: it depends on nobody."""
    own = setting.own if isinstance(setting.own, EchoSettings) else EchoSettings()
    m = block_count(setting.ratio)
    b = band_count(own.bands, groups=setting.groups, blocks=m, rounds=setting.rounds)
    level = _level(setting, m, square_root_weights(b))
    for _ in range(FITS):
        heard = np.maximum(level.heard, LEAST_HEARD)
        weights = square_root_weights(b, heard=heard)
        if own.weights == "optimised":
            weights = optimised_weights(b, heard=heard, workloads=workloads(setting, m))
        level = _level(setting, m, weights)
    _require_heard(level, setting)
    return level


def _require_heard(level: EchoLevel, setting: Setting) -> None:
    """An InputError that names the setting by which hardly any device is heard again."""
    if level.heard.min() >= LEAST_HEARD:
        return
    cell, law, why = setting.cell, setting.cell.gain, "hardly any device that is heard at its turn is heard again"
    if cell.silent_below > 2 * law.gain_mean:  # which one gain in seven reaches
        raise InputError(
            f"channel.silent_below = {cell.silent_below:g}: with gains of mean {law.gain_mean:g}, {why}; use at most "
            f"{law.gain_mean:g}, or pfels-echo.bands = 1"
        )
    if level.weights.max() > level.weights[0]:
        raise InputError(
            f"pfels-echo.weights = 'square-root': {why}, since raised weights ask for more than power limits and "
            f"gain_max = {law.gain_max:g} allow; use 'optimised', which raises none, or pfels-echo.bands = 1"
        )
    raise InputError(
        f"channel.snr_max_db = {cell.power.high_db:g}: with power limits this low, {why}; raise it, or use "
        "pfels-echo.bands = 1"
    )


def workloads(setting: Setting, blocks: int) -> list[Reals]:
    """How decoded rounds enter the models that devices train from, and those that the run delivers."""
    turns = -(-setting.rounds // blocks)
    trained = model_workload(turns, every=blocks, momentum=setting.momentum)
    if not setting.average:
        return [trained]
    return [trained, averaged_workload(trained, every=blocks, average=setting.average)]


def worst_cost(level: EchoLevel, setting: Setting) -> float:
    """The maximum over devices of Σ c_j² over all that a device may send in the whole training."""
    return cost_of(level.weights, blocks=level.blocks, groups=setting.groups, rounds=setting.rounds)


def cost_of(weights: Reals, *, blocks: int, groups: int, rounds: int) -> float:
    """The same for given weights: 1 for each turn, and less for a last one whose echo the end of the training cuts off.

    >>> cost_of(np.array([0.8, 0.6]), blocks=1, groups=5, rounds=6)  # one turn with its echo, and another without
    1.64
    """
    spent = np.cumsum(weights**2)
    first = np.arange(min(groups, rounds))  # the round of each group's first turn
    whole = (rounds - 1 - first) // groups
    left = rounds - 1 - (first + whole * groups)  # rounds after the last turn
    return float(np.max(whole * spent[-1] + spent[np.minimum(left // blocks, len(weights) - 1)]))


def _level(setting: Setting, blocks: int, weights: Reals) -> EchoLevel:
    """The level for given weights."""
    s = setting.bound / math.sqrt(blocks)

    def shares(beta: float, weight: float) -> Reals:
        return carried_shares(setting, beta * weight * s)

    strongest = s * setting.cell.margin  # what a device whose gain is underestimated may arrive with, at β = 1
    once = calibrate(
        adversary=Adversary.SERVER, epsilon=setting.budget.epsilon, delta=setting.delta, rounds=setting.rounds,
        devices=setting.devices, cohort=setting.cohort_size, sampling=setting.sampling, participations=1,
        exposure=setting.cell.exposure_bound,
    )  # fmt: skip
    # (1 + 1e-9): so that the rounding of a running sum spends no more
    cost = cost_of(weights, blocks=blocks, groups=setting.groups, rounds=setting.rounds)
    z = once.noise_multiplier * math.sqrt(cost) * (1 + 1e-9)
    allowed = beta_at(noise_multiplier=z, bound=strongest, noise_std=setting.noise_std)
    beta = best_carried_level(beta=allowed, carried=lambda each: float(shares(each, weights[0]).mean()))
    at_turn = shares(beta, weights[0])
    carried = float(at_turn.mean())
    heard = np.ones(len(weights))
    if carried > 0:
        heard[1:] = [float((at_turn * shares(beta, w)).mean()) / carried for w in weights[1:]]
    return EchoLevel(
        beta=beta,
        limit="privacy" if beta == allowed else "power",
        noise_multiplier=noise_multiplier_at(beta=beta, bound=strongest, noise_std=setting.noise_std),
        bound=s,
        blocks=blocks,
        weights=weights,
        heard=heard,
        carried=carried,
    )


BYTES = 4  # of a float32


def echo_plan(level: EchoLevel, setting: Setting) -> EchoPlan:
    """The facts of a training with this level."""
    s, b = setting, level.bands
    found = noise_in(level, level.weights, s)
    best = noise_in(level, optimised_weights(b, heard=level.heard, workloads=workloads(s, level.blocks)), s)
    per_turn = -(-s.devices // s.groups) + 2  # what each device keeps, their sum, and what the server decoded
    return {
        "bands": b,
        "blocks": level.blocks,
        "rounds_between_turns": s.groups,
        "turns": turns_per_device(devices=s.devices, cohort=s.cohort_size, rounds=s.rounds),
        "heard_at_turn": level.carried,
        "noise_in_models": found[0],
        "noise_in_average": found[1] if len(found) > 1 else None,
        "noise_in_models_optimised": best[0],
        "noise_in_average_optimised": best[1] if len(best) > 1 else None,
        "memory_bytes": BYTES * (b - 1) * s.dimension * per_turn,
    }


def noise_in(level: EchoLevel, weights: Reals, setting: Setting) -> list[float]:
    """The noise in the models, and in the average that is delivered where there is one, relative to a training with one
    band on the same budget."""
    alone = np.ones(1)

    def noise(each: Reals, heard: Reals, workload: Reals) -> float:
        z = math.sqrt(cost_of(each, blocks=level.blocks, groups=setting.groups, rounds=setting.rounds))
        return z * noise_rms(each, heard=heard, workload=workload)

    return [
        noise(weights, level.heard, workload) / noise(alone, alone, workload)
        for workload in workloads(setting, level.blocks)
    ]
