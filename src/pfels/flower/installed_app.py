"""Whether the app of a run is the one that is installed here: Flower sends the app's code with every run.

An app is a zip file (a FAB) in which a `pyproject.toml` names the module to load. The app of `pfels` holds no code,
only that file, which names a module of the installed package.
"""

import io
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from pfels.errors import InputError, shown

MANIFEST = "pyproject.toml"
OWN = Path(__file__).parent / "app" / MANIFEST
LISTING = ".info/CONTENT"  # hashes of the files, which Flower adds
LARGEST = 2**20  # bytes; that of pfels has 2,000


def require_installed(fab: bytes) -> None:
    """An InputError unless this app is the installed one: its manifest alone, with the same content."""
    try:
        with zipfile.ZipFile(io.BytesIO(fab)) as archive:
            names = sorted(archive.namelist())
            if names != sorted([LISTING, MANIFEST]):
                more = [name for name in names if name not in (LISTING, MANIFEST)]
                raise InputError(f"the app of this run holds {shown(', '.join(more) or 'no manifest')}; refused")
            if archive.getinfo(MANIFEST).file_size > LARGEST:
                raise InputError("the app of this run has a manifest of another size than pfels's own")
            manifest = tomllib.loads(archive.read(MANIFEST).decode())
    except (zipfile.BadZipFile, ValueError, RuntimeError, EOFError, NotImplementedError) as error:
        raise error if isinstance(error, InputError) else InputError("the app of this run is no app") from None
    if manifest != _own():
        raise InputError(
            "the app of this run is not the one that is installed here: another version of pfels, or another app; "
            "install the same version everywhere"
        )


def require_no_code(apps: Path) -> None:
    """An InputError if an app in this folder, from which Flower has put one on Python's path, holds more than a
    manifest: then it is not the installed package alone that runs here."""
    for entry in map(Path, sys.path):
        if entry.parent == apps and entry.is_dir():
            code = sorted(path.name for path in entry.iterdir() if path.name != MANIFEST)
            if code:
                raise InputError(f"the app of this run holds {shown(code[0])}: a ledger is for the app of pfels alone")


def _own() -> dict[str, Any]:
    return tomllib.loads(OWN.read_text("utf-8"))
