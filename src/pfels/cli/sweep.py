"""`pfels sweep`: a grid."""

from typing import Annotated

import typer

from pfels.cli.options import Jobs, Json, Out, Preset, Seeds, Set, overrides, place, seed_list, split_list, stem
from pfels.cli.progress import progress
from pfels.errors import InputError
from pfels.report.terminal import print_json, print_table, say


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
    json: Json = False,
) -> None:
    """Run a grid of settings. Finished points are skipped, unfinished ones continued.

    `--shard 2/8` takes the second of eight parts, for the jobs of a cluster's array. The parts share no point, so they
    may run at once into one --out; the same sweep without --shard then reads them all.

    Examples:

        pfels sweep demo --grid compression.ratio=0.1,0.3,1.0 --seeds 0,1,2 --jobs 2

        pfels sweep demo --grid scheme=pfels,wfl-pdp --grid privacy.epsilon=0.1,0.5,2.0

        pfels sweep demo --grid compression.ratio=0.1,0.3,1.0 --seeds 0,1,2 --shard 2/8 --out shared/sweep
    """
    from pfels.config.load import parse_value
    from pfels.experiment.directory import point_name
    from pfels.report.terminal import scientific, spread
    from pfels.studies.sweep import Shard, grid, group_by_settings, run_points

    if not axes:
        raise InputError("--grid: needed at least once, such as --grid compression.ratio=0.1,0.3")
    table = {}
    for axis in axes:
        key, equals, values = axis.partition("=")
        if not equals or key == "seed":
            raise InputError(f"--grid {axis}: must read key=v1,v2 (seeds go to --seeds)")
        if key in table:
            raise InputError(f"--grid {axis}: {key} has an axis already; give all its values there")
        table[key] = [parse_value(value) for value in split_list(values, option=f"--grid {key}")]
        if len({repr(value) for value in table[key]}) < len(table[key]):
            raise InputError(f"--grid {axis}: must be distinct values")
    changed = overrides(settings, seed="--seeds")
    folder = out or place(f"{stem(preset)}-sweep", changed)
    part = None if shard is None else Shard.parse(shard)
    everything = grid(preset, {**table, "seed": seed_list(seeds)}, out=folder, overrides=changed)
    points = everything if part is None else part.of(everything)
    with progress([point_name(p.settings) for p in points], [p.config.rounds for p in points]) as report:
        summaries = run_points(points, jobs=jobs, report=report)
    groups = group_by_settings(points, summaries)
    runs = f"{len(points)} of {len(everything)} runs"
    if json:
        about = {} if part is None else {"shard": {**vars(part), "runs": len(points), "of_runs": len(everything)}}
        print_json({**about, "points": groups})
    else:
        rows = [
            (
                *[str(v) for v in group["settings"].values()],
                spread(group["accuracy"], ".4f"),
                scientific(group["energy"]),
            )
            for group in groups
        ]
        title = f"{stem(preset)}: {len(groups)} points" + ("" if part is None else f" (shard {shard}: {runs})")
        print_table((*table, "accuracy", "energy"), rows, title=title)
    if part is not None:
        say(f"shard {shard} alone: {runs}; the same sweep without --shard reads all that are done and runs the rest")
    say(f"run directories: {folder}")
