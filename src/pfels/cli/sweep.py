"""`pfels sweep`: a grid."""

from pathlib import Path
from typing import Annotated

import typer

from pfels.cli.common import (
    Jobs,
    Json,
    Out,
    Preset,
    Seeds,
    Set,
    overrides,
    print_json,
    print_table,
    progress,
    say,
    seed_list,
    split_list,
    stem,
)
from pfels.errors import InputError


def command(
    preset: Preset = "demo",
    axes: Annotated[
        list[str] | None, typer.Option("--grid", "-g", metavar="KEY=V1,V2", help="One axis of the grid. Repeatable.")
    ] = None,
    seeds: Seeds = "0",
    jobs: Jobs = 1,
    settings: Set = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Run a grid of settings. Finished points are skipped, unfinished ones continued.

    Examples:

        pfels sweep demo --grid compression.ratio=0.1,0.3,1.0 --seeds 0,1,2 --jobs 2

        pfels sweep demo --grid scheme=pfels,wfl-pdp --grid privacy.epsilon=0.1,0.5,2.0
    """
    from pfels.cli.tables import scientific, spread
    from pfels.comparison import group_by_settings
    from pfels.config import parse_value
    from pfels.sweep import grid, point_name, run_points

    if not axes:
        raise InputError("--grid: needed at least once, such as --grid compression.ratio=0.1,0.3")
    table = {}
    for axis in axes:
        key, equals, values = axis.partition("=")
        if not equals or key == "seed":
            raise InputError(f"--grid {axis}: must read key=v1,v2 (seeds go to --seeds)")
        table[key] = [parse_value(value) for value in split_list(values, option=f"--grid {key}")]
    folder = out or Path("runs") / f"{stem(preset)}-sweep"
    points = grid(preset, {**table, "seed": seed_list(seeds)}, out=folder, overrides=overrides(settings))
    with progress([point_name(p.settings) for p in points], [p.config.rounds for p in points]) as report:
        summaries = run_points(points, jobs=jobs, report=report)
    groups = group_by_settings(points, summaries)
    if json:
        print_json({"points": groups})
    else:
        rows = [
            (
                *[str(v) for v in group["settings"].values()],
                spread(group["accuracy"], ".4f"),
                scientific(group["energy"]),
            )
            for group in groups
        ]
        print_table((*table, "accuracy", "energy"), rows, title=f"{stem(preset)}: {len(groups)} points")
    say(f"run directories: {folder}")
