"""`pfels init`: a commented config to start from."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from pfels.errors import InputError, shown
from pfels.report.terminal import say
from pfels.runtime.files import write_atomically


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("pfels.toml"),
) -> None:
    """Write a commented config to start from: every setting with its meaning.

    It runs as it is, and gives what the preset demo gives. A file that exists is never overwritten.

    Examples:

        pfels init

        pfels init mine.toml
    """
    from pfels.config.documented import starter

    if os.path.lexists(file):
        raise InputError(f"{file}: exists; choose another name, or delete it")
    if not file.parent.is_dir():
        raise InputError(f"{file.parent}: no such directory; make it first, or choose another FILE")
    name = shlex.quote(shown(file))
    write_atomically(file, starter(name).encode())
    say(f"wrote {name}; run it: pfels run {name}")
