"""The files of a reproduction: the document as JSON, its rows as CSV, and a figure as PNG and PDF."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfels.runtime.files import to_json, write_atomically

SENTENCES = ("why", "display", "reason", "distribution")  # left to the JSON
PER_SEED = ("values", "train_losses", "privacy_limited_shares")  # also
NOT_DRAWN = ("table", "matched")


def write(document: Mapping[str, Any], kind: str, stem: Path) -> list[str]:
    """Write the document under this stem and return the names of the files; figures are drawn as well."""
    suffixes = [".json", ".csv"]
    rows = document.get("points") or [{"scheme": name, **row} for name, row in document["schemes"].items()]
    write_atomically(stem.with_suffix(".csv"), _csv(rows))
    if kind not in NOT_DRAWN:
        from pfels.paper.pictures import draw

        suffixes += [".png", ".pdf"]
        heading = [document["title"], document["command"]]
        draw(document["points"], kind, stem, heading=heading, preferred=document.get("preferred_ratio", {}))
    files = [str(stem.with_suffix(suffix)) for suffix in suffixes]
    write_atomically(stem.with_suffix(".json"), to_json({**document, "files": files}))
    return files


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    flat = [dict(_flat(row)) for row in rows]
    columns = list(dict.fromkeys(key for row in flat for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue().encode()


def _flat(row: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested values as `a.b` columns."""
    cells: list[tuple[str, Any]] = []
    for key, value in row.items():
        if key in SENTENCES or key in PER_SEED:
            continue
        cells += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(prefix + key, value)]
    return cells
