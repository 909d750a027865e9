"""`pfels sweep`: a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pfels.cli.options import (
    Fresh,
    Jobs,
    Json,
    Out,
    Preset,
    Seeds,
    Set,
    overrides,
    place,
    seed_list,
    stem,
    warm_up_workers,
)
from pfels.cli.progress import progress
from pfels.cli.stored import Stored, say_older_page
from pfels.cli.sweep_tables import show
from pfels.errors import InputError
from pfels.report.terminal import print_json, say
from pfels.report.text import counted, listed

if TYPE_CHECKING:
    from pfels.documents.studies import GridShare, Sweep


def command(
    preset: Preset = "demo",
    axes: Annotated[
        list[str] | None, typer.Option("--grid", "-g", metavar="KEY=V1,V2", help="One axis of the grid. Repeatable.")
    ] = None,
    seeds: Seeds = "0",
    jobs: Jobs = 1,
    settings: Set = None,
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="I/N", help="Run only the I-th of N parts of the grid.")
    ] = None,
    out: Out = None,
    fresh: Fresh = False,
    json: Json = False,
) -> None:
    """Run a grid of settings. Finished points are skipped, unfinished ones continued.

    `--shard 2/8` runs the second of eight parts, for the jobs of a cluster's array. The parts share no point, so they
    may run at the same time into one --out; the same sweep without --shard then reads them all.

    Examples:

        pfels sweep demo --grid compression.ratio=0.1,0.3,1.0 --seeds 0,1,2 --jobs 2

        pfels sweep demo -g scheme=pfels,wfl-pdp -g privacy.epsilon=0.1,0.5,2.0

        pfels sweep demo -g compression.ratio=0.1,0.3,1.0 --shard 2/8 --out sweep
    """
    if not axes:
        raise InputError("--grid: needed at least once, such as --grid compression.ratio=0.1,0.3")
    changed, numbers = overrides(settings, seed="--seeds"), seed_list(seeds)
    with progress() as display:
        stored = Stored(display, fresh=fresh)
        if jobs > 1:
            warm_up_workers()  # while PyTorch is imported here

        from pfels.studies.sweep import parse_axes, sweep

        table = parse_axes(axes)
        folder = out or place(f"{stem(preset)}-sweep", changed)
        found = sweep(
            preset, table, seeds=numbers, overrides=changed, part=shard, jobs=jobs, out=folder, fresh=fresh,
            watch=stored.watch,
        )  # fmt: skip
    if json:
        print_json(found)
    else:
        show(found["points"], _title(found, stem(preset), shard))
    if "shard" in found:
        say(f"part {shard} alone: {_runs(found['shard'])}; the same sweep without --shard reads all and runs the rest")
    stored.say()
    say(f"run directories: {folder}")
    say_older_page(folder, stored.paths)


def _title(found: Sweep, name: str, shard: str | None) -> str:
    seeds = sorted({seed for point in found["points"] for seed in point["seeds"]})
    part = f" (part {shard}: {_runs(found['shard'])})" if "shard" in found else ""
    of = f", seed{'s' * (len(seeds) > 1)} {listed([str(seed) for seed in seeds])}"
    return f"{name}: {counted(len(found['points']), 'point')}{part}{of}"


def _runs(share: GridShare) -> str:
    return f"{share['runs']} of {share['of_runs']} runs"
