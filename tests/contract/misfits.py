"""Where a document differs from its type."""

import types
import typing
from typing import Any, NotRequired

from typing_extensions import get_type_hints, is_typeddict


def misfits(kind: Any, content: Any, where: str = "") -> list[str]:
    """Where a document differs from its type: fields that are missing, unknown, or of another type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return misfits(arguments[0], content, where)
    if is_typeddict(kind):
        if not isinstance(content, dict):
            return [f"{where}: {type(content).__name__}"]
        hints = get_type_hints(kind, include_extras=True)
        optional = {name for name, hint in hints.items() if typing.get_origin(hint) is NotRequired}
        plain = {name: typing.get_args(hint)[0] if name in optional else hint for name, hint in hints.items()}
        found = [f"{where}.{name}: missing" for name in plain if name not in content and name not in optional]
        found += [f"{where}.{name}: not in the type" for name in content if name not in plain]
        return found + [f for n, v in content.items() if n in plain for f in misfits(plain[n], v, f"{where}.{n}")]
    if origin in (typing.Union, types.UnionType):
        tried = [misfits(each, content, where) for each in arguments]
        return min(tried, key=len)
    if origin in (list, dict) and not isinstance(content, origin):
        return [f"{where}: {type(content).__name__}"]
    if origin is list:
        return [f for i, v in enumerate(content) for f in misfits(arguments[0], v, f"{where}[{i}]")]
    if origin is dict:
        return [f for key, v in content.items() for f in misfits(arguments[1], v, f"{where}.{key}")]
    if kind is object or kind is Any:
        return []
    if kind is float:
        kind = (int, float)
    right = isinstance(content, kind) and (not isinstance(content, bool) or kind is bool)
    return [] if right else [f"{where}: {type(content).__name__}"]
