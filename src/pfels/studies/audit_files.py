"""The files of an audit: its document, and every canary's scores."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pfels.runtime.csv_files import to_csv
from pfels.runtime.files import number_beside, to_json, write_atomically
from pfels.studies.audit import Audited


def write(found: Audited, folder: Path, *, asked: Mapping[str, Any]) -> list[Path]:
    """Write audit.json and scores.csv into a folder. Where these are of an audit that was asked for otherwise, they are
    kept, and the new ones have a number in their names."""
    number = number_beside(folder, ["audit", "scores"], asked)
    document, scores = folder / f"audit{number}.json", folder / f"scores{number}.csv"
    write_atomically(document, to_json({**found.document, "asked": dict(asked)}))
    rows = [
        {"view": name, "seed": seed, "included": int(coin), "booked_mu": mu, "score": value}
        for name, parts in (("server", found.evidence.server), ("models", found.evidence.models))
        for seed, part in zip(found.evidence.seeds, parts, strict=False)
        for value, coin, mu in zip(part.values.tolist(), part.included.tolist(), part.expected.tolist(), strict=True)
    ]
    if not rows:
        return [document]
    write_atomically(scores, to_csv(rows))
    return [document, scores]
