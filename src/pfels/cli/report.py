"""`pfels report`: stored runs as one HTML page."""

from pathlib import Path
from typing import Annotated

import typer

from pfels.cli.options import Json
from pfels.report.terminal import print_json, say


def command(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR", help="Run directories, or folders of them.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where the page goes; by default report.html in the directory."),
    ] = None,
    json: Json = False,
) -> None:
    """Write one self-contained HTML page about finished and unfinished runs.

    The page needs no network. Damaged runs are listed on it; all others are shown.

    Examples:

        pfels report runs/demo

        pfels report runs/demo runs/demo-sweep --out both.html
    """
    from pfels.report.page import write_report

    document = write_report(directories, out)
    for each in document["damaged"]:
        say(f"left out: {each['run']}: {each['reason']}")
    for run in document["unknown_code"]:
        say(f"not known: which code from outside pfels made {run}; means over it may mix several versions")
    if json:
        print_json(document)
    else:
        print(document["report"])
