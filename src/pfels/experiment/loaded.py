"""A finished run, read from its directory without its config being made real: no data, and no code from elsewhere."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from pfels.config.load import stored_config, stored_tables
from pfels.config.messages import explain
from pfels.config.tree import Config, digest_of, flattened
from pfels.errors import InputError, quoted
from pfels.experiment.directory import RunDirectory
from pfels.experiment.origin import stored
from pfels.experiment.result import Result
from pfels.experiment.state import delivered
from pfels.schemes.registry import BUILT_IN

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
    tree = stored_tables(file)
    flat = flattened(tree)
    for key, kind in KINDS.items():
        if type(flat.get(key)) is not kind:
            raise InputError(f"{file}: {key} = {quoted(flat.get(key))}: not the config of a run")
    known = flat["scheme"] in BUILT_IN
    config = stored_config(file) if known else _without_its_scheme(tree, flat)
    directory = RunDirectory(folder, config, digest=digest_of(flat))
    finished = directory.finished(figures=known)
    if finished is None:
        raise InputError(f"{folder}: the run is not finished; pfels.run(config, out, resume=True) goes on with it")
    summary, last = finished
    origin = stored(directory, summary, last)
    return Result(summary, delivered(last.tensors), partial(directory.records, last.mark), origin)


def _without_its_scheme(tree: Mapping[str, Any], flat: Mapping[str, Any]) -> Config:
    """The config of a run of a scheme from elsewhere, which is not imported: each table is checked by itself."""
    tables: dict[str, Any] = {}
    for name, field in Config.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel) and name in tree:
            try:
                tables[name] = kind.model_validate(tree[name])
            except ValidationError as error:
                raise InputError(explain(error.errors()[0], kind, table=name)) from None
    return Config.model_construct(**{key: flat[key] for key in KINDS}, **tables)
