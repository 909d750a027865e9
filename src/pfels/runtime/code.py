"""What code an object is made of: SHA-256 of the source files behind it, and of what the files do not tell.

The files are those of the object's top-level package, or its single file, and of everything that they import, directly
or through others, except Python's own modules and installed packages. Not in the files are functions that were typed
into a notebook or a shell, and values: arguments of a `functools.partial`, variables around a nested function,
attributes of an object, numbers and texts among the global variables. A file is hashed as it is on the disk; a function
that is not the one in its file, which was edited after it was imported, is hashed as well.
"""

import copyreg
import functools
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from pfels.runtime.bytecode import (
    changed_by_methods,
    digest,
    is_generated,
    is_in_file,
    joined,
    names_in,
    sha256,
    source_of,
    stored_by_any,
)
from pfels.runtime.source_files import (
    OURS,
    import_name,
    imported,
    is_installed,
    is_known,
    module_name,
    module_of,
    source_files,
)

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
CODE = (FunctionType, BuiltinFunctionType, type, ModuleType)


def is_ours(thing: object) -> bool:
    """Whether an object is part of this package alone."""
    parts = (thing.__func__, type(thing.__self__)) if isinstance(thing, MethodType) else (thing,)
    return all(
        module_of(part if isinstance(part, CODE) else type(part)).partition(".")[0] == OURS
        and getattr(part, "__closure__", None) is None
        for part in parts
    )


