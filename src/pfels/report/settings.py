"""How the runs of a report were made: their settings, their environment, and the commands that make them again."""

import itertools
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfels.config.load import load_config, parse_value
from pfels.config.tree import NEUTRAL_KEYS, Config
from pfels.errors import InputError
from pfels.experiment.reader import StoredRun
from pfels.report.groups import Study, effective
from pfels.runtime.files import show


def common(study: Study) -> dict[str, dict[str, str]]:
    """The settings that all runs share, table by table as in the config file."""
    tables: dict[str, dict[str, str]] = {}
    settings = study.common
    if "privacy.delta" not in {*settings, *study.differing}:
        settings["privacy.delta"] = f"1/N = {study.groups[0].config.delta:g}"
    for key, value in settings.items():
        table, _, leaf = key.rpartition(".")
        tables.setdefault(table, {})[leaf] = _text(value)
    return tables


def differing(study: Study) -> list[dict[str, Any]]:
    """What sets the groups apart, a row a group."""
    rows = []
    for group in study.groups:
        flat = effective(group.runs[0])
        values = {key: _text(flat[key]) if key in flat else "not set" for key in study.differing}
        rows.append({"group": group, "values": values, "seeds": ", ".join(str(run.config.seed) for run in group.runs)})
    return rows


def environments(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """The distinct environments of these runs, each with the runs that were made in it."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in runs:
        found.setdefault(tuple(_flattened(run.environment).items()), []).append(run.name)
    return [{"facts": dict(facts), "runs": names} for facts, names in found.items()]


def run_command(run: StoredRun) -> str:
    """The command that makes a run again next to the old one, or that finishes an unfinished one."""
    config = _quoted(run.path / "config.toml")
    if run.summary is None:
        return f"pfels run {config} --out {_quoted(run.path)} --resume"
    again = f"{run.path.resolve().name}-again"
    beside = run.path.with_name(again) if run.path.name else Path("..") / again
    return f"pfels run {config} --out {_quoted(beside)}"


def study_command(study: Study) -> str | None:
    """The one command that makes the whole study again, or None where its runs are not a full grid.

    The grid that the command would run is built here and compared with the runs, config by config.
    """
    runs = study.runs
    if len(runs) < 2:
        return None
    flats = [run.config.flat() for run in runs]
    if not all(key in flat for key in study.differing for flat in flats):
        return None
    axes = {key: list(dict.fromkeys(_text(flat[key]) for flat in flats)) for key in study.differing}
    seeds = sorted({run.config.seed for run in runs})
    base = runs[0].path / "config.toml"
    if any("," in value for values in axes.values() for value in values) or not _makes(base, axes, seeds, runs):
        return None
    words = ["--seeds", ",".join(map(str, seeds)), "--out", "again"]
    if set(axes) <= {"scheme"}:
        names = axes.get("scheme", [runs[0].config.scheme])
        words = ["compare", show(base), "--schemes", ",".join(names), *words]
    else:
        grids = [word for key, values in axes.items() for word in ("--grid", f"{key}={','.join(values)}")]
        words = ["sweep", show(base), *grids, *words]
    return shlex.join(["pfels", *words])


def _makes(base: Path, axes: Mapping[str, list[str]], seeds: Sequence[int], runs: Sequence[StoredRun]) -> bool:
    try:
        made = [
            load_config(base, dict(zip(axes, map(parse_value, values), strict=True)) | {"seed": seed})
            for values in itertools.product(*axes.values())
            for seed in seeds
        ]
    except InputError:  # a scheme would be given what it does not know
        return False
    return sorted(map(_identity, made)) == sorted(_identity(run.config) for run in runs)


def _identity(config: Config) -> str:
    return repr(sorted((key, value) for key, value in config.flat().items() if key not in NEUTRAL_KEYS))


def _flattened(environment: Mapping[str, Any]) -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in environment.items():
        flat |= _flattened(value) if isinstance(value, dict) else {key: _text(value)}
    return flat


def _text(value: Any) -> str:
    """A setting as it is written on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(path: Path) -> str:
    return shlex.quote(show(path))
