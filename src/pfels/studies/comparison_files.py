"""A comparison as files: all of it as JSON, and its rows as CSV."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pfels.documents.studies import Comparison
from pfels.runtime.csv_files import to_csv
from pfels.runtime.files import number_beside, to_json, write_atomically


def write(table: Comparison, folder: Path, *, asked: Mapping[str, Any]) -> Path:
    """Write comparison.json and comparison.csv into the folder; the path of the CSV. Where these are of a comparison
    that was asked for otherwise, they are kept, and the new ones have a number in their names."""
    stem = f"comparison{number_beside(folder, ['comparison'], asked)}"
    write_atomically(folder / f"{stem}.json", to_json({**table, "asked": dict(asked)}))
    path = folder / f"{stem}.csv"
    write_atomically(path, to_csv([{"scheme": name, **row} for name, row in table["schemes"].items()]))
    return path
