"""Options that several commands have, and how they are read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pfels.cli.help import complete_preset, complete_schemes, complete_setting
from pfels.config.preset_files import presets
from pfels.errors import InputError, quoted
from pfels.privacy.checks import require_positive
from pfels.privacy.events import Adversary
from pfels.report.terminal import say

if TYPE_CHECKING:
    from pfels.privacy.calibration import Budget

PRESET_HELP = f"A preset ({', '.join(presets())}) or a TOML file."
Preset = Annotated[str, typer.Argument(metavar="PRESET", help=PRESET_HELP, autocompletion=complete_preset)]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", metavar="KEY=VALUE",
        help="Change one setting, such as `-s compression.ratio=0.1`. Repeatable. All keys: `pfels init` writes them "
        "into a file, docs/settings.md explains them.",
        autocompletion=complete_setting,
    ),
]  # fmt: skip
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where the run directories go.")]
Seeds = Annotated[str, typer.Option("--seeds", metavar="SEEDS", help="Seeds, separated by commas.")]
Schemes = Annotated[
    str | None,
    typer.Option(
        "--schemes", metavar="NAMES", help="Schemes, separated by commas; all by default.",
        autocompletion=complete_schemes,
    ),
]  # fmt: skip
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Runs in parallel. The results do not depend on it.")
]
TotalEpsilon = Annotated[
    float | None,
    typer.Option(metavar="ε", help="Budget ε for the whole training; it sets the noise of the schemes."),
]
WHO = "server (by default), blind-server or outsider"
Against = Annotated[
    Adversary | None,
    typer.Option("--adversary", metavar="WHO", help=f"Against whom --total-epsilon must hold: {WHO}."),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Make stored runs anew; what was stored of them is deleted.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, everything else on stderr.")]


def warm_up_workers() -> None:
    """Start what workers will be forked from, with all that a run may import."""
    from pfels.runtime.processes import warm_up

    warm_up("pfels.studies.sweep", "scipy.optimize", "dp_accounting.pld", "dp_accounting.rdp")


def overrides(pairs: Sequence[str] | None, **elsewhere: str) -> dict[str, Any]:
    """The -s options as keys and values; `elsewhere` names keys for which there is an option."""
    from pfels.config.load import parse_override

    changed = dict(map(parse_override, pairs or []))
    for key, option in elsewhere.items():
        if key in changed:
            raise InputError(f"-s {key}: use {option} instead")
    return changed


def budget_of(total_epsilon: float | None, adversary: Adversary | None) -> "Budget | None":
    """The common budget that was asked for, if one was."""
    if total_epsilon is None:
        if adversary is not None:
            raise InputError("--adversary: says against whom --total-epsilon must hold; give both")
        return None
    require_positive("--total-epsilon", total_epsilon)

    from pfels.privacy.calibration import Budget  # not before it is needed: dp-accounting takes a second to import

    return Budget(total_epsilon, adversary or Adversary.SERVER)


def split_list(text: str, *, option: str) -> list[str]:
    """The items of a comma-separated option."""
    items = [item.strip() for item in text.split(",")]
    if not all(items) or len(set(items)) < len(items):
        raise InputError(f"{option} = {quoted(text)}: must be distinct values separated by commas, without spaces")
    return items


def scheme_list(text: str | None) -> list[str]:
    """The schemes of --schemes; all that can be loaded by default, and a line about each that cannot."""
    if text is not None:
        return split_list(text, option="--schemes")
    from pfels.schemes.registry import scheme_names, usable_schemes

    usable = usable_schemes()
    for name in scheme_names():
        if name not in usable:
            say(f"left out: scheme {name}: its package cannot be loaded")
    return usable


def seed_list(text: str, *, option: str = "--seeds") -> list[int]:
    """The seeds of --seeds, or of another option."""
    items = split_list(text, option=option)
    if not all(item.isdecimal() and len(item) < 20 for item in items):
        raise InputError(f"{option} = {quoted(text)}: must be whole numbers from 0, separated by commas")
    seeds = [int(item) for item in items]
    if len(set(seeds)) < len(seeds):
        raise InputError(f"{option} = {quoted(text)}: must be distinct")
    return seeds


def stem(preset: str) -> str:
    """The name under which a preset's or a file's runs are kept: never one that leads out of the folder.

    >>> stem("mine.toml"), stem("...toml")
    ('mine', 'config')
    """
    return Path(preset).stem.strip(".") or "config"


def place(preset: str, changed: Mapping[str, Any]) -> Path:
    """Where several runs go by default: one folder per set of changes."""
    from pfels.experiment.directory import point_name

    return Path("runs") / (stem(preset) if not changed else f"{stem(preset)},{point_name(changed)}")
