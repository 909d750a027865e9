"""The paper's tables and figures as far as the link decides them, at its full N, r, d and T, with nobody training."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pfels.arrays import Reals
from pfels.config.load import load_config
from pfels.config.tree import Config
from pfels.experiment import link
from pfels.experiment.forecast import foresee
from pfels.experiment.link import link_system
from pfels.paper.benchmarks import RATIOS, SCHEMES, Benchmark
from pfels.paper.fading import Fading
from pfels.privacy.figures import claimed_figure, exact_figure
from pfels.schemes.system import System
from pfels.studies.aggregate import spread
from pfels.studies.plan import assumed_losses, budget, course_of
from pfels.studies.theory import BOUNDS, best_kept
from pfels.uplink.channel import slots

CURVE_POINTS = 50


def configs(benchmark: Benchmark, seeds: Sequence[int], overrides: Mapping[str, Any]) -> list[Config]:
    """The benchmark's own settings, once a seed."""
    fixed = {"compression.ratio": benchmark.ratio, "privacy.epsilon": benchmark.epsilon}
    return [load_config(benchmark.preset, {**fixed, **overrides, "seed": seed}) for seed in seeds]


def table(benchmark: Benchmark, seeds: Sequence[int], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Energy, subcarriers, airtime, β and privacy of every scheme, over the seeds, from the schemes' own rounds."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMES}
    for config in configs(benchmark, seeds, overrides):
        system = link_system(config, dimension=link.dimension(config))
        systems = dict.fromkeys(SCHEMES, system)
        outlooks = foresee(systems, rounds=config.rounds, subcarriers=config.channel.subcarriers)
        for name, outlook in outlooks.items():
            rows[name].append(budget(outlook, system, config))
    return {name: _over_seeds(found, system) for name, found in rows.items()}


def _over_seeds(rows: Sequence[Mapping[str, Any]], system: System) -> dict[str, Any]:
    return {
        "ratio": system.ratio,
        "epsilon": system.epsilon,
        "accuracy": None,
        "energy": spread([row["energy"] for row in rows]),
        "subcarriers": round(rows[0]["subcarriers"] / system.dimension, 3),
        "subcarriers_total": rows[0]["subcarriers"],
        "airtime_s": rows[0]["airtime_s"],
        "beta": spread([row["beta"]["median"] for row in rows]),
        "privacy_limited_share": spread([row["limits"].get("privacy", 0.0) for row in rows]),
        "noise_multiplier_min": min(row["noise_multiplier_min"] for row in rows),
        "privacy": max((row["privacy"] for row in rows), key=lambda figures: figures["server"]["epsilon"]),
    }


@dataclass(frozen=True)
class Dealt:
    """One seed of a benchmark: its config, its system, and what the channel deals it."""

    config: Config
    system: System
    fading: Fading

    def at(self, *, scheme: str, ratio: float | None = None, epsilon: float | None = None) -> "Air":
        """What power control makes of it for a scheme, with another p or ε."""
        own = self.system
        return Air(self, replace(own, ratio=ratio or own.ratio, epsilon=epsilon or own.epsilon), scheme)


def deal(benchmark: Benchmark, seeds: Sequence[int], overrides: Mapping[str, Any]) -> list[Dealt]:
    """The rounds of every seed, drawn once for all the settings of a figure."""
    dealt = []
    for config in configs(benchmark, seeds, overrides):
        system = link_system(config, dimension=link.dimension(config))
        dealt.append(Dealt(config, system, Fading.of(system, rounds=config.rounds)))
    return dealt


@dataclass(frozen=True)
class Air:
    """A scheme of the paper on a system, all rounds at once: what its `prepare` would settle round by round."""

    dealt: Dealt
    system: System
    scheme: str

    @property
    def share(self) -> float:
        """k/d, or 1 where everything is sent."""
        return self.system.kept / self.system.dimension if self.scheme == "pfels" else 1.0

    @property
    def limit(self) -> float:
        """The privacy limit on β, or none."""
        return math.inf if self.scheme == "wfl-p" else self.system.privacy_limit

    @cached_property
    def betas(self) -> Reals:
        """β of every round."""
        return self.dealt.fading.levels(bound=self.system.bound, share=self.share, privacy_limit=self.limit)

    @property
    def energies(self) -> Reals:
        """The expected energy of every round, with every update at its norm bound."""
        return self.dealt.fading.energies(self.betas, bound=self.system.bound, share=self.share)

    @property
    def _all_multipliers(self) -> Reals:
        return self.system.noise_std / (self.betas * self.system.bound)

    @property
    def noise_multipliers(self) -> Reals:
        """z of every round in which anyone takes part."""
        return self._all_multipliers[self.dealt.fading.cost > 0]

    @property
    def width(self) -> int:
        """The subcarriers of a round."""
        return self.system.kept if self.scheme == "pfels" else self.system.dimension

    @property
    def privacy(self) -> dict[str, Any]:
        """The paper's claim and the exact figure of the least noisy round, and the worst device's against the server
        over all rounds."""
        system, z = self.system, float(self.noise_multipliers.min())
        claimed = None
        if self.scheme != "wfl-p":
            claimed = claimed_figure(
                z, system.epsilon, delta=system.delta, devices=system.devices, cohort=system.cohort_size
            )
        server = self.dealt.fading.server(self._all_multipliers, devices=system.devices).worst(delta=system.delta)
        exact = exact_figure(
            z, delta=system.delta, devices=system.devices, cohort=system.cohort_size,
            sampling=system.sampling, cohort_dependent=True,
        )  # fmt: skip
        return {"claimed": claimed, "exact_per_round": exact, "server": server.as_dict()}


def _summary(airs: Sequence[Air]) -> dict[str, Any]:
    """One point of a figure, over the seeds."""
    first, rounds = airs[0], len(airs[0].betas)
    channel = first.dealt.config.channel
    worst = max((air.privacy for air in airs), key=lambda figures: figures["server"]["epsilon"])
    return {
        "accuracy": None,
        "beta": statistics.fmean(float(np.median(air.betas)) for air in airs),
        "noise_multiplier_min": min(float(air.noise_multipliers.min()) for air in airs),
        "noise_multiplier_median": statistics.fmean(float(np.median(air.noise_multipliers)) for air in airs),
        "privacy_limited_share": statistics.fmean(float(np.mean(air.betas >= air.limit)) for air in airs),
        "energy": spread([math.fsum(air.energies) for air in airs]),
        "subcarriers": round(rounds * first.width / first.system.dimension, 3),
        "airtime_s": rounds * slots(first.width, subcarriers=channel.subcarriers) * channel.slot_ms / 1000,
        "privacy": worst,
    }


def compression(benchmark: Benchmark, dealt: Sequence[Dealt]) -> Iterator[dict[str, Any]]:
    """PFELS at every p, with the errors that the convergence bounds expect of it."""
    epsilon = benchmark.compression_epsilon
    for ratio in RATIOS:
        airs = [each.at(scheme="pfels", ratio=ratio, epsilon=epsilon) for each in dealt]
        terms: dict[str, Any] = {}
        for name, bound in BOUNDS.items():
            found = [
                bound(
                    assumed_losses(air.dealt.config),
                    course_of(air.dealt.config, air.system, air.dealt.fading.reach),
                    kept=air.system.kept,
                )
                for air in airs
            ]
            parts = ("optimisation", "compression", "privacy", "total")
            terms[name] = {part: statistics.fmean(getattr(each, part) for each in found) for part in parts}
        point = {"benchmark": benchmark.title, "scheme": "pfels", "ratio": ratio, "epsilon": epsilon}
        yield {**point, **_summary(airs), "bounds": terms}


def preferred_ratio(benchmark: Benchmark, dealt: Sequence[Dealt]) -> float:
    """The p that the convergence bound prefers at the ε of fig-compression, over the seeds; both bounds agree on it."""
    systems = [replace(each.system, epsilon=benchmark.compression_epsilon) for each in dealt]
    return statistics.fmean(
        best_kept(BOUNDS["corrected"], assumed_losses(each.config), course_of(each.config, system, each.fading.reach))
        / system.dimension
        for each, system in zip(dealt, systems, strict=True)
    )


def privacy(benchmark: Benchmark, dealt: Sequence[Dealt]) -> Iterator[dict[str, Any]]:
    """Every scheme at every ε of accuracy against ε."""
    for scheme in SCHEMES:
        for epsilon in benchmark.epsilons:
            airs = [each.at(scheme=scheme, epsilon=epsilon) for each in dealt]
            yield {"benchmark": benchmark.title, "scheme": scheme, "epsilon": epsilon, **_summary(airs)}


def curves(benchmark: Benchmark, dealt: Sequence[Dealt]) -> Iterator[dict[str, Any]]:
    """Subcarriers and energy used up by round t, at about CURVE_POINTS rounds of every scheme."""
    rounds = dealt[0].config.rounds
    marks = np.unique(np.linspace(1, rounds, min(CURVE_POINTS, rounds)).round().astype(int))
    for scheme in SCHEMES:
        airs = [each.at(scheme=scheme) for each in dealt]
        spent = np.stack([np.cumsum(air.energies) for air in airs])
        for t in marks.tolist():
            yield {
                "benchmark": benchmark.title,
                "scheme": scheme,
                "round": t,
                "subcarriers": round(t * airs[0].width / airs[0].system.dimension, 3),
                "energy": spread(spent[:, t - 1].tolist()),
                "train_loss": None,
                "accuracy": None,
            }
