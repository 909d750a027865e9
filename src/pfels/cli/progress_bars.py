"""Progress as live bars on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from pfels.cli.progress_lines import legend, standing_text
from pfels.errors import one_line
from pfels.experiment.standing import Standing

if TYPE_CHECKING:
    from pfels.runtime.processes import Report


class Bars(Progress):
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
                    done, name = standing.rounds, escape(one_line(labels[index]))
                    tasks[index] = self.add_task(name, total=totals[index], completed=done, standing=text)
                self.update(tasks[index], completed=standing.rounds, standing=text)
            elif index in tasks:
                self.remove_task(tasks.pop(index))

        yield report
        for task in (*tasks.values(), *([] if everything is None else [everything])):
            self.remove_task(task)
        self.legend = ""
        self.update(self.loading, visible=True, description="working")
