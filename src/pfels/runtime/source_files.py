"""Where code comes from: the name by which an object is imported, and the source files behind a module."""

import functools
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MethodType, ModuleType

OURS = "pfels"
MAIN = ("__main__", "__mp_main__")  # the second is the first in a worker process
SUFFIXES = (".py", ".so", ".pyd")
PYTHON = Path(os.__file__).absolute().parent
INSTALLED = ("site-packages", "dist-packages")
IMPORTS = re.compile(
    rb"^[ \t]*(?:from[ \t]+([A-Za-z_]\w*)[\w.]*[ \t]+import\b|import[ \t]+([A-Za-z_][\w., \t]*))"
    rb"|(?:import_module|__import__)\([ \t]*[\"']([A-Za-z_]\w*)",
    re.MULTILINE,
)


def import_name(thing: object) -> str:
    """Where an object comes from, as `package.module:name`; of an object that has no name, where its class does.

    >>> import_name(functools.partial(Path.read_text, encoding="utf-8"))
    'pathlib:Path.read_text'
    """
    if isinstance(thing, functools.partial):
        return import_name(thing.func)
    if isinstance(thing, MethodType):
        owner = thing.__self__ if isinstance(thing.__self__, type) else type(thing.__self__)
        return f"{module_name(owner)}:{owner.__qualname__}.{thing.__func__.__name__}"
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{module_name(named)}:{getattr(named, '__qualname__', '')}"


def module_of(thing: object) -> str:
    """The module that a function or a class says it is from."""
    return str(getattr(thing, "__module__", None) or "builtins")


def module_name(thing: object) -> str:
    """The same; of a script or `python -m`, the name by which it would be imported."""
    name = module_of(thing)
    if name not in MAIN:
        return name
    main = sys.modules.get(name)
    file = getattr(main, "__file__", None)
    return _started_as(main) or (Path(file).stem if file else MAIN[0])


def _started_as(main: ModuleType | None) -> str:
    """The name of the module that `python -m` started, if it started one."""
    name = str(getattr(getattr(main, "__spec__", None), "name", MAIN[0]))
    return "" if name in MAIN else name.removesuffix(f".{MAIN[0]}")


def is_known(module: str) -> bool:
    """Whether a module is Python's own or this package's. A user's file may have the name of one of Python's."""
    top = module.partition(".")[0]
    own = top in sys.stdlib_module_names and all(PYTHON in place.parents for place in _places(top))
    return top == OURS or own


def is_installed(module: str) -> bool:
    """Whether a module is in a folder of installed packages."""
    places = _places(module)
    return bool(places) and all(any(part in INSTALLED for part in place.parts) for place in places)


def distribution_of(module: str) -> tuple[str, str] | None:
    """The name and the version of the installed distribution that a module belongs to, if it belongs to one."""
    names = _distributions().get(module.partition(".")[0], [])
    return (names[0], importlib.metadata.version(names[0])) if names else None


@cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def source_files(module: str) -> Iterator[tuple[str, Path]]:
    """The files of a module's top-level package, or its single file, each with its name from the folder that they are
    imported from, in order."""
    for place in sorted(_places(module)):
        if place.is_file():
            yield place.name, place
            continue
        for path in sorted(place.rglob("*")):
            inside = path.relative_to(place)
            hidden = any(part.startswith(".") or part in INSTALLED for part in inside.parts)
            if path.suffix in SUFFIXES and not hidden and path.is_file():
                yield (place.name / inside).as_posix(), path


def _places(module: str) -> list[Path]:
    """The file of a top-level module, or the folders of a package; nothing if it has none or cannot be found."""
    loaded = sys.modules.get(module)
    top = (_started_as(loaded) if module in MAIN else module).partition(".")[0] or module
    loaded = sys.modules.get(top)
    try:
        spec = importlib.util.find_spec(top) if loaded is None else getattr(loaded, "__spec__", None)
    except (ImportError, ValueError, AttributeError):
        spec = None
    folders = getattr(loaded, "__path__", None) or getattr(spec, "submodule_search_locations", None)
    if folders:
        return [path for folder in folders if (path := Path(folder).absolute()).is_dir()]
    file = getattr(loaded, "__file__", None) or getattr(spec, "origin", None)
    return [path] if file and (path := Path(file).absolute()).is_file() else []


def imported(source: bytes) -> list[str]:
    """The top-level modules that a file imports, wherever in it.

    >>> imported(b"import os.path, helper as h\\ndef f():\\n    from lab.gains import low")
    ['helper', 'lab', 'os']
    """
    found = set[str]()
    for one, several, by_call in IMPORTS.findall(source):
        names = (one, by_call, *several.split(b","))
        found |= {re.split(r"[.\s]", name.decode().strip())[0] for name in names}
    return sorted(found - {""})
