"""Figures over several seeds that keep the value of each, so that claims can be judged seed by seed."""

from collections.abc import Sequence

from pfels.documents.paper import SeedSpread
from pfels.studies.aggregate import mean_and_std


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
