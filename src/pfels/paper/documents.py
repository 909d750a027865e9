"""The files of a reproduction: the document as JSON, its rows as CSV, and a figure as PNG and PDF."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pfels.runtime.csv_files import SENTENCES, to_csv
from pfels.runtime.files import number_beside, to_json, write_atomically

PER_SEED = ("train_losses", "privacy_limited_shares")  # left to the JSON
NOT_DRAWN = ("table", "matched")


def write(document: Mapping[str, Any], kind: str, folder: Path, name: str, *, asked: Mapping[str, Any]) -> list[str]:
    """Write the document into the folder and return the names of the files; figures are drawn as well. Files of a
    document that was asked for otherwise are kept: the new ones have a number in their names."""
    stem = folder / f"{name}{number_beside(folder, [name], asked)}"
    suffixes = [".json", ".csv"]
    rows = document.get("points") or [{"scheme": name, **row} for name, row in document["schemes"].items()]
    write_atomically(stem.with_suffix(".csv"), to_csv(rows, leaving_out=(*SENTENCES, *PER_SEED)))
    if kind not in NOT_DRAWN:
        from pfels.paper.pictures import draw

        suffixes += [".png", ".pdf"]
        heading = [document["title"], document["command"]]
        draw(document["points"], kind, stem, heading=heading, preferred=document.get("preferred_ratio", {}))
    files = [str(stem.with_suffix(suffix)) for suffix in suffixes]
    write_atomically(stem.with_suffix(".json"), to_json({**document, "files": files, "asked": dict(asked)}))
    return files
