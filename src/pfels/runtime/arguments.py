"""Arguments of public functions: what is meant is taken, and the rest refused in one line that names the argument."""

import os
from collections.abc import Iterable, Mapping, Set
from numbers import Real
from operator import index
from pathlib import Path
from typing import Any, TypeVar

from pfels.errors import InputError, quoted

T = TypeVar("T")


def plain(value: Any) -> Any:
    """NumPy's numbers and text as Python's own, and a path as text, in tables and lists as well.

    >>> import numpy, pathlib
    >>> plain({"rounds": numpy.int64(3), "data.path": pathlib.Path("mine.npz")})
    {'rounds': 3, 'data.path': 'mine.npz'}
    """
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return value.item()
    if isinstance(value, Mapping):
        return {key: plain(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def whole(name: str, value: Any, *, minimum: int = 0) -> int:
    """A whole number, also one of NumPy's."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or number < minimum:
        raise InputError(f"{name} = {quoted(value)}: must be a whole number of at least {minimum}")
    return number


def values(name: str, given: Any, *, such_as: str) -> list[Any]:
    """At least one value, all different: of a list, an array, a range, a set (in order), …"""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        raise InputError(f"{name} = {quoted(given)}: must be a list, such as {such_as}")
    found = [plain(each) for each in given]
    found = sorted(found, key=repr) if isinstance(given, Set) else found
    if not found:
        raise InputError(f"{name}: must be at least one, such as {such_as}")
    if len({repr(each) for each in found}) < len(found):
        raise InputError(f"{name} = {quoted(found)}: must be different values")
    return found


def seed_values(given: Any, *, name: str = "seeds") -> list[int]:
    """Seeds: whole numbers from 0, all different."""
    example = f"[{given}]" if isinstance(given, int) and not isinstance(given, bool) and given >= 0 else "[0, 1, 2]"
    return [whole(name, each) for each in values(name, given, such_as=example)]


def name_values(name: str, given: Any) -> list[Any]:
    """Names in a list, or as one text with commas in between, as in the command."""
    if isinstance(given, str):
        given = [each.strip() for each in given.split(",")]
    return values(name, given, such_as="['pfels', 'wfl-p']")


def axes_of(name: str, given: Any) -> dict[str, list[Any]]:
    """The axes of a grid: settings, each with a list of values to try."""
    if not isinstance(given, Mapping) or not given:
        example = "{'compression.ratio': [0.1, 0.3]}"
        raise InputError(f"{name} = {quoted(given)}: must hold at least one key with values to try, such as {example}")
    return {
        key: values(f"{name}: {key}", some, such_as=repr([some] if isinstance(some, Real | str) else [0.1, 0.3]))
        for key, some in given.items()
    }


def path_of(name: str, given: Any) -> Path:
    """A path, given as text or as a path."""
    if isinstance(given, str | os.PathLike) and isinstance(found := os.fspath(given), str) and "\0" not in found:
        return Path(found)
    raise InputError(f"{name} = {quoted(given)}: must be a path, such as 'runs/mine'")


def instance(name: str, given: Any, kind: type[T], *, such_as: str) -> T:
    """What must be of one type."""
    if isinstance(given, kind):
        return given
    raise InputError(f"{name} = {quoted(given)}: must be a {kind.__name__}, such as {such_as}")


def called(**given: Any) -> None:
    """An InputError for a callback that cannot be called."""
    for name, function in given.items():
        if not callable(function):
            raise InputError(f"{name} = {quoted(function)}: must be a function")
