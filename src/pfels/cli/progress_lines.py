"""Progress as lines for a log: one when the work begins, one a minute, one at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pfels.experiment.standing import Standing
from pfels.report.terminal import PROVEN
from pfels.report.text import duration, epsilon

if TYPE_CHECKING:
    from pfels.runtime.processes import Report

MINUTE_S = 60.0


def standing_text(standing: Standing, total: int) -> str:
    """How far a run is: `120 of 300, accuracy 0.873, ε 4.21`."""
    text = f"{standing.rounds:,} of {total:,}"
    if standing.accuracy is not None:
        text += f", accuracy {standing.accuracy:.3f}"
    if standing.epsilon is not None:
        text += f", ε {epsilon({'name': '', 'epsilon': standing.epsilon})}"
    return text


def legend(deltas: Iterable[float]) -> str:
    """What the figures of runs under way are; ε never stands without its adversary and δ."""
    found = sorted(set(deltas))
    if not found:
        return ""
    at = f"δ = {found[0]:g}" if len(found) == 1 else f"δ from {found[0]:g} to {found[-1]:g}"
    from pfels.schemes.registry import is_foreign, scheme_names  # the help would have to wait for it

    whose = "for schemes of pfels " if any(map(is_foreign, scheme_names())) else ""
    return (
        "rounds done, accuracy at the last evaluation, and ε spent so far against the server by the worst device, at "
        f"{at}; neighbours: one device's data emptied; {whose}{PROVEN}"
    )


class Lines:
    """A display for logs, which gives its lines to `write`."""

    def __init__(
        self, write: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic, every_s: float = MINUTE_S
    ) -> None:
        self.write, self.clock, self.every_s = write, clock, every_s

    @contextmanager
    def runs(self, labels: Sequence[str], totals: Sequence[int], deltas: Iterable[float]) -> Iterator[Report[Standing]]:
        """Lines about these runs, from the first report on."""
        state = _State(labels, totals, self.clock())
        written, last = -math.inf, ""

        def write(now: float) -> None:
            nonlocal written, last
            line = state.line(now)
            if line != last:
                self.write(line)
            written, last = now, line

        def report(index: int, standing: Standing) -> None:
            state.add(index, standing)
            now = self.clock()
            if not last and (about := legend(deltas)):
                self.write(f"progress: {about}")
            if now - written >= self.every_s:
                write(now)

        yield report
        if last:
            write(self.clock())


class _State:
    """What is known of the runs of one display."""

    def __init__(self, labels: Sequence[str], totals: Sequence[int], began: float) -> None:
        self.labels, self.totals, self.began = labels, totals, began
        self.now: dict[int, Standing] = {}
        self.first: dict[int, int] = {}  # rounds done before this display saw a run

    def add(self, index: int, standing: Standing) -> None:
        self.first.setdefault(index, standing.rounds)
        self.now[index] = standing.since(self.now.get(index))

    def line(self, now: float) -> str:
        """One line: all runs, then those under way."""
        done, total = sum(each.rounds for each in self.now.values()), sum(self.totals)
        under_way = [i for i in sorted(self.now) if self.now[i].rounds < self.totals[i] or len(self.totals) == 1]
        parts = [f"{self.labels[i]}: {standing_text(self.now[i], self.totals[i])}" for i in under_way]
        if len(self.totals) > 1:
            finished = sum(each.rounds == self.totals[i] for i, each in self.now.items())
            parts.insert(0, f"{finished:,} of {len(self.totals):,} runs, {done:,} of {total:,} rounds")
        return f"progress: {'; '.join(parts)}; {self._time(now, done, total)}"

    def _time(self, now: float, done: int, total: int) -> str:
        passed, worked = now - self.began, done - sum(self.first.values())
        text = f"after {duration(round(passed))}"
        if worked and done < total:
            text += f", about {duration(round(passed / worked * (total - done)))} left"
        return text
