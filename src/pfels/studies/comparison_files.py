"""A comparison as files: all of it as JSON, and its rows as CSV."""

from pathlib import Path

from pfels.documents.studies import Comparison
from pfels.runtime.csv_files import to_csv
from pfels.runtime.files import to_json, write_atomically


def write(table: Comparison, folder: Path) -> Path:
    """Write comparison.json and comparison.csv into the folder; the path of the CSV."""
    write_atomically(folder / "comparison.json", to_json(table))
    path = folder / "comparison.csv"
    rows = [{"scheme": name, **row} for name, row in table["schemes"].items()]
    write_atomically(path, to_csv(rows))
    return path
