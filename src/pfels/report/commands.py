"""Commands that make runs again beside the stored ones, from their own configs."""

import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from pfels.config.load import load_config, parse_value
from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.experiment.reader import StoredRun
from pfels.report.groups import Comparison, used_settings
from pfels.runtime.files import printable


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


def _text(value: object) -> str:
    """A setting as it is written on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(path: Path) -> str:
    return shlex.quote(printable(path))
