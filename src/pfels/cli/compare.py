"""`pfels compare`: schemes side by side."""

from pfels.cli.options import (
    Against,
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
)
from pfels.cli.progress import watch
from pfels.config.load import load_config
from pfels.config.scheme_settings import require_used_by_any, used_by
from pfels.report.terminal import (
    COMPARE_COLUMNS,
    budget_notes,
    compare_notes,
    compare_rows,
    print_json,
    print_table,
    say,
)


def command(
    preset: Preset = "demo",
    schemes: Schemes = None,
    seeds: Seeds = "0,1,2",
    jobs: Jobs = 1,
    total_epsilon: TotalEpsilon = None,
    adversary: Against = None,
    settings: Set = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Run several schemes over several seeds and show them as the paper's tables do.

    Finished runs are read and unfinished ones continued, so the same command continues where it was stopped. A setting
    given with -s goes to the schemes that use it.

    Examples:

        pfels compare demo --jobs 2

        pfels compare demo --total-epsilon 8 --adversary server --schemes pfels,wfl-pdp,dp-fedavg

        pfels compare demo --schemes pfels,wfl-pdp --seeds 0,1,2,3,4 -s privacy.epsilon=0.2
    """
    names = scheme_list(schemes)
    changed, numbers = overrides(settings, scheme="--schemes", seed="--seeds"), seed_list(seeds)
    for name in names:
        config = load_config(preset, {**used_by(name, changed), "scheme": name})
    require_used_by_any(changed, names)
    budget = budget_of(total_epsilon, adversary)

    from pfels.studies.compare import compare  # not before the input is known to be right: PyTorch takes seconds

    folder = out or place(preset, changed)
    table = compare(
        preset, schemes=names, seeds=numbers, overrides=changed, jobs=jobs, out=folder, watch=watch, budget=budget
    )
    if json:
        print_json(table)
    else:
        title = f"{stem(preset)}: {config.rounds} rounds, {len(numbers)} seed{'s' * (len(numbers) > 1)}"
        notes = [*budget_notes(budget, table["schemes"]), *compare_notes(table)]
        print_table(COMPARE_COLUMNS, compare_rows(table), title=title, notes=notes)
    say(f"run directories: {folder}")
