"""Documents as pandas DataFrames, where pandas is installed."""

from collections.abc import Iterable, Mapping
from typing import Any

from pfels.errors import InputError


def frame_of(rows: Iterable[Mapping[str, Any]], *, index: str | list[str]) -> Any:
    """One row per document; nested fields become `privacy.server.epsilon`."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame: pandas is not installed; pip install pfels[pandas]") from None
    return pandas.json_normalize([dict(row) for row in rows]).set_index(index)
