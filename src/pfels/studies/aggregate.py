"""A figure over several seeds."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def spread(values: Sequence[float | None]) -> dict[str, float | None] | None:
    """Mean and sample standard deviation, which a single seed does not have; nothing where a run has no such figure."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return {"mean": statistics.fmean(known), "std": statistics.stdev(known) if len(known) > 1 else None}


def aggregate(summaries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One row from the summaries of runs that differ in their seed alone."""
    runs = list(summaries)
    return {
        "seeds": [run["seed"] for run in runs],
        "rounds": runs[0]["rounds"],
        "dimension": runs[0]["dimension"],
        "accuracy": spread([run["accuracy"] for run in runs]),
        "loss": spread([run["loss"] for run in runs]),
        "energy": spread([run["energy"] for run in runs]),
        "subcarriers": _common([run["subcarriers"] for run in runs]),
        "airtime_s": _common([run["airtime_s"] for run in runs]),
        "privacy": _worst([run["privacy"] for run in runs]),
    }


def _common(values: Sequence[float]) -> float:
    """The value of all runs, or their mean where a Poisson cohort makes them differ."""
    return values[0] if len(set(values)) == 1 else statistics.fmean(values)


def _worst(seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The worst of every figure by itself: the seed that costs most against the server may not be the one that costs
    most against an outsider."""
    worst = dict(seeds[0])
    for key in ("claimed", "exact_per_round", "server", "outsider"):
        figures = [privacy[key] for privacy in seeds if privacy.get(key) is not None]
        if figures:
            worst[key] = max(figures, key=_severity)
    least = [privacy["noise_multiplier_min"] for privacy in seeds if privacy.get("noise_multiplier_min") is not None]
    if least:
        worst["noise_multiplier_min"] = min(least)
    if worst.get("claimed") is not None:
        worst |= {f"claimed_{key}": worst["claimed"][key] for key in ("epsilon", "valid")}
    return worst


def _severity(figure: Mapping[str, Any]) -> float:
    return float("inf") if figure["epsilon"] is None else float(figure["epsilon"])
