"""What the subcommands share: options, output, live progress."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from pfels.config import parse_override, presets
from pfels.errors import InputError
from pfels.privacy import Adversary, require_positive

Preset = Annotated[str, typer.Argument(metavar="PRESET", help=f"A preset ({', '.join(presets())}) or a TOML file.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", metavar="KEY=VALUE", help="Change one setting, such as `-s compression.ratio=0.1`. Repeatable."
    ),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where the run directories go.")]
Seeds = Annotated[str, typer.Option("--seeds", help="Seeds, separated by commas.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Runs side by side. The results do not depend on it.")]
TotalEpsilon = Annotated[
    float | None, typer.Option(help="Bring every private scheme to this budget for the whole training.")
]
Against = Annotated[
    Adversary | None, typer.Option("--adversary", help="Against whom --total-epsilon must hold; the server by default.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, everything else on stderr.")]


def say(message: str) -> None:
    """A line for the person at the terminal, never on stdout."""
    print(message, file=sys.stderr)


def print_json(document: Mapping[str, Any]) -> None:
    """The one JSON document of a command."""
    plain = (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8"
    print(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=plain))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str, notes: Sequence[str] = ()
) -> None:
    """A table on stdout, with notes below it."""
    table = Table(box=SIMPLE_HEAD, padding=0)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    console = Console()
    console.print(escape(title), style="bold", highlight=False)
    console.print(table)
    for note in notes:
        console.print(escape(note), style="dim", highlight=False)


def overrides(pairs: Sequence[str] | None, **elsewhere: str) -> dict[str, Any]:
    """The -s options as keys and values; `elsewhere` names keys for which there is an option."""
    changed = dict(map(parse_override, pairs or []))
    for key, option in elsewhere.items():
        if key in changed:
            raise InputError(f"-s {key}: use {option} instead")
    return changed


def footing(total_epsilon: float | None, adversary: Adversary | None) -> Any:
    """The common budget that was asked for, if one was."""
    if total_epsilon is None:
        if adversary is not None:
            raise InputError("--adversary: says against whom --total-epsilon must hold; give both")
        return None
    require_positive("--total-epsilon", total_epsilon)

    from pfels.footing import Footing

    return Footing(total_epsilon, adversary or Adversary.SERVER)


def split_list(text: str, *, option: str) -> list[str]:
    """The items of a comma-separated option."""
    items = [item.strip() for item in text.split(",")]
    if not all(items) or len(set(items)) < len(items):
        raise InputError(f"{option} = {text!r}: must be distinct values separated by commas")
    return items


def seed_list(text: str) -> list[int]:
    """The seeds of --seeds."""
    items = split_list(text, option="--seeds")
    if not all(item.isdecimal() and len(item) < 20 for item in items):
        raise InputError(f"--seeds = {text!r}: must be whole numbers from 0, separated by commas")
    seeds = [int(item) for item in items]
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds = {text!r}: must be distinct")
    return seeds


def stem(preset: str) -> str:
    """The name under which a preset's or a file's runs are kept."""
    return Path(preset).stem


def place(preset: str, changed: Mapping[str, Any]) -> Path:
    """Where several runs go by default: a folder for each set of changes, so that none stands in another's way."""
    from pfels.naming import point_name

    return Path("runs") / (stem(preset) if not changed else f"{stem(preset)},{point_name(changed)}")


def number(value: float | None, form: str = ".3g") -> str:
    """A figure for a table; a dash where there is none."""
    return "–" if value is None else format(value, form)


@contextmanager
def progress(labels: Sequence[str], totals: Sequence[int]) -> Iterator[Any]:
    """A live bar for all runs together and one for each that is under way; gives `report(index, done)`."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        everything = bars.add_task("all rounds", total=sum(totals), visible=len(totals) > 1)
        tasks: dict[int, TaskID] = {}
        done_so_far = [0] * len(totals)

        def report(index: int, done: int) -> None:
            bars.update(everything, advance=done - done_so_far[index])
            done_so_far[index] = done
            if done < totals[index] or len(totals) == 1:
                if index not in tasks:  # not before: to lay out a thousand bars that nobody sees takes seconds
                    tasks[index] = bars.add_task(escape(labels[index]), total=totals[index])
                bars.update(tasks[index], completed=done)
            elif index in tasks:
                bars.remove_task(tasks.pop(index))

        yield report
