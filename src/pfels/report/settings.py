"""How the runs of a report were made: their settings and their environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pfels.config.scheme_settings import uses
from pfels.documents.run import ForeignCode
from pfels.experiment.reader import StoredRun
from pfels.report import text
from pfels.report.groups import Comparison, Group, effective, written


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
        rows.append(DifferingRow(group, values, text.numbers(sorted(run.config.seed for run in group.runs))))
    return rows


def made(runs: Sequence[StoredRun]) -> str:
    """When the runs were finished, by the dates of their files, and with which version."""
    files = [run.path / ("config.toml" if run.summary is None else "summary.json") for run in runs]
    dates = sorted({f"{datetime.fromtimestamp(file.stat().st_mtime, UTC):%Y-%m-%d}" for file in files})
    versions = sorted({run.environment.get("versions", {}).get("pfels", "unknown") for run in runs})
    return f"Files of {' to '.join(dict.fromkeys((dates[0], dates[-1])))} (UTC), made with pfels {', '.join(versions)}."


def environments(runs: Sequence[StoredRun]) -> list[SharedEnvironment]:
    """The distinct environments of these runs."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in runs:
        facts = {key: value for key, value in run.environment.items() if key != "data_notes"}  # beside the figures
        if "code" in run.environment:
            facts["code"] = ", ".join(map(_code, run.environment["code"]))
        found.setdefault(tuple(_flattened(facts).items()), []).append(run.name)
    return [SharedEnvironment(dict(facts), names) for facts, names in found.items()]


def _code(code: ForeignCode) -> str:
    """Foreign code in a few words; the hashes of its files are in environment.json."""
    version = f" {code['version']}" if code["version"] else ""
    return f"{code['role']} {code['name']}{version}, {text.counted(len(code['files']), 'file')}"


def _flattened(environment: Mapping[str, object]) -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in environment.items():
        flat |= _flattened(value) if isinstance(value, dict) else {key: _text(value)}
    return flat


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
