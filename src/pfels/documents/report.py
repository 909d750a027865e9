"""Documents about a report: what went into the page."""

from typing_extensions import TypedDict

from pfels.documents.studies import AggregateRow


class DamagedRun(TypedDict):
    """A directory that is left out."""

    run: str  # its path
    reason: str  # what is wrong with it


class CopiedRun(TypedDict):
    """A run that repeats another one and is left out."""

    run: str  # its path
    of: str  # the path of the run that is shown


class ReportGroup(TypedDict):
    """Finished runs that differ in their seed alone, or one unfinished run."""

    label: str  # the scheme, and the settings that set the group apart
    scheme: str  # the scheme
    finished: bool  # whether its runs are finished
    rounds: int  # rounds done
    seeds: list[int]  # the seeds
    row: AggregateRow | None  # means over the seeds and the worst privacy figures; null: unfinished
    command: str | None  # the command that makes its runs again on any machine; null: no preset is near enough


class ReportComparison(TypedDict):
    """Groups with the same data and network: one table of the page."""

    title: str  # its heading on the page
    finding: str  # who is best within error, at what cost, and what is undecided
    groups: list[ReportGroup]  # one row per group
    command: str | None  # the command that makes all runs again; null: they are not a full grid
    run_commands: list[str]  # one command per run, which makes it again or finishes it
    cards: list[str]  # paths of the privacy cards that agree with their runs


class Report(TypedDict):
    """`pfels report --json` and `pfels.write_report`."""

    report: str  # path of the page
    runs: int  # runs on the page
    unfinished: list[str]  # paths of the unfinished runs
    damaged: list[DamagedRun]  # directories left out as damaged
    copies: list[CopiedRun]  # runs left out as copies
    unknown_code: list[str]  # runs whose code from outside pfels is not recorded: means may mix several versions of it
    studies: list[ReportComparison]  # one per data set and network
