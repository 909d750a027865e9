"""`pfels audit`: a privacy claim held against an attack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pfels.cli.options import Json, Preset, Set, overrides, place, stem
from pfels.cli.progress import progress
from pfels.experiment.standing import Standing
from pfels.report import audit as words
from pfels.report.terminal import print_json, print_notes, print_table, say

if TYPE_CHECKING:
    from pfels.documents.run import RoundRecord
    from pfels.studies.audit import Audited

CanaryCount = Annotated[
    int | None,
    typer.Option(
        "--canaries", metavar="N", help="Canary devices; by default ten per device, 1000 at most.", show_default=False
    ),
]
Runs = Annotated[int, typer.Option("--runs", metavar="N", help="Trainings, whose canaries are pooled; one by default.")]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Where audit.json, scores.csv and audit.png go.")
]


def command(
    preset: Preset = "demo",
    settings: Set = None,
    canaries: CanaryCount = None,
    runs: Runs = 1,
    out: Out = None,
    json: Json = False,
) -> None:
    """Hold a scheme's privacy claim against an attack: rejected (exit code 1) or not rejected.

    Canary devices take part in a training beside the config's own. Each sends as much as it can or nothing, by a fair
    coin. Who sees what the server receives, or the released models alone, tells the coins apart: how well, and whether
    better than the claim allows, is the result. docs/audit.md says how, and what it cannot see.

    Examples:

        pfels audit demo -s scheme=pfels-plus --canaries 1000

        pfels audit fashion -s scheme=pfels-echo

        pfels audit demo -s scheme=dp-fedavg --canaries 100 --runs 10
    """
    from pfels.config.load import load_config

    changed = overrides(settings)
    config = load_config(preset, changed)

    from pfels.runtime.files import writable_folder  # not before the input is known to be right
    from pfels.studies.audit import audit_configs, audited
    from pfels.studies.audit_files import write

    trainings = audit_configs(config, canaries=canaries, runs=runs)
    folder = out or Path("runs") / "audit" / place(preset, changed).name
    writable_folder(folder)
    done = 0
    with progress() as display, display.runs(["audit"], [config.rounds * len(trainings)], []) as report:

        def watch(record: RoundRecord) -> None:
            nonlocal done
            done += 1
            report(0, Standing(done))

        found = audited(config, canaries=canaries, runs=runs, watch=watch)
    asked = {"preset": preset, "settings": changed, "canaries": canaries, "runs": runs}
    files = write(found, folder, asked=asked)
    written = [*files, *_draw(found, files[0].with_suffix(".png"), stem(preset))]
    _show(found, stem(preset), json=json)
    say(f"written: {', '.join(map(str, written))}")
    if found.document["rejected"]:
        raise typer.Exit(1)


def _draw(found: Audited, path: Path, name: str) -> list[Path]:
    """The picture, where there are scores to show."""
    if not found.evidence.server or found.document["stopped"]:
        return []
    from pfels.report.audit_picture import draw

    draw(found.document, found.evidence, path, heading=words.title(found.document, name))
    return [path]


def _show(found: Audited, name: str, *, json: bool) -> None:
    document = found.document
    if json:
        print_json(document)
        return
    print_table(words.COLUMNS, words.rows(document), title=words.title(document, name))
    print_notes([words.verdict(document)], style="bold")
    print_notes(words.notes(document))
