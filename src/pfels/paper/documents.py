"""The files of a reproduction: the document as JSON, its rows as CSV, and a figure as PNG and PDF."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pfels.runtime.csv_files import SENTENCES, to_csv
from pfels.runtime.files import number_beside, to_json, write_atomically

PER_SEED = ("train_losses", "privacy_limited_shares")  # left to the JSON
NOT_DRAWN = ("table", "matched")


def write(document: Mapping[str, Any], kind: str, stem: Path, *, asked: Mapping[str, Any] | None = None) -> list[str]:
    """Write the document under this stem and return the names of the files; figures are drawn as well. Files of a
    document that was `asked` for otherwise are kept: the new ones have a number in their names."""
    if asked is not None:
        stem = stem.with_name(f"{stem.name}{number_beside(stem.parent, [stem.name], asked)}")
        document = {**document, "asked": dict(asked)}
    suffixes = [".json", ".csv"]
    rows = document.get("points") or [{"scheme": name, **row} for name, row in document["schemes"].items()]
    write_atomically(stem.with_suffix(".csv"), to_csv(rows, leaving_out=(*SENTENCES, *PER_SEED)))
    if kind not in NOT_DRAWN:
        from pfels.paper.pictures import draw

        suffixes += [".png", ".pdf"]
        heading = [document["title"], document["command"]]
        draw(document["points"], kind, stem, heading=heading, preferred=document.get("preferred_ratio", {}))
    files = [str(stem.with_suffix(suffix)) for suffix in suffixes]
    write_atomically(stem.with_suffix(".json"), to_json({**document, "files": files}))
    return files
