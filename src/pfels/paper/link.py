"""The paper's tables and figures without training: all that the link determines, at the paper's N, r, d and T."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from pfels.documents.paper import BoundMeans, LinkCurvePoint, LinkPoint, PointPrivacy, SchemeFigures
from pfels.documents.privacy import RunPrivacy
from pfels.documents.studies import LinkPlan
from pfels.experiment.forecast import forecast
from pfels.experiment.link import Link, frame_of, link_of
from pfels.paper.benchmarks import RATIOS, SCHEMES, Benchmark
from pfels.paper.scheme_traces import SchemeTrace, SeedTrace, configs
from pfels.paper.seeds import over_seeds
from pfels.schemes.registry import load_scheme
from pfels.schemes.setting import Setting
from pfels.studies.aggregate import mean_and_std
from pfels.studies.plan import assumed_losses, course_of, scheme_plan
from pfels.studies.theory import BOUNDS, Bound, best_kept

T = TypeVar("T")
CURVE_POINTS = 50


def table(benchmark: Benchmark, seeds: Sequence[int], overrides: Mapping[str, Any]) -> dict[str, SchemeFigures]:
    """Energy, channel uses, airtime, β and privacy of every scheme, over the seeds, as the schemes plan rounds."""
    plans: dict[str, list[LinkPlan]] = {name: [] for name in SCHEMES}
    for config in configs(benchmark, seeds, overrides):
        link = link_of(config)
        links = {name: Link(load_scheme(name, link.setting), link.draws) for name in SCHEMES}
        found = forecast(links, rounds=config.rounds, frame=frame_of(config))
        for name in SCHEMES:
            plans[name].append(scheme_plan(found[name], links[name], config))
    return {name: _over_seeds(rows, link.setting) for name, rows in plans.items()}


def _over_seeds(rows: Sequence[LinkPlan], setting: Setting) -> SchemeFigures:
    return {
        "ratio": setting.ratio,
        "epsilon": setting.epsilon,
        "accuracy": None,
        "energy": over_seeds(_known([row["energy"] for row in rows])),
        "subcarriers": round(rows[0]["subcarriers"] / setting.dimension, 3),
        "subcarriers_total": rows[0]["subcarriers"],
        "airtime_s": rows[0]["airtime_s"],
        "beta": mean_and_std([beta["median"] for beta in _known([row["beta"] for row in rows])]),
        "privacy_limited_share": mean_and_std([row["limits"].get("privacy", 0.0) for row in rows]),
        "noise_multiplier_min": min(_known([row["noise_multiplier_min"] for row in rows])),
        "privacy": max((row["privacy"] for row in rows), key=_server_epsilon),
    }


def _known(values: Sequence[T | None]) -> list[T]:
    known = [value for value in values if value is not None]
    assert len(known) == len(values), "the paper's schemes all transmit over the air"
    return known


def _server_epsilon(privacy: RunPrivacy | PointPrivacy) -> float:
    epsilon = privacy["server"]["epsilon"]
    return math.inf if epsilon is None else epsilon


def _point(benchmark: Benchmark, epsilon: float, traces: Sequence[SchemeTrace]) -> LinkPoint:
    """One point of a figure, over the seeds."""
    first, rounds = traces[0], len(traces[0].betas)
    frame, width = frame_of(first.seed.config), first.first.subcarriers
    limited = [trace.privacy_limited_share for trace in traces]
    return {
        "benchmark": benchmark.title,
        "scheme": first.scheme,
        "epsilon": epsilon,
        "accuracy": None,
        "beta": statistics.fmean(float(np.median(trace.betas)) for trace in traces),
        "noise_multiplier_min": min(float(trace.noise_multipliers.min()) for trace in traces),
        "noise_multiplier_median": statistics.fmean(float(np.median(trace.noise_multipliers)) for trace in traces),
        "privacy_limited_share": statistics.fmean(limited),
        "privacy_limited_shares": limited,
        "energy": over_seeds([math.fsum(trace.energies) for trace in traces]),
        "subcarriers": round(rounds * width / first.setting.dimension, 3),
        "airtime_s": rounds * frame.slots(width) * frame.slot_s,
        "privacy": max((trace.privacy for trace in traces), key=_server_epsilon),
    }


def compression(benchmark: Benchmark, seeds: Sequence[SeedTrace]) -> Iterator[LinkPoint]:
    """PFELS at every p, with the terms of its convergence bounds."""
    epsilon = benchmark.compression_epsilon
    for ratio in RATIOS:
        traces = [seed.at(scheme="pfels", ratio=ratio, epsilon=epsilon) for seed in seeds]
        bounds = {}
        for name, bound in BOUNDS.items():
            terms = []
            for trace in traces:
                config, weakest = trace.seed.config, trace.seed.channel.weakest_amplitudes
                course = course_of(config, trace.setting, weakest)
                terms.append(bound(assumed_losses(config), course, kept=trace.setting.kept))
            bounds[name] = _means(terms)
        point = _point(benchmark, epsilon, traces)
        yield {"benchmark": benchmark.title, "scheme": "pfels", "ratio": ratio, **point, "bounds": bounds}


def _means(terms: Sequence[Bound]) -> BoundMeans:
    return {
        "optimisation": statistics.fmean(term.optimisation for term in terms),
        "compression": statistics.fmean(term.compression for term in terms),
        "privacy": statistics.fmean(term.privacy for term in terms),
        "total": statistics.fmean(term.total for term in terms),
    }


def preferred_ratio(benchmark: Benchmark, seeds: Sequence[SeedTrace]) -> float:
    """The p that minimises the convergence bound at the ε of fig-compression, averaged over the seeds."""
    ratios = []
    for seed in seeds:
        setting = replace(seed.link.setting, epsilon=benchmark.compression_epsilon)
        course = course_of(seed.config, setting, seed.channel.weakest_amplitudes)
        ratios.append(best_kept(BOUNDS["corrected"], assumed_losses(seed.config), course) / setting.dimension)
    return statistics.fmean(ratios)


def privacy(benchmark: Benchmark, seeds: Sequence[SeedTrace]) -> Iterator[LinkPoint]:
    """Every scheme at every ε of fig-privacy."""
    for scheme in SCHEMES:
        for epsilon in benchmark.epsilons:
            yield _point(benchmark, epsilon, [seed.at(scheme=scheme, epsilon=epsilon) for seed in seeds])


def curves(benchmark: Benchmark, seeds: Sequence[SeedTrace]) -> Iterator[LinkCurvePoint]:
    """Channel uses and energy up to round t, at about CURVE_POINTS rounds of every scheme."""
    rounds = seeds[0].config.rounds
    marks = np.unique(np.linspace(1, rounds, min(CURVE_POINTS, rounds)).round().astype(int))
    for scheme in SCHEMES:
        traces = [seed.at(scheme=scheme) for seed in seeds]
        width, dimension = traces[0].first.subcarriers, traces[0].setting.dimension
        spent = np.stack([np.cumsum(trace.energies) for trace in traces])
        for t in marks.tolist():
            yield {
                "benchmark": benchmark.title,
                "scheme": scheme,
                "round": t,
                "subcarriers": round(t * width / dimension, 3),
                "energy": over_seeds(spent[:, t - 1].tolist()),
                "train_loss": None,
                "accuracy": None,
            }
