"""A current directory that others write to: with a module of every name that a command could import."""

import sys
from collections.abc import Set
from importlib.metadata import packages_distributions
from pathlib import Path


def foreign_modules(folder: Path, *, leaving_out: Set[str] = frozenset()) -> Path:
    """A directory with a module of every name that could be imported; each leaves a mark, the file `IMPORTED`."""
    folder.mkdir()
    names = set(sys.stdlib_module_names) | set(packages_distributions()) | {"sitecustomize", "usercustomize", "pfels"}
    for name in (each for each in names - leaving_out if each.isidentifier()):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'IMPORTED')!r}, 'a').write('{name} ')\n")
    return folder
