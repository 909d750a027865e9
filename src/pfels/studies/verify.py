"""Published figures, recomputed here and compared."""

import math
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from pfels.documents.verify import Published, PublishedRun, Tolerance, Verification, VerifiedFigure, VerifiedRun
from pfels.privacy.events import Adversary, Neighbours
from pfels.studies.published import arithmetic, figure, flat_config, published, run_figures


def verify() -> Verification:
    """Recompute the published figures: privacy, energies, and a short run of every scheme.

    `ok` says whether all are as published, `differs` names those that are not. Runs are held to the published bits
    where this machine rounds as the one that made them, and to a tolerance in any case.

    >>> verify()["differs"]
    []
    """
    known, same = published(), published()["runs"]["arithmetic"] == arithmetic()
    figures = [_figure(known, index) for index in range(len(known["figures"]))]
    with tempfile.TemporaryDirectory(prefix="pfels-verify-") as home:
        runs = {name: _run(known, name, Path(home) / name, same) for name in known["runs"]["schemes"]}
    differs = [each["name"] for each in figures if not each["ok"]]
    for name, found in runs.items():
        differs += [each["name"] for each in found["figures"] if not each["ok"]]
        differs += [f"{name}: bits"] if found["same_bits"] is False else []
    return {
        "version": version("pfels"),
        "ok": not differs,
        "same_arithmetic": same,
        "figures": figures,
        "runs": runs,
        "differs": differs,
    }


def _figure(known: Published, index: int) -> VerifiedFigure:
    each = known["figures"][index]
    kind = known["kinds"][each["kind"]]
    found = figure(each["kind"], each["inputs"])
    compared = _compared(each["name"], each["value"], found, known["tolerances"][kind["tolerance"]])
    compared["inputs"] = each["inputs"]
    if "adversary" in kind and "neighbours" in kind:
        compared["adversary"], compared["neighbours"] = kind["adversary"], kind["neighbours"]
    return compared


def _run(known: Published, name: str, folder: Path, same_arithmetic: bool) -> VerifiedRun:
    runs: Mapping[str, PublishedRun] = known["runs"]["schemes"]
    config = flat_config({**known["runs"]["config"], **runs[name]["settings"]})
    found, hashes = run_figures(config, folder)
    figures = compared_run(known, name, runs[name]["figures"], found)
    return {"same_bits": hashes == runs[name]["sha256"] if same_arithmetic else None, "figures": figures}


def compared_run(
    known: Published, name: str, figures: Mapping[str, float | None], found: Mapping[str, float | None]
) -> list[VerifiedFigure]:
    """The figures of a run beside those found, with the tolerances of the published runs."""
    tolerances = {key: known["tolerances"][by] for key, by in known["runs"]["tolerances"].items()}
    rows = [_compared(f"{name}: {key}", value, found[key], tolerances[key]) for key, value in figures.items()]
    for row in rows:
        if row["name"].endswith("server ε"):
            row["adversary"], row["neighbours"] = Adversary.SERVER.value, Neighbours.DEVICE_EMPTIED.value
    return rows


def _compared(name: str, value: float | None, found: float | None, tolerance: Tolerance) -> VerifiedFigure:
    allowed = tolerance["absolute"] + tolerance["relative"] * abs(value or 0.0)
    ok = found is value if found is None or value is None else abs(found - value) <= allowed
    shown = None if found is None or math.isnan(found) else found
    return {"name": name, "published": value, "found": shown, "tolerance": allowed, "ok": ok}
