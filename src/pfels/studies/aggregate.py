"""Runs of several seeds as one row: means, their standard errors, and the worst privacy figure of each kind."""

import math
import statistics
from collections.abc import Iterable, Sequence

from pfels.documents.paper import SeedSpread
from pfels.documents.privacy import Assumption, Figure, RunPrivacy
from pfels.documents.run import Summary
from pfels.documents.studies import AggregateRow, Spread


def mean_and_std(values: Sequence[float]) -> Spread:
    """Mean, sample standard deviation, and the standard error of the mean, which a single seed does not have.

    >>> found = mean_and_std([1.0, 2.0, 3.0, 2.0])
    >>> found["standard_error"] == found["std"] / 2
    True
    """
    std = statistics.stdev(values) if len(values) > 1 else None
    error = None if std is None else std / math.sqrt(len(values))
    return {"mean": statistics.fmean(values), "std": std, "standard_error": error}


def spread(values: Sequence[float | None]) -> Spread | None:
    """The same, or None where a run has no such figure."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return mean_and_std(known)


def over_seeds(values: Sequence[float]) -> SeedSpread:
    """Mean, standard deviation, standard error, and the values themselves.

    >>> over_seeds([1.0, 2.0, 3.0])
    {'mean': 2.0, 'std': 1.0, 'standard_error': 0.577..., 'values': [1.0, 2.0, 3.0]}
    """
    return {**mean_and_std(values), "values": list(values)}


def known_over_seeds(values: Sequence[float | None]) -> SeedSpread | None:
    """The same, or None where a seed has no such figure: its run diverged."""
    known = [value for value in values if value is not None]
    return over_seeds(known) if len(known) == len(values) else None


def aggregate(summaries: Iterable[Summary]) -> AggregateRow:
    """One row from the summaries of runs that differ in their seed alone."""
    runs = list(summaries)
    return {
        "seeds": [run["seed"] for run in runs],
        "by_seed": {
            "accuracy": [run["accuracy"] for run in runs],
            "loss": [run["loss"] for run in runs],
            "energy": [run["energy"] for run in runs],
        },
        "rounds": runs[0]["rounds"],
        "dimension": runs[0]["dimension"],
        "accuracy": mean_and_std([run["accuracy"] for run in runs]),
        "loss": spread([run["loss"] for run in runs]),
        "energy": spread([run["energy"] for run in runs]),
        "subcarriers": _common([run["subcarriers"] for run in runs]),
        "airtime_s": _common([run["airtime_s"] for run in runs]),
        "privacy": _worst([run["privacy"] for run in runs]),
    }


def _common(values: Sequence[float]) -> float:
    """The value of all runs, or their mean where a Poisson cohort makes them differ."""
    return values[0] if len(set(values)) == 1 else statistics.fmean(values)


def _worst(seeds: Sequence[RunPrivacy]) -> RunPrivacy:
    """The worst of every figure by itself: the seed that costs most against the server may not be the one that costs
    most against an outsider."""
    worst: RunPrivacy = {**seeds[0]}
    claims = [privacy["claimed"] for privacy in seeds if privacy["claimed"] is not None]
    exact = [privacy["exact_per_round"] for privacy in seeds if privacy["exact_per_round"] is not None]
    noise = [z for privacy in seeds if (z := privacy["noise_multiplier_min"]) is not None]
    worst["server"] = max((privacy["server"] for privacy in seeds), key=_severity)
    worst["outsider"] = max((privacy["outsider"] for privacy in seeds), key=_severity)
    if claims:
        claim = max(claims, key=_severity)
        worst |= {"claimed": claim, "claimed_epsilon": claim["epsilon"], "claimed_valid": claim["valid"]}
    if exact:
        worst["exact_per_round"] = max(exact, key=_severity)
    if not all(privacy.get("audited", True) for privacy in seeds):
        worst["audited"] = False
    if noise:
        worst["noise_multiplier_min"] = min(noise)
    return worst | _worst_assumptions(seeds)


def _worst_assumptions(seeds: Sequence[RunPrivacy]) -> RunPrivacy:
    """The worst of each price over the seeds; nothing where a run has no prices."""
    worst: RunPrivacy = {}  # type: ignore[typeddict-item]
    if all("blind_server" in privacy for privacy in seeds):
        worst["blind_server"] = max((privacy["blind_server"] for privacy in seeds), key=_severity)
    prices = [privacy["assumptions"] for privacy in seeds if "assumptions" in privacy]
    if len(prices) == len(seeds):
        named = [{each["name"]: each for each in some} for some in prices]
        shared = [name for name in named[0] if all(name in some for some in named)]  # runs may be of different versions
        worst["assumptions"] = [max((some[name] for some in named), key=_severity) for name in shared]
    antennas = [privacy["server_by_antennas"] for privacy in seeds if "server_by_antennas" in privacy]
    if len(antennas) == len(seeds):
        worst["server_by_antennas"] = {m: max((each[m] for each in antennas), key=_size) for m in antennas[0]}
    return worst


def _severity(figure: Figure | Assumption) -> float:
    return _size(figure["epsilon"])


def _size(epsilon: float | None) -> float:
    return float("inf") if epsilon is None else float(epsilon)
