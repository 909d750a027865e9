"""A finished run, read from its directory without its config being made real: no data, and no code from elsewhere."""

from functools import partial
from pathlib import Path

from pfels.config.load import stored_tables
from pfels.config.tree import Config, digest_of, flattened
from pfels.errors import InputError, quoted
from pfels.experiment.directory import RunDirectory
from pfels.experiment.result import Result
from pfels.experiment.state import delivered

KINDS = {"scheme": str, "seed": int, "rounds": int}


def load_run(path: str | Path) -> Result:
    """The finished run in a directory, verified against its own config, checkpoint and log. Its scheme need not be
    installed here, and no code from elsewhere is imported.

    >>> import pfels, tempfile
    >>> out = tempfile.mkdtemp()
    >>> result = pfels.run(pfels.load_config("demo", {"rounds": 2}), out)
    >>> pfels.load_run(out).records == result.records
    True
    """
    folder = Path(path)
    file = folder / "config.toml"
    if not file.is_file():
        raise InputError(f"{folder}: no run directory, for it has no config.toml; give the directory of one run")
    flat = flattened(stored_tables(file))
    for key, kind in KINDS.items():
        if type(flat.get(key)) is not kind:
            raise InputError(f"{file}: {key} = {quoted(flat.get(key))}: not the config of a run")
    config = Config.model_construct(**{key: flat[key] for key in KINDS})  # unchecked: that would import the scheme
    directory = RunDirectory(folder, config, digest=digest_of(flat))
    finished = directory.finished()
    if finished is None:
        raise InputError(f"{folder}: the run is not finished; pfels.run(config, out, resume=True) goes on with it")
    summary, last = finished
    planned = summary["stopped"]["planned_rounds"] if "stopped" in summary else summary["rounds"]
    for key, value in (("scheme", summary["scheme"]), ("seed", summary["seed"]), ("rounds", planned)):
        if value != flat[key]:
            raise InputError(
                f"{folder}: summary.json: {key} = {quoted(value)}, but config.toml has {quoted(flat[key])}"
            )
    if last.round != summary["rounds"]:
        raise InputError(f"{folder}: summary.json: rounds = {summary['rounds']}, but the checkpoint has {last.round}")
    return Result(summary, delivered(last.tensors), partial(directory.records, last.mark))
