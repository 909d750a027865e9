"""What a command says of runs that it did not make: from where they were read, and when they were finished."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pfels.cli.progress import Display, watch
from pfels.report.terminal import say
from pfels.report.text import listed

if TYPE_CHECKING:
    from pfels.experiment.standing import Standing
    from pfels.runtime.processes import Report
    from pfels.studies.sweep import Point


def finished_at(path: Path) -> float | None:
    """When the run in a directory was finished, if it is."""
    try:
        return (path / "summary.json").stat().st_mtime
    except OSError:
        return None


def when(times: Sequence[float]) -> str:
    """`finished 2026-11-19 23:50`, or from the first to the last."""
    first, last = (datetime.fromtimestamp(each).strftime("%Y-%m-%d %H:%M") for each in (min(times), max(times)))
    return f"finished {first}" if first == last else f"finished {first} to {last}"


class Stored:
    """Shows the progress of runs, and knows which of them were there before the command began."""

    def __init__(self, display: Display, *, fresh: bool) -> None:
        self.display, self.fresh, self.began = display, fresh, time.time()
        self.paths: list[Path] = []
        self.read: dict[Path, float] = {}

    def watch(self, points: Sequence[Point]) -> AbstractContextManager[Report[Standing]]:
        """Progress of the runs of a sweep or a comparison."""
        for point in points:
            self.paths.append(point.path)
            at = finished_at(point.path)
            if at is not None and at < self.began and not self.fresh:
                self.read[point.path] = at
        return watch(self.display, points)

    def say(self) -> None:
        """One line about the runs that were read, if there are any."""
        if self.read:
            folders = [str(folder) for folder in dict.fromkeys(path.parent for path in self.read)]
            count = f"{len(self.read)} of {len(self.paths)} runs read"
            say(f"{count} from {listed(folders)}, {when(list(self.read.values()))}")


def say_older_page(folder: Path, runs: Iterable[Path]) -> None:
    """A line about a report in the folder that is older than one of the runs."""
    page = folder / "report.html"
    times = [at for path in runs if (at := finished_at(path)) is not None]
    if page.is_file() and times and page.stat().st_mtime < max(times):
        say(f"{page} is older than these runs; `pfels report {shlex.quote(str(folder))}` writes it anew")
