"""Nested rows as CSV."""

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from typing import Any

SENTENCES = (
    "why",
    "display",
    "reason",
    "distribution",
    "assumptions",
    "data_notes",
    "values",
    "by_seed",
)  # left to the JSON


def to_csv(rows: Sequence[Mapping[str, Any]], *, leaving_out: Collection[str] = SENTENCES) -> bytes:
    """The rows with nested values as `a.b` columns.

    >>> to_csv([{"a": {"b": 1, "why": "so"}}, {"c": 2}]).decode().split()
    ['a.b,c', '1,', ',2']
    """
    flat = [dict(_flat(row, leaving_out)) for row in rows]
    columns = list(dict.fromkeys(key for row in flat for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue().encode()


def _flat(row: Mapping[str, Any], leaving_out: Collection[str], prefix: str = "") -> list[tuple[str, Any]]:
    cells: list[tuple[str, Any]] = []
    for key, value in row.items():
        if key in leaving_out:
            continue
        cells += _flat(value, leaving_out, f"{prefix}{key}.") if isinstance(value, Mapping) else [(prefix + key, value)]
    return cells
