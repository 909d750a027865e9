"""`pfels compare`: schemes side by side."""

from typing import Annotated

import typer

from pfels.cli.options import (
    Against,
    Fresh,
    Jobs,
    Json,
    Out,
    Preset,
    Schemes,
    Seeds,
    Set,
    TotalEpsilon,
    budget_of,
    overrides,
    place,
    scheme_list,
    seed_list,
    stem,
    warm_up_workers,
)
from pfels.cli.progress import progress
from pfels.cli.stored import Stored, say_older_page
from pfels.errors import InputError
from pfels.report.terminal import budget_notes, print_json, print_notes, print_table, say

Grid = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        "-g",
        metavar="KEY=V1,V2",
        help="What --tune tries for a setting, in place of the preset's grid.",
    ),
]
Tune = Annotated[
    bool, typer.Option("--tune", help="Choose each scheme's settings out of one grid, on seeds of their own, first.")
]
TuningSeeds = Annotated[
    str | None,
    typer.Option(metavar="SEEDS", help="Seeds on which --tune chooses; 1000 and 1001 by default.", show_default=False),
]


def command(
    preset: Preset = "demo",
    schemes: Schemes = None,
    seeds: Seeds = "0,1,2",
    jobs: Jobs = 1,
    total_epsilon: TotalEpsilon = None,
    adversary: Against = None,
    tune: Tune = False,
    grid: Grid = None,
    tuning_seeds: TuningSeeds = None,
    settings: Set = None,
    out: Out = None,
    fresh: Fresh = False,
    json: Json = False,
) -> None:
    """Run several schemes over several seeds and show them as the paper's tables do.

    Finished runs are read and unfinished ones continued, so the same command continues where it was stopped. A setting
    given with -s goes to the schemes that use it. Without --tune each scheme has the settings of the preset.

    Examples:

        pfels compare demo --jobs 2

        pfels compare demo --total-epsilon 8 --schemes pfels,wfl-pdp,dp-fedavg

        pfels compare demo --schemes pfels,wfl-pdp -s privacy.epsilon=0.2

        pfels compare demo --tune --total-epsilon 16 --seeds 0,1,2,3,4 --jobs 2

        pfels compare demo --tune --grid training.learning_rate=0.02,0.05,0.1
    """
    from pfels.config.load import load_config
    from pfels.config.scheme_settings import require_used_by_any, used_by
    from pfels.report import comparison

    names = scheme_list(schemes)
    changed, numbers = overrides(settings, scheme="--schemes", seed="--seeds"), seed_list(seeds)
    budget = budget_of(total_epsilon, adversary)
    if not tune and (grid or tuning_seeds is not None):
        raise InputError(f"{'--grid' if grid else '--tuning-seeds'}: is for --tune; give both, or use pfels sweep")
    with progress() as display:
        stored = Stored(display, fresh=fresh)
        for name in names:
            config = load_config(preset, {**used_by(name, changed), "scheme": name})
        require_used_by_any(changed, names)
        if jobs > 1:
            warm_up_workers()  # while PyTorch is imported here

        from pfels.seeding import TUNING_SEEDS
        from pfels.studies.compare import compare, tuning_of  # not before the input is known to be right
        from pfels.studies.comparison_files import write
        from pfels.studies.sweep import parse_axes

        folder, tuning = out or place(f"{preset}-tuned" if tune else preset, changed), None
        if tune:
            chosen_on = TUNING_SEEDS if tuning_seeds is None else seed_list(tuning_seeds, option="--tuning-seeds")
            axes = parse_axes(grid) if grid else None
            tuning = tuning_of(preset, grid=axes, overrides=changed, schemes=names, seeds=chosen_on)
        table = compare(
            preset, schemes=names, seeds=numbers, overrides=changed, jobs=jobs, out=folder, fresh=fresh,
            watch=stored.watch, budget=budget, tuning=tuning,
        )  # fmt: skip
        asked = {
            "preset": preset, "schemes": names, "seeds": numbers, "settings": changed,
            "budget": budget and budget.settings(), "tuning": tuning and {"grid": tuning.axes, "seeds": tuning.seeds},
        }  # fmt: skip
        written = write(table, folder, asked=asked)
    if json:
        print_json(table)
    else:
        title = f"{stem(preset)}: {config.rounds} rounds, {len(numbers)} seed{'s' * (len(numbers) > 1)}"
        notes = [*comparison.pair_notes(table["pairs"]), *budget_notes(budget, table["schemes"])]
        print_table(comparison.COLUMNS, comparison.rows(table), title=title)
        if tune:
            columns, rows = comparison.chosen(table)
            print_table(columns, rows, title="", notes=comparison.chosen_notes(table))
        print_notes([*notes, *comparison.notes(table)])
    stored.say()
    say(f"run directories: {folder}")
    say(f"table: {written}")
    say_older_page(folder, stored.paths)
