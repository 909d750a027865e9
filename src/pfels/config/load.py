"""Configs from presets, files, overrides and other configs."""

import os
import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pfels.config.messages import explain, unknown_key
from pfels.config.preset_files import preset_text, presets
from pfels.config.scheme_settings import for_scheme, leaves, require_used
from pfels.config.tree import NEUTRAL_KEYS, Config
from pfels.errors import InputError, nearest, quoted, shown
from pfels.runtime.arguments import plain
from pfels.runtime.regular import NOT_REGULAR, read_bytes
from pfels.schemes.registry import scheme_entry

MAXIMUM_BYTES = 2**20  # of a config file; one with every key has 2 kB


def load_config(
    base: str | Path | Config = "demo",
    overrides: Mapping[str, Any] | Iterable[str] | None = None,
    *,
    tuned: bool = True,
) -> Config:
    """The config of a preset, of a TOML file or of another config, with overrides on top.

    Overrides are a mapping of `table.key`, or `key=value` strings. A whole table, {"training": {"momentum": 0.5}},
    changes the keys that it has. An override that the scheme would ignore is refused; a file may hold settings for
    several schemes, and each takes what it uses. What a file has under `[for.SCHEME]` is for that scheme alone, and
    left out unless `tuned`; `[tune]` is for `tuning_grid`. A config holds the own table of its own scheme alone. A
    relative `data.path` of a file is relative to that file, and that of an override to the working directory.

    >>> load_config("demo", {"scheme": "wfl-pdp", "privacy.epsilon": 0.2}).privacy.epsilon
    0.2
    """
    changed = changes(overrides)
    said = {key for key, _ in leaves(changed.items())}
    tree = _tree(base, changed, tuned=tuned)
    own = _of_an_own_file(tree)
    _change(tree, changed)
    if "data.path" in said:
        _anchor(tree, Path.cwd())
    if _of_an_own_file(tree) and not own:
        _leave_to_writers(tree["data"], said)
    config = validate(tree)
    require_used(changed, config.scheme)
    return config


def changes(overrides: Mapping[str, Any] | Iterable[str] | None) -> dict[str, Any]:
    """Overrides as keys and values: a mapping, `key=value` strings, or one of them; None changes nothing."""
    if overrides is None:
        return {}
    if isinstance(overrides, str):
        overrides = [overrides]
    texts = [] if isinstance(overrides, Mapping) or not isinstance(overrides, Iterable) else list(overrides)
    if not isinstance(overrides, Mapping | Iterable) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"overrides = {quoted(overrides)}: must be keys and values, such as {{'rounds': 10}}")
    changed: dict[str, Any] = plain(overrides) if isinstance(overrides, Mapping) else dict(map(parse_override, texts))
    for key in changed:
        if not isinstance(key, str) or not _is_unicode(key):
            raise InputError(f"{quoted(key)}: not a key of a config")
    return changed


def _of_an_own_file(tree: Mapping[str, Any]) -> bool:
    data = tree.get("data")
    return isinstance(data, dict) and data.get("name") == "file"


def _leave_to_writers(data: dict[str, Any], said: Collection[str]) -> None:
    """Take out of a `data` table what a preset says of how other data are dealt out, if the own file that it has now
    names its writers."""
    from pfels.data import users

    path = data.get("path")
    if isinstance(path, str) and os.path.exists(path) and users.defaults(Path(path), {}):
        for key in {"devices", "per_device", "partition"} - {key.removeprefix("data.") for key in said}:
            data.pop(key, None)


def stored_config(path: Path) -> Config:
    """The config.toml of a run directory, as it was written: its `data.path` is where the data were then."""
    return validate(_parsed(path, follow=False))


def stored_tables(path: Path) -> dict[str, Any]:
    """The same as plain tables, unchecked: of a scheme from elsewhere, without importing it."""
    return _parsed(path)


def _tree(base: str | Path | Config, changed: Mapping[str, Any], *, tuned: bool) -> dict[str, Any]:
    """The tables of the base; where another scheme is asked for, without what is off by default and it does not use."""
    tree = base.said() if isinstance(base, Config) else _read(base)
    usual = tree.get("scheme", Config.model_fields["scheme"].default)
    scheme = changed.get("scheme", usual)
    diffs = _diffs(tree.pop("for", {}), base)
    tree.pop("tune", None)
    if scheme != usual:
        tree = for_scheme(tree, scheme, config=base if isinstance(base, Config) else None)
    if tuned and isinstance(scheme, str):  # anything else is refused with the whole
        _change(tree, diffs.get(scheme, {}))
    return tree


