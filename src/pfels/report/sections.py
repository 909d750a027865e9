"""One section of the page per comparison: all that the template shows of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pfels.documents.report import ReportComparison
from pfels.experiment.reader import StoredRun
from pfels.report import plots, privacy, settings, tables, text
from pfels.report.assumptions import AssumptionTable, assumption_table
from pfels.report.groups import Comparison, Group, effective

MAX_LEVEL_PLOTS = 12

LEARNING = (
    ("accuracy", "test_accuracy", "test accuracy"),
    ("train-loss", "train_loss", "training loss"),
    ("test-loss", "test_loss", "test loss"),
)
AXIS_NAMES = {"rounds": "rounds", "subcarriers": "channel uses", "energy": "energy"}


@dataclass(frozen=True)
class LearningFigure:
    """A figure of the training and the table that goes with it."""

    id: str
    title: str
    groups: Sequence[Group]
    rows: Sequence[tuple[Group, Sequence[str]]]


@dataclass(frozen=True)
class RunCommand:
    """A run, and the command that makes it again or finishes it."""

    run: StoredRun
    command: str


@dataclass(frozen=True)
class Section:
    """A comparison as the template shows it. `figures` has plotly's data by id; ids start with `key`."""

    key: str
    title: str
    lede: str
    comparison: Comparison
    highlights: Sequence[tables.Highlight]
    rows: Sequence[tables.ComparisonRow]
    seeds: int | None
    conditions: Mapping[str, str]
    axes: Mapping[str, str]
    learning: Sequence[LearningFigure]
    without_energy: str
    adversaries: Sequence[privacy.AdversaryTable]
    growth: Sequence[Group]
    assumptions: AssumptionTable | None
    spread: Sequence[privacy.DeviceSpread]
    levels: Sequence[tables.LevelRow]
    level_figures: Mapping[str, Group]
    undrawn: int
    energy: Sequence[tables.EnergyRow]
    common: settings.SharedSettings
    differing: Sequence[settings.DifferingRow]
    environments: Sequence[settings.SharedEnvironment]
    command: str | None
    runs: Sequence[RunCommand]
    figures: Mapping[str, plots.Figure]


def section(comparison: Comparison, key: str) -> Section:
    """The section of one comparison."""
    drawn = [group for group in comparison.groups if group.rounds]
    figures: dict[str, plots.Figure] = {}
    learning = _learning(drawn, key, figures)
    levels, energy = tables.level_rows(comparison), tables.energy_rows(comparison)
    changing = [row.group for row in levels if not row.constant]
    level_figures = {f"{key}-beta-{group.style}": group for group in changing[:MAX_LEVEL_PLOTS]}
    figures |= {name: plots.levels(group) for name, group in level_figures.items()}
    if energy:
        figures[f"{key}-energy"] = plots.device_energy([row.group for row in energy])
    spread = privacy.device_spreads(comparison)
    if spread:
        figures[f"{key}-spread"] = plots.server_spread(spread)
    growth = [group for group in drawn if group.curve("server_epsilon")]
    if growth:
        figures[f"{key}-growth"] = plots.server_growth(growth)
    found = privacy.figures(comparison)
    return Section(
        key, title(comparison), _lede(comparison), comparison,
        highlights=tables.highlights(comparison),
        rows=tables.comparison_rows(comparison),
        seeds=tables.shared_seeds(comparison),
        conditions={kind: privacy.conditions(each) for kind, each in found.items()},
        axes={axis: AXIS_NAMES[axis] for axis in figures[learning[0].id]["axes"]} if learning else {},
        learning=learning,
        without_energy=text.listed([group.label for group in drawn if not group.has_energy]),
        adversaries=privacy.adversary_tables(comparison),
        growth=growth, assumptions=assumption_table(comparison), spread=spread,
        levels=levels, level_figures=level_figures, undrawn=len(changing[MAX_LEVEL_PLOTS:]), energy=energy,
        common=settings.common(comparison),
        differing=settings.differing(comparison),
        environments=settings.environments(comparison.runs),
        command=settings.comparison_command(comparison),
        runs=[RunCommand(run, settings.run_command(run)) for run in comparison.runs],
        figures=figures,
    )  # fmt: skip


def document(section: Section) -> ReportComparison:
    """The section for JSON: its groups with what the comparison table shows."""
    return {
        "title": section.title,
        "groups": [
            {
                "label": group.label,
                "scheme": group.config.scheme,
                "finished": group.finished,
                "rounds": group.rounds,
                "seeds": [run.config.seed for run in group.runs],
                "row": group.row,
            }
            for group in section.comparison.groups
        ],
        "command": section.command,
        "run_commands": [each.command for each in section.runs],
    }


def title(comparison: Comparison) -> str:
    """The heading of a comparison: who on which data."""
    schemes = comparison.schemes
    who = schemes[0] if len(schemes) == 1 else f"{len(schemes)} schemes"
    flats = [effective(group.runs[0]) for group in comparison.groups]
    count = len({repr([flat.get(key) for key in comparison.differing]) for flat in flats})
    several = f", {count} settings" if count > len(schemes) else ""
    return f"{who} on {comparison.groups[0].config.data.name}{several}"


def _learning(drawn: Sequence[Group], key: str, figures: dict[str, plots.Figure]) -> list[LearningFigure]:
    """The figures of the training; their data go into `figures`."""
    found = []
    for name, column, heading in LEARNING:
        figure, place = plots.learning(drawn, column, heading), f"{key}-{name}"
        if figure["data"]:
            figures[place] = figure
            rows = [(group, tables.checkpoints(group, column)) for group in drawn]
            found.append(LearningFigure(place, heading, drawn, rows))
    return found


def _lede(comparison: Comparison) -> str:
    configs = [run.config for run in comparison.runs]
    sizes = sorted({run.summary["dimension"] for run in comparison.runs if run.summary is not None})
    network = f"{configs[0].model.name} with {sizes[0]:,} parameters" if sizes else configs[0].model.name
    seeds = sorted({config.seed for config in configs})
    return (
        f"{configs[0].data.devices:,} devices, {_span([config.cohort.size for config in configs])} of them per round, "
        f"{_span([config.rounds for config in configs])} rounds. Network: {network}. {len(configs)} "
        f"{'run' if len(configs) == 1 else 'runs'}, {'seed' if len(seeds) == 1 else 'seeds'} "
        f"{', '.join(map(str, seeds))}."
    )


def _span(values: Sequence[int]) -> str:
    return f"{min(values):,}" if min(values) == max(values) else f"{min(values):,} to {max(values):,}"
