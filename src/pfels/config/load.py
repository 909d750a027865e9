"""config.load"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pfels.config.messages import explain, unknown_key
from pfels.config.tree import NEUTRAL_KEYS, Config
from pfels.errors import InputError, nearest


def presets() -> list[str]:
    """The names of the presets that ship with the package."""
    return sorted(
        p.name.removesuffix(".toml")
        for p in resources.files("pfels.config.presets").iterdir()
        if p.name[-5:] == ".toml"
    )


def load_config(preset_or_path: str | Path = "demo", overrides: Mapping[str, Any] | Iterable[str] = ()) -> Config:
    """The config of a preset or a TOML file with overrides on top: a mapping of `table.key`, or `key=value` strings.

    A whole table, {"training": {"momentum": 0.5}}, changes the keys that it has.
    """
    tree = _read(preset_or_path)
    pairs = overrides.items() if isinstance(overrides, Mapping) else map(parse_override, overrides)
    for key, value in leaves(pairs):
        table, _, leaf = key.rpartition(".")
        at = tree.setdefault(table, {}) if table else tree
        if not isinstance(at, dict):
            raise InputError(unknown_key(key, Config))
        at[leaf] = value
    return validate(tree)


def leaves(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Settings key by key, where some of them may be whole tables."""
    for key, value in pairs:
        if "." in key or not isinstance(value, Mapping):
            yield key, value
        else:
            yield from ((f"{key}.{leaf}", below) for leaf, below in value.items())


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
    name = str(preset_or_path)
    if name in presets():
        text = resources.files("pfels.config.presets").joinpath(f"{name}.toml").read_text("utf-8")
    else:
        path = Path(name)
        try:
            if not path.is_file():
                known = f"neither a preset ({', '.join(presets())}) nor a TOML file{nearest(name, presets())}"
                raise InputError(f"{name}: {known}")
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{name}: cannot be read ({error})") from None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not valid TOML ({error})") from None


def parse_override(text: str) -> tuple[str, Any]:
    """The key and the value of a `table.key=value` string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"{text}: an override reads table.key=value, such as compression.ratio=0.1")
    return key.strip(), parse_value(value.strip())


def parse_value(text: str) -> Any:
    """A TOML value, or the text itself where it is none (so that names need no quotes)."""
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (ValueError, RecursionError):
        return text
