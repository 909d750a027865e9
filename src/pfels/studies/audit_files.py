"""The files of an audit: its document, and every canary's scores."""

from pathlib import Path

from pfels.runtime.csv_files import to_csv
from pfels.runtime.files import to_json, write_atomically
from pfels.studies.audit import Audited


def write(found: Audited, folder: Path) -> list[Path]:
    """Write audit.json and scores.csv into a folder."""
    document, scores = folder / "audit.json", folder / "scores.csv"
    write_atomically(document, to_json(found.document))
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
