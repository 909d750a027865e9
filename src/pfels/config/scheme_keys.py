"""Settings that not every scheme knows."""

from collections.abc import Mapping
from typing import Any

from pfels.config.load import leaves
from pfels.errors import InputError
from pfels.schemes.registry import POISSON_ONLY

BUDGET_KEYS = frozenset({"privacy.total_epsilon", "privacy.adversary"})
PLUS_KEYS = BUDGET_KEYS | {"channel.silent_below", "compression.kind", "compression.error_feedback"}  # pfels-plus' own


def require_known(overrides: Mapping[str, Any], scheme: str) -> None:
    """An InputError where somebody asks of a scheme what it would not do; what a file says may be for another one."""
    for key, value in leaves(overrides.items()):
        if key in BUDGET_KEYS and scheme != "pfels-plus":
            raise InputError(f"{key}: only pfels-plus keeps to it; for others, compare and plan have --total-epsilon")
        if key == "cohort.sampling" and scheme in POISSON_ONLY and value != "poisson":
            raise InputError(f"cohort.sampling: {scheme} always draws Poisson cohorts; leave it out")


def for_scheme(overrides: Mapping[str, Any], scheme: str) -> dict[str, Any]:
    """Of settings that are meant for several schemes side by side, those that this one knows."""
    foreign = {"cohort.sampling"} if scheme in POISSON_ONLY else PLUS_KEYS
    return {key: value for key, value in leaves(overrides.items()) if key not in foreign}
