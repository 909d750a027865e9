"""Config errors in one line: what, where, what would be right."""

import difflib
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from pfels.config.synonyms import CUTOFF, question
from pfels.errors import quoted, shown


def explain(error: ErrorDetails, root: type[BaseModel], *, table: str = "") -> str:
    """One line for a validation error: the key, the value it had, and what it must be.

    `table` is where `root` stands in the config, if it is a scheme's own table.
    """
    key = ".".join(str(part) for part in error["loc"])
    name = shown(".".join(filter(None, (table, key))))
    if error["type"] in ("extra_forbidden", "invalid_key"):
        below = error["input"] if isinstance(error["input"], Mapping) else ()
        return unknown_key(key, root, table=table, below=below)
    if error["type"] == "value_error":
        return error["msg"].removeprefix("Value error, ")
    if not key:
        return f"{name} = {quoted(error['input'])}: must be a table"
    return f"{name} = {quoted(error['input'])}: {_requirement(key, root)}"


def unknown_key(key: str, root: type[BaseModel], *, table: str = "", below: Iterable[object] = ()) -> str:
    """One line for a key that does not exist, with those that may have been meant.

    `below` are the keys of an unknown table.
    """
    known = [f"{table}.{name}" if table else name for name in known_keys(root)]
    key = f"{table}.{key}" if table else key
    tables = list(dict.fromkeys(name.rpartition(".")[0] for name in known if "." in name))
    close = [] if "." in key else difflib.get_close_matches(shown(key).lower(), tables, n=1, cutoff=CUTOFF)
    typed = [f"{key}.{name}" for name in below if not close] or [key] * (not below)
    for each in typed:
        if asked := question(each, known):
            return f"{shown(each)}: unknown key{asked}"
    if close:
        return f"{shown(key)}: unknown table; did you mean {close[0]}?"
    before = key.rpartition(".")[0]
    same = [name for name in known if name.rpartition(".")[0] == before]
    rest = "" if before else f", and those of the tables {', '.join(tables)}"
    return f"{shown(key)}: unknown key; known: {', '.join(same)}{rest}"


def _requirement(key: str, root: type[BaseModel]) -> str:
    """What the field's own type and bounds ask for, in words."""
    model: Any = root
    *tables, leaf = key.split(".")
    for table in tables:
        model = model.model_fields[table].annotation
    field = model.model_fields[leaf]
    kind, metadata = field.annotation, list(field.metadata)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        name = f"; did you mean {key}.name?" if "name" in kind.model_fields else ""
        return f"must be a table with the keys {', '.join(kind.model_fields)}{name}"
    if get_origin(kind) in (Union, UnionType):
        kind = next(a for a in get_args(kind) if a is not type(None))
    if get_origin(kind) is Annotated:
        kind, *extra = get_args(kind)
        metadata += [m for e in extra for m in getattr(e, "metadata", [e])]
    if get_origin(kind) is Literal:
        return f"must be one of {', '.join(get_args(kind))}"
    pattern = next((m.pattern for m in metadata if getattr(m, "pattern", None)), None)
    bounds = {name: getattr(m, name) for m in metadata for name in ("gt", "ge", "lt", "le") if hasattr(m, name)}
    word = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false"}[kind]
    if pattern:
        return f"must be {field.description or f'{word} that matches {pattern}'}"
    return f"must be {word}{_interval(bounds)}"


def _interval(bounds: Mapping[str, Any]) -> str:
    ends = bounds.get("gt", bounds.get("ge")), bounds.get("lt", bounds.get("le"))
    low, high = (f"{end:g}" if isinstance(end, float) else end for end in ends)
    if low is not None and high is not None:
        return f" in {'(' if 'gt' in bounds else '['}{low}, {high}{')' if 'lt' in bounds else ']'}"
    if low is not None:
        return f" {'above' if 'gt' in bounds else 'of at least'} {low}"
    return ""


def known_keys(root: type[BaseModel]) -> list[str]:
    """The keys that a config has, as `table.key`."""
    keys = []
    for name, field in root.model_fields.items():
        if field.exclude:
            continue
        inner = getattr(field.annotation, "model_fields", None)
        keys += [name] if inner is None else [f"{name}.{leaf}" for leaf in inner]
    return keys
