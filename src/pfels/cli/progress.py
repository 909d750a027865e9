"""Live progress on stderr."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pfels.runtime.processes import Report

if TYPE_CHECKING:
    from pfels.studies.sweep import Point


@contextmanager
def progress(labels: Sequence[str], totals: Sequence[int]) -> Iterator[Report]:
    """One bar for all runs together and one per run under way; gives `report(index, done)`."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        everything = bars.add_task("all rounds", total=sum(totals), visible=len(totals) > 1)
        tasks: dict[int, TaskID] = {}
        done_so_far = [0] * len(totals)

        def report(index: int, done: int) -> None:
            bars.update(everything, advance=done - done_so_far[index])
            done_so_far[index] = done
            if done < totals[index] or len(totals) == 1:
                if index not in tasks:  # not before: to lay out a thousand hidden bars takes seconds
                    tasks[index] = bars.add_task(escape(labels[index]), total=totals[index])
                bars.update(tasks[index], completed=done)
            elif index in tasks:
                bars.remove_task(tasks.pop(index))

        yield report


def watch(points: "Sequence[Point]") -> AbstractContextManager[Report]:
    """Progress of the runs of a sweep or a comparison."""
    from pfels.experiment.directory import point_name

    return progress([point_name(point.settings) for point in points], [point.config.rounds for point in points])