def tuning_grid(base: str | Path | Config) -> dict[str, list[Any]]:
    """The `[tune]` of a preset or a file: what may be tried for each setting. A config has none."""
    table = {} if isinstance(base, Config) else _read(base).get("tune", {})
    if not isinstance(table, Mapping):
        raise InputError(f"{base}: tune: must be a table, such as [tune] training.learning_rate = [0.05, 0.1]")
    grid = dict(leaves(table.items()))
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"{base}: tune.{shown(key)} = {quoted(values)}: must be a list of values to try")
    return grid


def _change(tree: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Set what is changed, key by key."""
    for key, value in leaves(changes.items()):
        table, _, leaf = key.rpartition(".")
        at = tree.setdefault(table, {}) if table else tree
        if not isinstance(at, dict):
            raise InputError(unknown_key(key, Config))
        at[leaf] = value


def _diffs(tables: Any, base: object) -> Mapping[str, Mapping[str, Any]]:
    """What a file has for single schemes: tables by scheme."""
    if not isinstance(tables, Mapping) or not all(isinstance(table, Mapping) for table in tables.values()):
        raise InputError(f"{base}: for: must hold tables by scheme, such as [for.pfels-echo.compression]")
    for name in tables:
        scheme_entry(name)
    return tables


def require_config(config: object) -> None:
    """An InputError for what is no config."""
    if not isinstance(config, Config):
        raise InputError(f"config = {config!r}: must be a Config, such as pfels.load_config('demo')")


def validate(tree: Mapping[str, Any]) -> Config:
    """The config that a nested mapping describes, or an InputError that names the first thing wrong with it."""
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise InputError(explain(error.errors()[0], Config)) from None


def differing_keys(a: Config, b: Config) -> list[str]:
    """The keys in which two configs differ, leaving out those that cannot change a result."""
    left, right = a.flat(), b.flat()
    return [key for key in {**left, **right} if key not in NEUTRAL_KEYS and left.get(key) != right.get(key)]


def _read(preset_or_path: str | Path) -> dict[str, Any]:
    if not isinstance(preset_or_path, str | Path):
        known = f"a preset ({', '.join(presets())}), a TOML file or a Config"
        raise InputError(f"{quoted(preset_or_path)}: must be {known}; settings go to overrides")
    name = str(preset_or_path)
    if name in presets():
        return tomllib.loads(preset_text(name))
    tree, folder = _parsed(Path(name)), Path(name).absolute().parent
    schemes = tree.get("for")
    for each in (tree, *(schemes.values() if isinstance(schemes, dict) else ())):
        _anchor(each, folder)
    return tree


def _parsed(path: Path, *, follow: bool = True) -> dict[str, Any]:
    """The tables of a TOML file; `follow` says whether its name may be a link."""
    name = str(path)
    where = shown(name, maximum=500)
    known = f"neither a preset ({', '.join(presets())}) nor a TOML file{nearest(name, presets())}"
    try:
        text = read_bytes(Path(os.path.realpath(path)) if follow else path, maximum=MAXIMUM_BYTES).decode()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{where}: {known}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{where}: {known if reason == NOT_REGULAR else f'cannot be read ({reason})'}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: cannot be read ({shown(error)})") from None
    except ValueError as error:
        raise InputError(f"{where}: {shown(error)}; not a config") from None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid TOML ({shown(error)})") from None


def _anchor(tree: Any, folder: Path) -> None:
    """Make a relative `data.path` one that starts at `folder`, and one with ~ one that starts at the home directory, so
    that it means the same from everywhere."""
    data = tree.get("data") if isinstance(tree, dict) else None
    if isinstance(data, dict) and isinstance(path := data.get("path"), str) and path:
        try:
            data["path"] = str(folder / Path(path).expanduser())
        except RuntimeError:
            where = f"data.path = {quoted(path)}"
            raise InputError(f"{where}: its home directory is unknown; give the whole path") from None


def parse_override(text: str) -> tuple[str, Any]:
    """The key and the value of a `table.key=value` string."""
    key, equals, value = text.partition("=")
    if not _is_unicode(text):
        raise InputError(f"{shown(text)}: not valid UTF-8")
    if not equals or not key.strip():
        raise InputError(f"{shown(text)}: an override reads table.key=value, such as compression.ratio=0.1")
    return key.strip(), parse_value(value.strip())


def _is_unicode(text: str) -> bool:
    """Whether a text can be written down: bytes of a command line that are not UTF-8 become half a character each."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_value(text: str) -> Any:
    """A TOML value, or the text itself where it is none (so that names need no quotes)."""
    try:
        value = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
        repr(value)  # which fails for an integer of thousands of digits: nothing could name it
    except (ValueError, RecursionError):
        return text
    return value
