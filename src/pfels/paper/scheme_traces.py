"""A scheme's rounds all at once, from the channel statistics of a seed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pfels.arrays import Reals
from pfels.config.load import load_config
from pfels.config.tree import Config
from pfels.documents.paper import PointPrivacy
from pfels.experiment.link import Link, link_of
from pfels.paper.benchmarks import Benchmark
from pfels.paper.traces import ChannelTrace
from pfels.privacy.events import noise_multiplier_at
from pfels.privacy.figures import claimed_figure, exact_figure
from pfels.schemes.plan import RoundPlan
from pfels.schemes.registry import load_scheme
from pfels.schemes.setting import Setting


def configs(benchmark: Benchmark, seeds: Sequence[int], overrides: Mapping[str, Any]) -> list[Config]:
    """The benchmark's own settings, one config per seed, for PFELS: it uses every setting that the others use."""
    fixed = {"scheme": "pfels", "compression.ratio": benchmark.ratio, "privacy.epsilon": benchmark.epsilon}
    return [load_config(benchmark.preset, {**fixed, **overrides, "seed": seed}) for seed in seeds]


@dataclass(frozen=True)
class SeedTrace:
    """One seed of a benchmark: its config, its link, and the channel statistics of its rounds."""

    config: Config
    link: Link
    channel: ChannelTrace

    def at(self, *, scheme: str, ratio: float | None = None, epsilon: float | None = None) -> "SchemeTrace":
        """The same rounds for a scheme, with another p or ε."""
        own = self.link.setting
        return SchemeTrace(self, scheme, replace(own, ratio=ratio or own.ratio, epsilon=epsilon or own.epsilon))


def draw_traces(benchmark: Benchmark, seeds: Sequence[int], overrides: Mapping[str, Any]) -> list[SeedTrace]:
    """The rounds of every seed, drawn once for all points of a figure."""
    traces = []
    for config in configs(benchmark, seeds, overrides):
        link = link_of(config)
        traces.append(SeedTrace(config, link, ChannelTrace.of(link.draws, rounds=config.rounds)))
    return traces


@dataclass(frozen=True)
class SchemeTrace:
    """A scheme of the paper in a setting, all rounds at once: what its `prepare` would plan round by round."""

    seed: SeedTrace
    scheme: str
    setting: Setting

    @cached_property
    def first(self) -> RoundPlan:
        """The plan of the first round: it tells what share is sent, on how many subcarriers, and with which claim."""
        draws = replace(self.seed.link.draws, setting=self.setting)
        return load_scheme(self.scheme, self.setting).prepare(draws, 0)

    @property
    def share(self) -> float:
        """k/d, or 1 where everything is sent."""
        return self.first.require_air().share

    @property
    def limit(self) -> float:
        """The privacy limit on β, infinite where the scheme makes no claim."""
        return math.inf if self.first.claimed_epsilon is None else self.setting.privacy_limit

    @cached_property
    def betas(self) -> Reals:
        """β of every round."""
        return self.seed.channel.betas(bound=self.setting.bound, share=self.share, privacy_limit=self.limit)

    @property
    def privacy_limited_share(self) -> float:
        """The share of the rounds in which privacy sets β."""
        return float(np.mean(self.betas >= self.limit))

    @property
    def energies(self) -> Reals:
        """The expected energy of every round, with every update at its norm bound."""
        return self.seed.channel.energies(self.betas, bound=self.setting.bound, share=self.share)

    @cached_property
    def _all_noise_multipliers(self) -> Reals:
        s = self.setting
        return noise_multiplier_at(beta=self.betas, bound=s.bound, noise_std=s.noise_std)

    @property
    def noise_multipliers(self) -> Reals:
        """z of every round in which anyone takes part."""
        return self._all_noise_multipliers[self.seed.channel.inverse_gain_sums > 0]

    @property
    def privacy(self) -> PointPrivacy:
        """The paper's claim and the exact figure of the round with the least noise, and the worst device's figure
        against the server over all rounds."""
        s, z, claimed = self.setting, float(self.noise_multipliers.min()), None
        if self.first.claimed_epsilon is not None:
            claimed = claimed_figure(z, s.epsilon, delta=s.delta, devices=s.devices, cohort=s.cohort_size)
        exact = exact_figure(
            z, delta=s.delta, devices=s.devices, cohort=s.cohort_size, sampling=s.sampling,
            cohort_dependent=self.first.event.cohort_dependent,
        )  # fmt: skip
        server = self.seed.channel.server(self._all_noise_multipliers, devices=s.devices).worst(delta=s.delta)
        return {"claimed": claimed, "exact_per_round": exact, "server": server.as_dict()}
