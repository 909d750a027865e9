"""Settings that were swept: the accuracy against each of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from pfels.report import text
from pfels.report.groups import CODE, Comparison, Group, Settings, effective, written

MAX_LINES = 12


@dataclass(frozen=True)
class Point:
    """A finished group at one value of a swept setting: its mean accuracy, and the standard error over its seeds."""

    value: object
    group: Group
    accuracy: float
    error: float | None

    @property
    def number(self) -> float | None:
        """The value, where it is a number."""
        return float(self.value) if isinstance(self.value, int | float) and not isinstance(self.value, bool) else None


@dataclass(frozen=True)
class Line:
    """Groups that differ in the swept setting alone, in the order of its values."""

    label: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Sweep:
    """One swept setting: its lines, the most accurate first, and how many more there are."""

    key: str
    lines: Sequence[Line]
    more: int

    @property
    def numeric(self) -> bool:
        """Whether all values are numbers."""
        return all(point.number is not None for line in self.lines for point in line.points)

    @property
    def logarithmic(self) -> bool:
        """Whether the values are positive and span more than a factor of 20."""
        values = [point.number or 0.0 for line in self.lines for point in line.points] if self.numeric else [0.0]
        return min(values) > 0 and max(values) > 20 * min(values)

    @property
    def values(self) -> list[str]:
        """All values as text, in their order on the axis."""
        points = [point for line in self.lines for point in line.points]
        if self.numeric:
            points.sort(key=lambda point: point.number or 0.0)
        return list(dict.fromkeys(written(point.value) for point in points))

    def cells(self, line: Line) -> list[str]:
        """The accuracies of a line as text, one cell per value."""
        found = {written(point.value): point.group.row for point in line.points}
        return [text.NONE if (row := found.get(value)) is None else text.accuracy(row) for value in self.values]


def sweeps(comparison: Comparison) -> list[Sweep]:
    """Every setting of which some scheme has two values or more, all else being equal."""
    finished = [group for group in comparison.groups if group.finished]
    keys = [key for key in comparison.differing if key not in ("scheme", CODE)]
    found = [(key, _lines(key, comparison.differing, finished)) for key in keys]
    return [Sweep(key, lines[:MAX_LINES], len(lines[MAX_LINES:])) for key, lines in found if lines]


def _lines(key: str, differing: Sequence[str], groups: Sequence[Group]) -> list[Line]:
    together: dict[str, list[Point]] = {}
    others: dict[str, Settings] = {}  # what else is set on each line
    for group in groups:
        flat = effective(group.runs[0])
        if key not in flat or group.row is None:
            continue
        rest = {other: flat.get(other) for other in differing if other != key} | {"scheme": group.config.scheme}
        accuracy = group.row["accuracy"]
        point = Point(flat[key], group, accuracy["mean"], accuracy["standard_error"])
        together.setdefault(repr(rest), []).append(point)
        others[repr(rest)] = rest
    kept = {place: points for place, points in together.items() if len(points) > 1}
    lines = [Line(_label(others[place], [others[p] for p in kept]), _ordered(points)) for place, points in kept.items()]
    return sorted(lines, key=lambda line: -max(point.accuracy for point in line.points))


def _ordered(points: Sequence[Point]) -> list[Point]:
    if all(point.number is not None for point in points):
        return sorted(points, key=lambda point: point.number or 0.0)
    return list(points)


def _label(mine: Settings, lines: Sequence[Settings]) -> str:
    """The scheme, and the settings that set its lines apart from each other."""
    same = [line for line in lines if line["scheme"] == mine["scheme"]]
    apart = [key for key in mine if key != "scheme" and len({repr(line.get(key)) for line in same}) > 1]
    return ", ".join([str(mine["scheme"]), *(f"{key.rpartition('.')[2]}={written(mine[key])}" for key in apart)])
