"""A config as TOML."""

from collections.abc import Iterator, Mapping
from typing import Any


def to_toml(tree: Mapping[str, Any]) -> str:
    """A mapping of scalars and of tables of scalars as TOML."""
    return "".join(_toml_lines(tree))


def _toml_lines(tree: Mapping[str, Any]) -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield f"\n[{key}]\n"
            yield from _toml_lines(value)
        else:
            yield f"{key} = {toml_value(value)}\n"


def toml_value(value: bool | int | float | str) -> str:
    """A scalar as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
    return repr(value)
