"""Many runs as a table: what `compare`, `sweep` and `plan` return, as a pandas DataFrame."""

from collections.abc import Mapping
from typing import Any

from pfels.documents.studies import Comparison, Plan, Sweep
from pfels.errors import InputError
from pfels.experiment.result import Result
from pfels.runtime.frames import frame_of


def to_frame(found: Comparison | Sweep | Plan | Result) -> Any:
    """What `compare`, `sweep` or `plan` returned as a pandas DataFrame: one row per scheme, or per point of the grid.

    Of a `Result` it has one row per round. Nested fields become `accuracy.mean` and `privacy.server.epsilon`, and the
    value of each seed `accuracy.seed.0`. The
    settings of a grid are the index.

    >>> import pfels, tempfile
    >>> found = pfels.compare("demo", schemes=["pfels"], seeds=[0], overrides={"rounds": 2}, out=tempfile.mkdtemp())
    >>> pfels.to_frame(found)["subcarriers"]["pfels"].item()
    1446
    """
    table: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    if isinstance(found, Result):
        return found.to_frame()
    schemes, points = table.get("schemes"), table.get("points")
    if isinstance(schemes, Mapping) and schemes and all(isinstance(row, Mapping) for row in schemes.values()):
        return frame_of([{"scheme": name, **_by_seed(row)} for name, row in schemes.items()], index="scheme")
    if isinstance(points, list) and points and all(isinstance(row, Mapping) and "settings" in row for row in points):
        rows = [{**_by_seed(row), **row["settings"]} for row in points]
        frame = frame_of(rows, index=list(points[0]["settings"]))
        return frame.drop(columns=[name for name in frame.columns if name.startswith("settings.")])
    raise InputError("to_frame: takes what compare, sweep, plan or run returned")


def _by_seed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose figures over several seeds have the value of each under its seed."""
    found = {key: value for key, value in row.items() if key != "by_seed"}
    for key, values in row.get("by_seed", {}).items():
        named = dict(zip(map(str, row["seeds"]), values, strict=True))
        found[key] = {**(found[key] or {}), "seed": named}
    return found
