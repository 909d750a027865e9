"""Noise of PFELS over that of WFL-PDP at equal mean progress, from the formulas of the link alone.

PFELS does not divide its estimate by p, so a round moves the model by p times what it would without compression, on
average. At the learning rate η/p it makes the same mean progress as WFL-PDP at η, and its norm bound is ητC₁/p. In a
round where power limits both, their noise has the same power. Where privacy limits both, PFELS has 1/p times as much,
because the sensitivity in the paper's claim (Lemma 2) is that of the whole update and does not shrink with p.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pfels.arrays import Reals
from pfels.documents.paper import MatchedPoint
from pfels.paper.benchmarks import Benchmark
from pfels.paper.scheme_traces import SchemeTrace, SeedTrace
from pfels.paper.seeds import over_seeds


def matched(benchmark: Benchmark, seeds: Sequence[SeedTrace]) -> Iterator[MatchedPoint]:
    """The ratio of the two noise powers, each summed over the rounds, at every ε of fig-privacy."""
    for epsilon in benchmark.epsilons:
        dense = [seed.at(scheme="wfl-pdp", epsilon=epsilon) for seed in seeds]
        sparse = [as_far(trace) for trace in dense]
        ratios = [
            float(noise_powers(one).sum() / noise_powers(other).sum())
            for one, other in zip(sparse, dense, strict=True)
        ]  # fmt: skip
        yield {
            "benchmark": benchmark.title,
            "ratio": dense[0].setting.ratio,
            "epsilon": epsilon,
            "noise_power_ratio": over_seeds(ratios),
            "pfels_privacy_limited_share": _limited(sparse),
            "wfl_pdp_privacy_limited_share": _limited(dense),
        }


def as_far(wfl_pdp: SchemeTrace) -> SchemeTrace:
    """The same rounds of PFELS at the learning rate η/p: its mean progress is that of WFL-PDP at η."""
    setting = wfl_pdp.setting
    return SchemeTrace(wfl_pdp.seed, "pfels", replace(setting, bound=setting.bound / setting.share))


def noise_powers(trace: SchemeTrace) -> Reals:
    """E‖noise‖² in the estimate of every round: k·(σ₀/(rβ))², with k = d where everything is sent."""
    s = trace.setting
    powers: Reals = trace.share * s.dimension * (s.noise_std / (s.cohort_size * trace.betas)) ** 2
    return powers


def _limited(traces: Sequence[SchemeTrace]) -> float:
    """The share of the rounds in which privacy sets β, mean over the seeds."""
    return statistics.fmean(trace.privacy_limited_share for trace in traces)
