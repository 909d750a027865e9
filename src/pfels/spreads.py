"""A figure over several seeds."""

import statistics
from collections.abc import Sequence


def spread(values: Sequence[float | None]) -> dict[str, float | None] | None:
    """Mean and sample standard deviation, which a single seed does not have; nothing where a run has no such figure."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return {"mean": statistics.fmean(known), "std": statistics.stdev(known) if len(known) > 1 else None}
