"""`pfels data`: list data sets, get one, verify one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pfels.cli.help import Command, Group
from pfels.cli.options import Json
from pfels.data import cache
from pfels.data.catalog import CATALOG, Entry, find
from pfels.errors import RunError, one_line
from pfels.report.terminal import print_json, print_table, say

if TYPE_CHECKING:
    from pfels.documents.data import DataSet, HomeMade

app = typer.Typer(
    help="""Data sets: list them, get one, check one.

They live in a cache directory: $PFELS_DATA, or pfels in your cache directory. Data of your own need no getting:
`-s data.name=file -s data.path=mine.npz`.""",
    no_args_is_help=True,
    cls=Group,
    rich_markup_mode="markdown",
)


VERIFIED = "verified to be the original by its checksums"


def _complete(incomplete: str) -> list[str]:
    return [name for name in CATALOG if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(CATALOG)}.", autocompletion=_complete)]


@app.command("list", cls=Command)
def list_(json: Json = False) -> None:
    """List the data sets: size, licence, sources, and which are here.

    Examples:

        pfels data list

        pfels data list --json | jq '.sets[] | select(.here) | .path'
    """
    if json:
        print_json({"cache": str(cache.home()), "sets": {name: _document(e) for name, e in CATALOG.items()}})
        return
    rows = [
        (
            entry.name,
            entry.examples,
            "×".join(map(str, entry.shape)),
            str(entry.classes),
            _megabytes(entry.size),
            _megabytes(entry.download),
            _state(entry),
        )
        for entry in CATALOG.values()
    ]
    columns = ("name", "examples", "shape", "classes", "on disk", "download", "here")
    notes = [f"{e.name}: {e.title}. From: {'; '.join(e.sources)}. Licence: {e.licence}." for e in CATALOG.values()]
    print_table(columns, rows, title=f"data sets in {cache.home()}", notes=notes)


@app.command("get", cls=Command)
def get(
    name: Name,
    given: Annotated[
        Path | None, typer.Option("--from", metavar="PATH", help="Take it from a file or directory of yours instead.")
    ] = None,
    json: Json = False,
) -> None:
    """Get a data set into the cache, checked file by file; sources are tried in order.

    It appears there complete or not at all: after a kill, the same command continues with what had arrived.

    Examples:

        pfels data get cifar10

        pfels data get fashion --json

        pfels data get femnist --from leaf/data/femnist/data

        pfels data get mnist-writers --from mnist-and-qmnist-labels

        pfels data get mnist-writers --from mnist_by_writer.npz
    """
    from pfels.data import install  # not for the help: it brings NumPy

    with _bar() as progress:
        installed = install.get(name, given=given, say=say, progress=progress)
    if json:
        print_json({**_document(find(name)), "source": installed.source, "verified": _verified(find(name))})
    elif installed.path is None:
        print(f"{name}: nothing to get: {find(name).sources[0]}")
    else:
        source = "already in the cache" if installed.source == "cache" else f"from {installed.source}"
        print(one_line(f"{name}: {installed.path} ({source}, {_verified(find(name))})"))


@app.command("check", cls=Command)
def check(name: Name, json: Json = False) -> None:
    """Check every byte of a data set in the cache against its checksums; exit code 1 if one differs.

    Examples:

        pfels data check cifar10

        pfels data check cifar10 --json | jq .faults
    """
    from pfels.data import install

    with _bar() as progress:
        verdict = install.check(name, progress)
    if json:
        found = {**_document(find(name)), "good": verdict.good, "faults": dict(verdict.faults)}
        print_json(found | ({"verified": _verified(find(name))} if verdict.good else {}))
    if not verdict.there:
        raise RunError(f"{name}: not in the cache {cache.home()}; run: pfels data get {name}")
    if verdict.faults:
        raise RunError(f"{name}: {install.listed(verdict.faults)}; run: pfels data get {name}")
    if not json:
        place = install.place(find(name))
        here = f"{name}: {place} is {_verified(find(name))}"
        print(f"{name}: nothing to check: {find(name).sources[0]}" if place is None else one_line(here))


def _document(entry: Entry) -> DataSet:
    path, about = _place(entry), _installed(entry)
    found: DataSet = {
        "name": entry.name,
        "title": entry.title,
        "examples": entry.examples,
        "shape": list(entry.shape),
        "classes": entry.classes,
        "bytes": entry.size,
        "download_bytes": entry.download,
        "licence": entry.licence,
        "sources": list(entry.sources),
        "files": dict(entry.files),
        "path": None if path is None else str(path),
        "here": path is None or path.exists(),
    }
    if about is not None:
        found["installed"] = about
    return found


def _verified(entry: Entry) -> str:
    """What is known of a data set in the cache whose checksums are right."""
    from pfels.data.formats import packed

    about, path = _installed(entry), _place(entry)
    if about is not None and not about["original"]:
        return f"home-made, not verified to be the original; {about['sha256']}"
    if path is None:
        return entry.sources[0]
    if entry.files:
        return VERIFIED
    examples, writers = packed.size(path)
    return (
        f"converted, not verified to be the original, of which no checksum is known: {examples:,} examples by "
        f"{writers:,} writers, where the original has {entry.train:,} by {entry.writers:,}; its files are as they were "
        "when it was installed"
    )


def _installed(entry: Entry) -> HomeMade | None:
    from pfels.data import writers

    path = _place(entry)
    return writers.recorded(path) if entry.name == writers.NAME and path is not None and path.exists() else None


def _place(entry: Entry) -> Path | None:
    from pfels.data import install

    return install.place(entry)


def _state(entry: Entry) -> str:
    path = _place(entry)
    if path is None or not path.exists():
        return "always" if path is None else "no"
    about = _installed(entry)
    return "yes" if about is None or about["original"] else "home-made"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size else "–"


@contextmanager
def _bar() -> Iterator[cache.Progress]:
    """A live progress bar on stderr."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("", total=None, visible=False)

        def report(what: str, done: int, total: int) -> None:
            bars.update(task, description=escape(one_line(what)), completed=done, total=total or None, visible=True)

        yield report
