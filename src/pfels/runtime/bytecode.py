"""What compiled functions are and do: whether one is that of its file, and which variables it reads and sets."""

import dis
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

CONSTRUCTORS = ("__init__", "__post_init__", "__new__", "__setstate__")


class Names(NamedTuple):
    """The global variables that a function and those in it read, the attributes that they read, and the global and
    outer variables and the attributes that they set."""

    globals: frozenset[str]
    attributes: frozenset[str]
    stored: frozenset[str]
    stored_attributes: frozenset[str]


@cache
def names_in(code: CodeType) -> Names:
    """The names that a function uses."""
    found: dict[str, set[str]] = {"globals": set(), "attributes": set(), "stored": set(), "stored_attributes": set()}
    for each in nested(code):
        for step in dis.get_instructions(each):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                found["globals"].add(step.argval)
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                found["attributes"].add(step.argval)
            elif step.opname == "STORE_ATTR":
                found["stored_attributes"].add(step.argval)
            elif step.opname == "STORE_GLOBAL" or (step.opname == "STORE_DEREF" and step.argval in each.co_freevars):
                found["stored"].add(step.argval)
    return Names(**{name: frozenset(some) for name, some in found.items()})


def nested(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of the functions in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from nested(each)


def changed_by_methods(kind: type) -> frozenset[str]:
    """The attributes that a class's own methods set, other than when an object is made."""
    methods = [value for name, value in vars(kind).items() if name not in CONSTRUCTORS]
    return frozenset(
        name for each in methods if isinstance(each, FunctionType) for name in names_in(each.__code__).stored_attributes
    )


def source_of(code: CodeType) -> Path | None:
    """The file that a function was read from, if it was read from one."""
    path = Path(code.co_filename)
    return path if path.suffix == ".py" and path.is_file() else None


def is_generated(code: CodeType) -> bool:
    """Whether a library wrote the function, as dataclasses do: it follows from the class that it is of."""
    return code.co_filename == "<string>" and code.co_name.startswith("__")


def is_in_file(code: CodeType, path: Path) -> bool:
    """Whether a function is what the file says now under its name: it may have been edited since it was imported, and
    several functions may have one name, as those of `lambda` have."""
    named = [each for each in _compiled(path.read_bytes(), code.co_filename) if each.co_qualname == code.co_qualname]
    return named == [code]


def stored_by_any(function: FunctionType) -> frozenset[str]:
    """The global and outer variables that functions of the same file set, or of the same notebook: what code sets is
    its own, and not given to it."""
    path = source_of(function.__code__)
    if path is not None:
        codes = _compiled(path.read_bytes(), function.__code__.co_filename)
    else:
        codes = frozenset(each.__code__ for each in function.__globals__.values() if isinstance(each, FunctionType))
    return frozenset(name for code in (function.__code__, *codes) for name in names_in(code).stored)


@cache
def _compiled(source: bytes, name: str) -> frozenset[CodeType]:
    """The code of every function in a source; nothing if that is no Python."""
    try:
        return frozenset(nested(compile(source, name, "exec", dont_inherit=True)))
    except (SyntaxError, ValueError):
        return frozenset()


def digest(code: CodeType) -> str:
    """A hash of what a function does: the same for the same source and version of Python, wherever it stands."""
    parts = [code.co_code.hex(), *code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars]
    parts += [digest(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    return joined([*parts, str(code.co_flags), code.co_exceptiontable.hex()])


def _constant(value: object) -> str:
    if isinstance(value, frozenset):
        return joined(sorted(map(_constant, value)))
    return joined(map(_constant, value)) if isinstance(value, tuple) else f"{type(value).__name__} {value!r}"


def joined(texts: Iterable[str]) -> str:
    """A hash of texts, in order."""
    return sha256("".join(f"{len(text)}:{text}" for text in texts))


def sha256(content: str | bytes) -> str:
    """The SHA-256 of a text or of bytes."""
    return hashlib.sha256(
        content.encode(errors="backslashreplace") if isinstance(content, str) else content
    ).hexdigest()
