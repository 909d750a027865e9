"""Noise that is not fresh normal noise: what audit_cheats.py puts in the place of honest noise."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfels.schemes import round
from pfels.schemes.draws import Draws
from pfels.schemes.plan import RoundPlan
from pfels.seeding import Purpose, generator

ROUNDS, DIMENSION = 300, 2410  # of the demo
honest, honest_device, honest_listen = Draws.receiver_noise, Draws.device_noise, round.listen


def fixed(*address: int) -> np.random.Generator:
    """A generator that does not follow the seed of the training."""
    return np.random.default_rng(list(address))


# The receiver's noise: from (draws, round, width) to noise.
Receive = Callable[[Draws, int, int], Tensor]


def of_honest(change: Callable[[Tensor, int], Tensor]) -> Receive:
    """Honest noise, changed."""
    return lambda draws, t, width: change(honest(draws, t, width), t)


def of_round(which: Callable[[int], int], change: Callable[[Tensor, int], Tensor] = lambda n, t: n) -> Receive:
    """The honest noise of another round, changed."""
    return lambda draws, t, width: change(honest(draws, which(t), width), t)


def by_law(law: Callable[[np.random.Generator, int], Any]) -> Receive:
    """Noise of another law with the right variance."""

    def noise(draws: Draws, t: int, width: int) -> Tensor:
        g = generator(draws.seed, Purpose.CHANNEL_NOISE, round=t)
        return torch.from_numpy(np.asarray(law(g, width), np.float32)) * draws.setting.noise_std

    return noise


def truncated(limit: float) -> Receive:
    """Normal noise of the right variance, drawn again where it is beyond the limit."""

    def law(g: np.random.Generator, width: int) -> Any:
        x = g.standard_normal(4 * width + 64)
        kept = x[np.abs(x) < limit][:width]
        inside = math.erf(limit / math.sqrt(2))
        variance = 1 - 2 * limit * math.exp(-(limit**2) / 2) / math.sqrt(2 * math.pi) / inside
        return kept / math.sqrt(variance)

    return by_law(law)


def rounded(share: float) -> Receive:
    """Noise on a lattice."""

    def noise(draws: Draws, t: int, width: int) -> Tensor:
        step = share * draws.setting.noise_std
        return torch.round(honest(draws, t, width) / step) * step

    return noise


def masked(where: Callable[[int, int], Any], scale: float = 1.0) -> Receive:
    """Noise at some places alone."""

    def noise(draws: Draws, t: int, width: int) -> Tensor:
        return honest(draws, t, width) * torch.from_numpy(np.asarray(where(t, width), np.float32)) * scale

    return noise


def in_subspace(rank: int) -> Receive:
    """Noise in one subspace of so many dimensions, the same in every round."""

    def noise(draws: Draws, t: int, width: int) -> Tensor:
        basis = fixed(rank, width).standard_normal((rank, width)).astype(np.float32)
        weights = honest(draws, t, width)[:rank].numpy() / math.sqrt(rank)
        return torch.from_numpy(weights @ basis)

    return noise


def smoothed(n: Tensor, t: int) -> Tensor:
    """Neighbours that share noise."""
    return (n + n.roll(1)) / math.sqrt(2)


def walked(draws: Draws, t: int, width: int) -> Tensor:
    """Noise that shares half its variance with the round before."""
    return (honest(draws, t, width) + honest(draws, max(t - 1, 0), width)) / math.sqrt(2)


def copied_half(n: Tensor, t: int) -> Tensor:
    """The second half is the first."""
    half = len(n) // 2
    n[half : 2 * half] = n[:half]
    return n


def permuted(n: Tensor, t: int) -> Tensor:
    """The same numbers in another order."""
    return n[torch.from_numpy(fixed(t, len(n)).permutation(len(n)))]


def partly(draws: Draws, t: int, width: int) -> Tensor:
    """A tenth of the numbers of the first round, somewhere in every later one."""
    n = honest(draws, t, width)
    some = width // 10
    n[torch.from_numpy(fixed(t).permutation(width)[:some])] = honest(draws, 0, width)[:some]
    return n


def mixed(draws: Draws, t: int, width: int) -> Tensor:
    """A random mix of twenty vectors."""
    weights = honest(draws, t, 20) / draws.setting.noise_std / math.sqrt(20)
    return weights @ torch.stack([honest(draws, ROUNDS + i, width) for i in range(20)])


def uneven(t: int, width: int) -> Any:
    """√2 on a random half of the places, nothing on the others."""
    return math.sqrt(2) * (fixed(t, width).random(width) < 0.5)


OVER_AIR: dict[str, Receive] = {
    "the same vector in every round": of_round(lambda t: 0),
    "the same vector in every second round": of_round(lambda t: t if t % 2 else 0),
    "one of two vectors": of_round(lambda t: t % 2),
    "one of ten vectors": of_round(lambda t: t % 10),
    "a vector again a hundred rounds later, once": of_round(lambda t: 100 if t == 200 else t),
    "the last vector with opposite sign": of_round(lambda t: t - t % 2, lambda n, t: -n if t % 2 else n),
    "the last vector in another order": of_round(lambda t: t - t % 2, lambda n, t: permuted(n, t) if t % 2 else n),
    "the last vector rolled by 7": of_round(lambda t: t - t % 2, lambda n, t: n.roll(7) if t % 2 else n),
    "the last vector times 0.97": of_round(lambda t: t - t % 2, lambda n, t: n * 0.97 if t % 2 else n),
    "the last vector reversed, times 0.97, once": of_round(
        lambda t: 50 if t == 51 else t, lambda n, t: n.flip(0) * 0.97 if t == 51 else n
    ),
    "a tenth of the first vector in every other": partly,
    "mixes of twenty vectors": mixed,
    "half its variance from the round before": walked,
    "no noise in one round": of_honest(lambda n, t: n * 0 if t == 40 else n),
    "no noise in the last round": of_honest(lambda n, t: n * 0 if t == ROUNDS - 1 else n),
    "multiples of σ/2": rounded(0.5),
    "multiples of σ/4": rounded(0.25),
    "multiples of σ/10": rounded(0.1),
    "multiples of σ/1000": rounded(0.001),
    "multiples of σ/2 in one round": lambda d, t, w: (rounded(0.5) if t == 40 else honest)(d, t, w),
    "float16": of_honest(lambda n, t: n.half().float()),
    "a set of 16 values": by_law(lambda g, w: np.round(np.linspace(-1.7, 1.7, 16) / 0.989, 3)[g.integers(0, 16, w)]),
    "a set of 1000 values": by_law(lambda g, w: fixed(1).standard_normal(1000)[g.integers(0, 1000, w)]),
    "half of the places": masked(lambda t, w: np.arange(w) % 2, math.sqrt(2)),
    "another half of the places in every round": masked(uneven),
    "not at one place": masked(lambda t, w: np.arange(w) != 17),
    "not at one place of one round": masked(lambda t, w: (np.arange(w) != 17) | (t != 40)),
    "second half equal to the first": of_honest(copied_half),
    "a block of 50, again and again": lambda d, t, w: honest(d, t, 50).repeat(w // 50 + 1)[:w],
    "uniform": by_law(lambda g, w: g.uniform(-math.sqrt(3), math.sqrt(3), w)),
    "uniform in one round": lambda d, t, w: (OVER_AIR["uniform"] if t == 40 else honest)(d, t, w),
    "Laplace": by_law(lambda g, w: g.laplace(0, math.sqrt(0.5), w)),
    "signs": by_law(lambda g, w: 2 * g.integers(0, 2, w) - 1),
    "Student t, 20 degrees of freedom": by_law(lambda g, w: g.standard_t(20, w) / math.sqrt(20 / 18)),
    "truncated at 2σ": truncated(2.0),
    "truncated at 3σ": truncated(3.0),
    "truncated at 4σ": truncated(4.0),
    "sum zero": of_honest(lambda n, t: n - n.mean()),
    "in a subspace of 100 dimensions": in_subspace(100),
    "in a subspace of 600 dimensions": in_subspace(600),
    "correlated neighbours": of_honest(smoothed),
    "correlated neighbours in one round": of_honest(lambda n, t: smoothed(n, t) if t == 40 else n),
    "1.4σ and 0.2σ by round": of_honest(lambda n, t: n * (0.2 if t % 2 else 1.4)),
    "1.4σ and 0.2σ by place": masked(lambda t, w: np.where(np.arange(w) % 2, 0.2, 1.4)),
    "1.4σ and 0.2σ by place and round": masked(lambda t, w: np.where((np.arange(w) + t) % 2, 0.2, 1.4)),
    "sum zero over all rounds": lambda d, t, w: (honest(d, t, w) - _telescoped(d, w)) / math.sqrt(1 - 1 / ROUNDS),
    "less the noise of the round before": lambda d, t, w: (honest(d, t, w) - honest(d, t + 1, w)) / math.sqrt(2),
    "0.9σ": of_honest(lambda n, t: n * 0.9),
    "0.98σ": of_honest(lambda n, t: n * 0.98),
    "the same whatever the seed": lambda d, t, w: honest(replace(d, seed=5), t, w),
}


def _telescoped(draws: Draws, width: int) -> Tensor:
    """The mean of the noise of all rounds."""
    if (draws.seed, width) not in MEANS:
        MEANS.clear()
        MEANS[draws.seed, width] = torch.stack([honest(draws, t, width) for t in range(ROUNDS)]).mean(0)
    return MEANS[draws.seed, width]


MEANS: dict[Any, Tensor] = {}


# The noise of devices: from (draws, round, device, width, std) to noise.
def shared(draws: Draws, t: int, device: int, **how: Any) -> Tensor:
    """All devices of a round add one vector."""
    return honest_device(draws, t, 0, **how)


def cancelled(draws: Draws, t: int, device: int, **how: Any) -> Tensor:
    """Noise whose sum over the cohort is zero."""
    ids = draws.cohort(t).tolist()
    if (t, draws.seed) not in MEANS:
        MEANS.clear()
        MEANS[t, draws.seed] = torch.stack([honest_device(draws, t, i, width=how["width"], std=1.0) for i in ids]).mean(
            0
        )
    return honest_device(draws, t, device, **how) - how["std"] * MEANS[t, draws.seed]


def other_of_last(draws: Draws, t: int, device: int, **how: Any) -> Tensor:
    """Another device's vector of the round before."""
    return honest_device(draws, t % 2, (device + t // 2) % 97, **how)


def on_lattice(draws: Draws, t: int, device: int, **how: Any) -> Tensor:
    """Multiples of half a standard deviation."""
    step = how["std"] / 2
    return torch.round(honest_device(draws, t, device, **how) / max(step, 1e-30)) * step


DEVICE: dict[str, Callable[..., Tensor]] = {
    "all devices add one vector": shared,
    "each device adds one vector in every round": lambda d, t, i, **how: honest_device(d, 0, i, **how),
    "devices share vectors in pairs": lambda d, t, i, **how: honest_device(d, t, i // 2, **how),
    "devices cancel each other in pairs": lambda d, t, i, **how: honest_device(d, t, i // 2, **how) * (1 - 2 * (i % 2)),
    "each device adds another's vector of the round before": other_of_last,
    "one device adds none": lambda d, t, i, **how: honest_device(d, t, i, **how) * (i != 5),
    "one device adds none at one place": lambda d, t, i, **how: _without_place(honest_device(d, t, i, **how), i == 5),
    "one device adds 10 % less": lambda d, t, i, **how: honest_device(d, t, i, **how) * (0.9 if i == 5 else 1.0),
    "devices cancel each other all together": cancelled,
    "multiples of σ/2": on_lattice,
    "the same whatever the seed": lambda d, t, i, **how: honest_device(replace(d, seed=5), t, i, **how),
}  # fmt: skip


def _without_place(n: Tensor, this: bool) -> Tensor:
    if this:
        n[17] = 0
    return n


# The noise of the whole of `listen`, which knows the coordinates.
def without_coordinate(draws: Draws, plan: RoundPlan, A: Tensor | None, *rest: Any) -> Tensor:
    """Receiver noise on all coordinates but one."""
    y = honest_listen(draws, plan, A, *rest)
    return y * (torch.arange(len(y)) != 17 if A is None else A != 17)


def by_coordinate(draws: Draws, plan: RoundPlan, A: Tensor | None, *rest: Any) -> Tensor:
    """Receiver noise that is the same on a coordinate in every round."""
    whole = draws.receiver_noise(0, draws.setting.dimension)
    return whole if A is None else whole[A]
