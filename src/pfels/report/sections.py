"""One section of the page per comparison: all that the template shows of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pfels.documents.report import ReportComparison
from pfels.experiment.reader import StoredRun
from pfels.report import commands, plots, privacy, settings, tables, text
from pfels.report.assumptions import AssumptionTable, assumption_table
from pfels.report.cards import Card, cards, names
from pfels.report.comparison import pair_notes
from pfels.report.findings import clauses, sentence
from pfels.report.groups import Comparison, Group, effective
from pfels.report.privacy_columns import AdversaryColumn, adversary_columns
from pfels.report.privacy_words import CONVENTION, delta_note
from pfels.report.standings import Highlight, accuracies, field, highlights
from pfels.report.sweeps import Sweep, sweeps
from pfels.schemes.registry import scheme_entry
from pfels.studies.verdicts import pairs

MAX_LEVEL_PLOTS = 12
MAX_DRAWN = 16  # groups in one figure; more cannot be told apart
MAX_ROWS = 24  # of a table; what is beyond is folded

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
    clauses: Sequence[str]
    comparison: Comparison
    about: Mapping[str, str]
    highlights: Sequence[Highlight]
    left_out: Sequence[tuple[str, str]]
    rows: Sequence[tables.ComparisonRow]
    seeds: int | None
    undecided: Sequence[str]
    conditions: Mapping[str, str]
    sweeps: Mapping[str, Sweep]
    axes: Mapping[str, str]
    learning: Sequence[LearningFigure]
    undrawn_groups: int
    without_energy: str
    columns: Sequence[AdversaryColumn]
    words: Sequence[str]
    growth: Sequence[Group]
    assumptions: AssumptionTable | None
    spread: Sequence[privacy.DeviceSpread]
    levels: Sequence[tables.LevelRow]
    level_figures: Mapping[str, Group]
    undrawn: int
    energy: Sequence[tables.EnergyRow]
    energy_drawn: Sequence[Group]
    common: settings.SharedSettings
    differing: Sequence[settings.DifferingRow]
    environments: Sequence[settings.SharedEnvironment]
    command: str | None
    group_commands: Mapping[str, str]
    runs: Sequence[RunCommand]
    cards: Sequence[Card]
    figures: Mapping[str, plots.Figure]

    @property
    def finding(self) -> str:
        """What was found, as one sentence."""
        return sentence(self.clauses)


def section(comparison: Comparison, key: str) -> Section:
    """The section of one comparison."""
    running = [group for group in comparison.groups if group.rounds]
    drawn = _most_accurate(running)
    figures: dict[str, plots.Figure] = {}
    learning = _learning(drawn, key, figures)
    swept = {f"{key}-sweep-{i}": sweep for i, sweep in enumerate(sweeps(comparison))}
    figures |= {name: plots.swept(sweep) for name, sweep in swept.items()}
    levels, energy = tables.level_rows(comparison), tables.energy_rows(comparison)
    changing = [row.group for row in levels if not row.constant]
    level_figures = {f"{key}-beta-{group.style}": group for group in changing[:MAX_LEVEL_PLOTS]}
    figures |= {name: plots.levels(group) for name, group in level_figures.items()}
    energy_drawn = [row.group for row in energy if row.group in drawn]
    spread = privacy.device_spreads(comparison)
    growth = [group for group in drawn if group.curve("server_epsilon", limit=2)]
    if energy_drawn:
        figures[f"{key}-energy"] = plots.device_energy(energy_drawn)
    if spread:
        figures[f"{key}-spread"] = plots.server_spread([row for row in spread if row.group in drawn])
    if growth:
        figures[f"{key}-growth"] = plots.server_growth(growth)
    recipes = commands.recipes(comparison)
    return Section(
        key, title(comparison), _lede(comparison), clauses(comparison), comparison,
        about={name: line for name in comparison.schemes if (line := scheme_entry(name).about)},
        highlights=highlights(comparison),
        left_out=[(group.label, why) for group, why in field(comparison).left_out],
        rows=_ranked(tables.comparison_rows(comparison)), seeds=tables.shared_seeds(comparison),
        undecided=_undecided(comparison),
        conditions={kind: privacy.conditions(each) for kind, each in privacy.figures(comparison).items()},
        sweeps=swept,
        axes={axis: AXIS_NAMES[axis] for axis in figures[learning[0].id]["axes"]} if learning else {},
        learning=learning, undrawn_groups=len(running) - len(drawn),
        without_energy=text.some([group.label for group in drawn if not group.has_energy]),
        columns=adversary_columns(comparison), words=_words(comparison),
        growth=growth, assumptions=assumption_table(drawn), spread=spread,
        levels=levels, level_figures=level_figures, undrawn=len(changing[MAX_LEVEL_PLOTS:]),
        energy=energy, energy_drawn=energy_drawn,
        common=settings.common(comparison), differing=settings.differing(comparison),
        environments=settings.environments(comparison.runs),
        command=commands.comparison_command(comparison),
        group_commands=commands.commands(recipes),
        runs=[RunCommand(run, commands.run_command(run)) for run in comparison.runs],
        cards=cards(comparison.runs),
        figures=figures,
    )  # fmt: skip


def document(section: Section) -> ReportComparison:
    """The section for JSON: its groups with what the comparison table shows."""
    return {
        "title": section.title,
        "finding": section.finding,
        "groups": [
            {
                "label": group.label,
                "scheme": group.config.scheme,
                "finished": group.finished,
                "rounds": group.rounds,
                "seeds": [run.config.seed for run in group.runs],
                "row": group.row,
                "command": section.group_commands.get(group.label),
            }
            for group in section.comparison.groups
        ],
        "command": section.command,
        "run_commands": [each.command for each in section.runs],
        "cards": names(section.cards),
    }


def title(comparison: Comparison) -> str:
    """The heading of a comparison: who on which data."""
    schemes = comparison.schemes
    who = schemes[0] if len(schemes) == 1 else f"{len(schemes)} schemes"
    flats = [effective(group.runs[0]) for group in comparison.groups]
    count = len({repr([flat.get(key) for key in comparison.differing]) for flat in flats})
    several = f", {count} settings" if count > len(schemes) else ""
    return f"{who} on {comparison.groups[0].config.data.name}{several}"


def _most_accurate(groups: Sequence[Group]) -> list[Group]:
    """As many groups as a figure can hold, the most accurate ones, in the order of the page."""
    best = sorted(groups, key=lambda group: -_accuracy(group))[:MAX_DRAWN]
    return [group for group in groups if group in best]


def _accuracy(group: Group) -> float:
    return -1.0 if (row := group.row) is None else row["accuracy"]["mean"]


def _ranked(rows: Sequence[tables.ComparisonRow]) -> list[tables.ComparisonRow]:
    """The rows of a short table as they are; those of a long one by falling accuracy, since the rest is folded."""
    return list(rows) if len(rows) <= MAX_ROWS else sorted(rows, key=lambda row: -_accuracy(row.group))


def _undecided(comparison: Comparison) -> list[str]:
    """Which differences in accuracy are undecided, among groups that can be compared and share their seeds."""
    found = {group.label: accuracies(group) for group in field(comparison).groups}
    if not 2 <= len(found) <= MAX_DRAWN or len({tuple(sorted(each)) for each in found.values()}) > 1:
        return []
    return pair_notes(pairs({label: [each[seed] for seed in sorted(each)] for label, each in found.items()}))


def _words(comparison: Comparison) -> list[str]:
    """What the words beside ε mean, and what they do not."""
    config = comparison.groups[0].config
    note = delta_note(delta=max(group.config.delta for group in comparison.groups), devices=config.data.devices)
    return [f"{CONVENTION}.", *([f"{note}."] if note else []), *_data_notes(comparison)]


def _data_notes(comparison: Comparison) -> list[str]:
    """What the figures assume of the data, and of which groups."""
    found: dict[str, list[Group]] = {}
    for group in comparison.groups:
        row, first = group.row, group.runs[0].environment
        for note in first.get("data_notes", []) if row is None else row["privacy"].get("data_notes", []):
            found.setdefault(note["sentence"], []).append(group)
    everyone = comparison.groups
    return [
        f"data{'' if len(some) == len(everyone) else f' ({privacy.who(some, everyone)})'}: {sentence}."
        for sentence, some in found.items()
    ]


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
        f"{text.numbers(seeds)}. {settings.made(comparison.runs)}"
    )


def _span(values: Sequence[int]) -> str:
    return f"{min(values):,}" if min(values) == max(values) else f"{min(values):,} to {max(values):,}"
