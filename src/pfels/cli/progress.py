"""Progress on stderr: live bars on a terminal, and lines for a log where there is none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from pfels.cli.progress_lines import Lines
from pfels.experiment.standing import Standing
from pfels.report.terminal import say

if TYPE_CHECKING:
    from pfels.runtime.processes import Report
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
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal or os.environ.get("RANK", "0") != "0":  # of torchrun's processes one is shown
        yield Lines(say)
        return
    from pfels.cli.progress_bars import Bars

    with Bars(console) as bars:
        yield bars


def watch(display: Display, points: Sequence[Point]) -> AbstractContextManager[Report[Standing]]:
    """Progress of the runs of a sweep or a comparison."""
    from pfels.experiment.directory import point_name

    labels = [point_name(point.settings).removeprefix("scheme=") for point in points]
    return display.runs(labels, [p.config.rounds for p in points], [p.config.delta for p in points])
