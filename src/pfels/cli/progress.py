"""Progress on stderr: live bars on a terminal, and lines for a log where there is none."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from pfels.cli.progress_lines import Lines, legend, standing_text
from pfels.experiment.standing import Standing
from pfels.report.terminal import say
from pfels.runtime.processes import Report

if TYPE_CHECKING:
    from pfels.studies.sweep import Point


class Display(Protocol):
    """Shows runs, some time after it has begun itself."""

    def runs(
        self, labels: Sequence[str], totals: Sequence[int], deltas: Iterable[float]
    ) -> AbstractContextManager[Report[Standing]]:
        """Progress of these runs, of so many rounds each; `deltas` are the δ of their ε, if they have one."""
        ...


@contextmanager
def progress() -> Iterator[Display]:
    """What there is to see while a command works. It is on the screen before anything that takes time is loaded."""
    console = Console(stderr=True)
    if not console.is_terminal or os.environ.get("RANK", "0") != "0":  # of torchrun's processes one is shown
        yield Lines(say)
        return
    with _Bars(console) as bars:
        yield bars


def watch(display: Display, points: "Sequence[Point]") -> AbstractContextManager[Report[Standing]]:
    """Progress of the runs of a sweep or a comparison."""
    from pfels.experiment.directory import point_name

    labels = [point_name(point.settings).removeprefix("scheme=") for point in points]
    return display.runs(labels, [p.config.rounds for p in points], [p.config.delta for p in points])


class _Bars(Progress):
    """One bar for all runs together and one per run under way; all are gone when the command is done."""

    def __init__(self, console: Console) -> None:
        name = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1))
        text = TextColumn("{task.fields[standing]}", table_column=Column(no_wrap=True))
        columns = (name, BarColumn(bar_width=10), text, TimeElapsedColumn(), TimeRemainingColumn())
        self.legend = ""  # asked for by the next line already
        super().__init__(*columns, console=console, transient=True, expand=True)
        self.loading = self.add_task("loading", total=None, standing="")

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bars, and below them what their figures are."""
        yield from super().get_renderables()
        if self.legend:
            yield Text(self.legend, style="dim")

    @contextmanager
    def runs(self, labels: Sequence[str], totals: Sequence[int], deltas: Iterable[float]) -> Iterator[Report[Standing]]:
        """Show these runs until they are done."""
        tasks: dict[int, TaskID] = {}
        standings = [Standing(0)] * len(totals)
        everything: TaskID | None = None

        def report(index: int, standing: Standing) -> None:
            nonlocal everything
            before, standings[index] = standings[index], standing.since(standings[index])
            if everything is None:
                self.update(self.loading, visible=False)
                self.legend = legend(deltas)
                everything = self.add_task("all rounds", total=sum(totals), standing="", visible=len(totals) > 1)
            self.update(everything, advance=standing.rounds - before.rounds)
            self.update(everything, standing=f"{sum(each.rounds for each in standings):,} of {sum(totals):,}")
            text = standing_text(standings[index], totals[index])
            if standing.rounds < totals[index] or len(totals) == 1:
                if index not in tasks:  # not before: to lay out a thousand hidden bars takes seconds
                    done, name = standing.rounds, escape(labels[index])
                    tasks[index] = self.add_task(name, total=totals[index], completed=done, standing=text)
                self.update(tasks[index], completed=standing.rounds, standing=text)
            elif index in tasks:
                self.remove_task(tasks.pop(index))

        yield report
        for task in (*tasks.values(), *([] if everything is None else [everything])):
            self.remove_task(task)
        self.legend = ""
        self.update(self.loading, visible=True, description="working")
