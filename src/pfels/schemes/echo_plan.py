"""What echo does to the noise in the models, and what a simulation of it must keep."""

import math

import numpy as np

from pfels.arrays import Reals
from pfels.documents.studies import EchoPlan
from pfels.privacy.events import turns_per_device
from pfels.schemes.echo_level import EchoLevel, cost_of, workloads
from pfels.schemes.setting import Setting
from pfels.uplink.echo import noise_rms, optimised_weights

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