@dataclass
class Code:
    """What is known of some objects' code: files by their path from the folder that they are imported from, values by
    what they belong to, and what could not be hashed."""

    files: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    _roots: set[str] = field(default_factory=set)
    _modules: set[str] = field(default_factory=set)
    _seen: dict[int, object] = field(default_factory=dict)

    def add_module(self, module: str) -> None:
        """Add the files of a module's top-level package, wherever it is, and of what they import."""
        top = module.partition(".")[0]
        self._roots.add(top)
        self._add_files(top)

    def add(self, thing: object, name: str) -> None:
        """Add an object and all that it is made of, under this name."""
        first: Any = thing.func if isinstance(thing, functools.partial) else thing
        makers = (first.__func__, type(first.__self__)) if isinstance(first, MethodType) else (first,)
        self._roots |= {module_of(each if isinstance(each, CODE) else type(each)).partition(".")[0] for each in makers}
        self._value(thing, name)

    def _add_files(self, top: str) -> None:
        if top in self._modules or not self._is_foreign(top):
            return
        self._modules.add(top)
        for name, path in source_files(top):
            content = path.read_bytes()
            self.files[name] = sha256(content)
            for other in imported(content) if path.suffix == ".py" else ():
                self._add_files(other)

    def _is_foreign(self, module: str) -> bool:
        """Whether to look into a module: not into Python's own, this package's, and other installed packages."""
        top = module.partition(".")[0]
        return not is_known(top) and (top in self._roots or top in self._modules or not is_installed(top))

    def _note(self, name: str, text: str) -> None:
        """Keep the hash of a value; of several by one name, as of two closures of one function, that of all."""
        self.values[name] = sha256(self.values.get(name, "") + text)

    def _value(self, value: object, name: str) -> None:
        """Add a value; of code, which one it is, unless it has the name that it is read by."""
        text = self._text(value, name)
        if not isinstance(value, CODE) or re.split("[:.]", text)[-1] != name.partition(" of ")[0]:
            self._note(name, text)

    def _text(self, value: object, name: str) -> str:
        """A value as text that is the same in every process; code in it is added."""
        if isinstance(value, PLAIN):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, CODE):
            return self._code(value)
        if id(value) in self._seen:
            return "again"
        self._seen[id(value)] = value
        try:
            return f"{import_name(type(value))} {self._parts(value, name)}"
        except Exception:  # whatever an object from elsewhere raises when it is asked for its state
            self.unknown.append(f"{name} (a {type(value).__qualname__})")
            return "unknown"
        finally:
            del self._seen[id(value)]

    def _parts(self, value: Any, name: str) -> str:
        if isinstance(value, list | tuple):
            return joined(self._text(each, name) for each in value)
        if isinstance(value, set | frozenset):
            return joined(sorted(self._text(each, name) for each in value))
        if isinstance(value, Mapping):
            return joined(sorted(self._text(key, name) + self._text(each, name) for key, each in value.items()))
        if isinstance(value, MethodType):
            return joined(self._text(each, name) for each in (value.__func__, value.__self__))
        if isinstance(value, functools.partial):
            return joined(self._text(each, name) for each in (value.func, value.args, value.keywords, vars(value)))
        if (torch := sys.modules.get("torch")) and isinstance(value, torch.Tensor):
            flat = value.detach().cpu().contiguous().reshape(-1)
            return f"{value.dtype} {tuple(value.shape)} {sha256(flat.view(torch.uint8).numpy().tobytes())}"
        return self._state(value, name)

    def _state(self, value: Any, name: str) -> str:
        """The state of an object, by what would be pickled of it; what its own methods change is not given to it."""
        self._code(type(value))
        reduced = value.__reduce_ex__(4)
        if isinstance(reduced, str):  # by its name alone
            if self._is_foreign(module_of(value)):
                return self._text(value.__wrapped__, name)  # as behind a cache; anything else is unknown
            return reduced
        make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        if isinstance(state, Mapping) and self._is_foreign(module_of(type(value))):
            changed = changed_by_methods(type(value))
            state = {key: each for key, each in state.items() if key not in changed}
        made = "" if module_of(make) == copyreg.__name__ else self._text(make, name)
        return made + self._text((arguments, state, list(items or ()), list(pairs or ())), name)

    def _code(self, thing: Any) -> str:
        """The name of a module, a class or a function; one from elsewhere is added."""
        if isinstance(thing, ModuleType):
            self._add_files(thing.__name__.partition(".")[0])
            return thing.__name__
        name, module = import_name(thing), module_of(thing)
        if id(thing) in self._seen or isinstance(thing, BuiltinFunctionType) or not self._is_foreign(module):
            return name
        self._seen[id(thing)] = thing  # for good: it is added once
        self._add_files(module.partition(".")[0])
        if isinstance(thing, type):
            self._class(thing, name)
        else:
            self._function(thing, name)
        return name

    def _class(self, thing: type, name: str) -> None:
        for kind in (*thing.__bases__, type(thing)):
            self._code(kind)
        in_file, changed = _in_file(thing), changed_by_methods(thing)
        self._note(name, joined(import_name(kind) for kind in thing.__bases__))
        for key, value in sorted(vars(thing).items()):
            parts = _functions(value)
            for part in parts:
                if not (in_file and is_generated(part.__code__)):
                    self._code(part)
            if not (parts or key.startswith(("__", "_abc_", "model_")) or key in changed):
                self._variable(value, f"{key} of {name}", deep=not in_file)

    def _function(self, function: FunctionType, name: str) -> None:
        code, path = function.__code__, source_of(function.__code__)
        if path is None or not is_in_file(code, path):
            self._note(name, digest(code))
        used, stored, inner = names_in(code), stored_by_any(function), path is None or "<" in function.__qualname__
        given = {f"default {i}": value for i, value in enumerate(function.__defaults__ or ())}
        given |= {**(function.__kwdefaults__ or {})}
        given |= {key: value for key, value in vars(function).items() if key not in used.stored_attributes}
        for key, value in sorted(given.items()):
            self._variable(value, f"{key} of {name}", deep=inner)
        for key, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if key not in stored:
                self._variable(_content(cell), f"{key} of {name}", deep=True)
        for key in sorted((used.globals - stored) & set(function.__globals__)):
            if not key.startswith("__"):
                value = function.__globals__[key]
                self._variable(value, f"{key} of {module_name(function)}", deep=path is None)
                if isinstance(value, ModuleType) and self._is_foreign(value.__name__):
                    for each in sorted(used.attributes & set(vars(value))):
                        self._variable(vars(value)[each], f"{each} of {value.__name__}", deep=False)

    def _variable(self, value: object, name: str, *, deep: bool) -> None:
        """Add what code reads: of a file's, other code and plain values, since the file says the rest."""
        if deep or isinstance(value, (*PLAIN, *CODE, functools.partial, MethodType)):
            self._value(value, name)


def _functions(value: object) -> list[FunctionType]:
    """The functions in an entry of a class: a method, or those of a property."""
    parts: tuple[object, ...] = (value,)
    if isinstance(value, staticmethod | classmethod):
        parts = (value.__func__,)
    elif isinstance(value, property):
        parts = (value.fget, value.fset)
    elif isinstance(value, functools.cached_property):
        parts = (value.func,)
    return [each for each in parts if isinstance(each, FunctionType)]


def _in_file(thing: type) -> bool:
    """Whether a class was read from a file: by its methods, or else by its module."""
    methods = [part.__code__ for value in vars(thing).values() for part in _functions(value)]
    written = [code for code in methods if not is_generated(code)]
    if written:
        return source_of(written[0]) is not None
    return bool(getattr(sys.modules.get(thing.__module__), "__file__", None))


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # set later than the function was made
        return None
