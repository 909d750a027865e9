"""How the runs of a report were made: their settings, their environment, and the commands that make them again."""

import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pfels.config.load import load_config, parse_value
from pfels.config.scheme_settings import uses
from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.experiment.reader import StoredRun
from pfels.report.groups import Comparison, Group, effective, used_settings, written
from pfels.runtime.files import printable


@dataclass(frozen=True)
class SharedSettings:
    """The settings that all runs share, as text, table by table as in the config file.

    `notes` numbers, from 1, the schemes that use a setting which others do not; `marks` has the number of such a
    setting by its full key.
    """

    tables: Mapping[str, Mapping[str, str]]
    marks: Mapping[str, int]
    notes: Sequence[str]


@dataclass(frozen=True)
class DifferingRow:
    """The settings that set one group apart, by full key, and its seeds."""

    group: Group
    values: Mapping[str, str]
    seeds: str


@dataclass(frozen=True)
class SharedEnvironment:
    """An environment, and the names of the runs made in it."""

    facts: Mapping[str, str]
    runs: Sequence[str]


def common(comparison: Comparison) -> SharedSettings:
    """The settings that all runs share, and which schemes use them where not all do."""
    settings, schemes = comparison.common, comparison.schemes
    if "privacy.delta" in settings and comparison.groups[0].config.privacy.delta is None:
        settings["privacy.delta"] = f"1/N = {settings['privacy.delta']:g}"
    tables: dict[str, dict[str, str]] = {}
    marks: dict[str, int] = {}
    notes: list[str] = []
    for key, value in settings.items():
        table, _, leaf = key.rpartition(".")
        tables.setdefault(table, {})[leaf] = written(value)
        users = [scheme for scheme in schemes if uses(scheme, key)]
        if len(users) < len(schemes):
            note = ", ".join(users)
            if note not in notes:
                notes.append(note)
            marks[key] = notes.index(note) + 1
    return SharedSettings(tables, marks, notes)


def differing(comparison: Comparison) -> list[DifferingRow]:
    """The settings that set the groups apart, one row per group."""
    rows = []
    for group in comparison.groups:
        flat, scheme = effective(group.runs[0]), group.config.scheme
        values = {
            key: written(flat[key]) if key in flat else "not set" if uses(scheme, key) else "not used"
            for key in comparison.differing
        }
        rows.append(DifferingRow(group, values, ", ".join(str(run.config.seed) for run in group.runs)))
    return rows


def environments(runs: Sequence[StoredRun]) -> list[SharedEnvironment]:
    """The distinct environments of these runs."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in runs:
        found.setdefault(tuple(_flattened(run.environment).items()), []).append(run.name)
    return [SharedEnvironment(dict(facts), names) for facts, names in found.items()]


def run_command(run: StoredRun) -> str:
    """The command that makes a run again next to the old one, or that finishes an unfinished one."""
    config = _quoted(run.path / "config.toml")
    if run.summary is None:
        return f"pfels run {config} --out {_quoted(run.path)} --resume"
    again = f"{run.path.resolve().name}-again"
    beside = run.path.with_name(again) if run.path.name else Path("..") / again
    return f"pfels run {config} --out {_quoted(beside)}"


def comparison_command(comparison: Comparison) -> str | None:
    """The one command that makes all runs again, or None where they are not a full grid.

    The grid that the command would run is built here and compared with the runs, config by config. Its base is the
    config of one of the schemes, since a config has defaults for what its own scheme does not use.
    """
    runs = comparison.runs
    if len(runs) < 2:
        return None
    flats = [run.config.flat() for run in runs]
    if not all(key in flat for key in comparison.differing for flat in flats):
        return None
    axes = {key: list(dict.fromkeys(_text(flat[key]) for flat in flats)) for key in comparison.differing}
    seeds = sorted({run.config.seed for run in runs})
    if any("," in value for values in axes.values() for value in values):
        return None
    first = {run.config.scheme: run.path / "config.toml" for run in reversed(runs)}
    bases = (base for _, base in sorted(first.items(), key=lambda item: comparison.schemes.index(item[0])))
    base = next((base for base in bases if _makes(base, axes, seeds, runs)), None)
    if base is None:
        return None
    options = ["--seeds", ",".join(map(str, seeds)), "--out", "again"]
    if set(axes) <= {"scheme"}:
        schemes = axes.get("scheme", comparison.schemes)
        return shlex.join(["pfels", "compare", printable(base), "--schemes", ",".join(schemes), *options])
    grids = [word for key, values in axes.items() for word in ("--grid", f"{key}={','.join(values)}")]
    return shlex.join(["pfels", "sweep", printable(base), *grids, *options])


def _makes(base: Path, axes: Mapping[str, list[str]], seeds: Sequence[int], runs: Sequence[StoredRun]) -> bool:
    if math.prod(map(len, axes.values())) * len(seeds) != len(runs):
        return False
    try:
        made = [
            load_config(base, dict(zip(axes, map(parse_value, values), strict=True)) | {"seed": seed})
            for values in itertools.product(*axes.values())
            for seed in seeds
        ]
    except InputError:  # a scheme would be given a setting that it does not use
        return False
    return sorted(map(_identity, made)) == sorted(_identity(run.config) for run in runs)


def _identity(config: Config) -> str:
    return repr(sorted(used_settings(config).items()))


def _flattened(environment: Mapping[str, object]) -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in environment.items():
        flat |= _flattened(value) if isinstance(value, dict) else {key: _text(value)}
    return flat


def _text(value: object) -> str:
    """A setting as it is written on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(path: Path) -> str:
    return shlex.quote(printable(path))
