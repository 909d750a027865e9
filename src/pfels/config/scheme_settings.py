"""Which settings a scheme uses: what it would ignore is refused where somebody asks for it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.schemes.registry import (
    GROUPS,
    OFF_BY_DEFAULT,
    scheme_entry,
    scheme_names,
    usable_schemes,
    users_of,
    uses_setting,
)
from pfels.uplink.effects.cell import installed_effects


def leaves(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Settings key by key, where some of them may be whole tables."""
    for key, value in pairs:
        if "." in key or not isinstance(value, Mapping):
            yield key, value
        else:
            yield from ((f"{key}.{leaf}", below) for leaf, below in value.items())


def uses(scheme: str, key: str) -> bool:
    """Whether a scheme uses a setting."""
    entry = scheme_entry(scheme)
    if key == "cohort.sampling":
        return entry.sampling is None
    table = key.partition(".")[0]
    return uses_setting(scheme, key) and (table == scheme or table not in scheme_names())


def require_used(overrides: Mapping[str, Any], scheme: str) -> None:
    """An InputError where somebody asks a scheme for what it would ignore."""
    for key, value in leaves(overrides.items()):
        only = scheme_entry(scheme).sampling
        if key == "cohort.sampling" and only is not None:
            if value != only.value:
                raise InputError(f"cohort.sampling: {scheme} always uses {only.value} sampling; leave it out")
        elif not uses(scheme, key):
            raise InputError(f"{key}: {scheme} does not use it{_who(key)}; leave it out{_instead(key)}")


def used_by(scheme: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Of settings that are meant for several schemes side by side, those that this one uses."""
    return {key: value for key, value in leaves(overrides.items()) if uses(scheme, key)}


def require_used_by_any(overrides: Mapping[str, Any], schemes: Iterable[str]) -> None:
    """An InputError where a setting is meant for several schemes, and not one of them uses it."""
    names = list(schemes)
    for key, _ in leaves(overrides.items()):
        if not any(uses(name, key) for name in names):
            raise InputError(f"{key}: none of {', '.join(names)} uses it{_who(key)}; leave it out{_instead(key)}")


def for_scheme(tree: Mapping[str, Any], scheme: object, *, config: Config | None = None) -> dict[str, Any]:
    """The tables for another scheme: without what is off by default and it does not use.

    `config` is the config that the tables come from, if they do: its scheme's own table stays behind.
    """
    if not isinstance(scheme, str) or scheme not in scheme_names():
        return dict(tree)  # which is then refused by name
    left_behind = None if config is None else config.scheme
    mine: dict[str, Any] = {key: value for key, value in tree.items() if key != left_behind}
    unused = [group for group in OFF_BY_DEFAULT if group not in scheme_entry(scheme).uses]
    for key in (key for group in unused for key in GROUPS[group]):
        table, _, leaf = key.partition(".")
        if isinstance(mine.get(table), Mapping):
            mine[table] = {name: value for name, value in mine[table].items() if name != leaf}
    foreign = {name for name, kind in installed_effects().items() if kind.needs in unused}
    return {key: value for key, value in mine.items() if key not in foreign}


def _who(key: str) -> str:
    names = users_of(key)
    if len(names) == len(usable_schemes()):
        return ""
    return f", only {', '.join(names)}" if names else ""


def _instead(key: str) -> str:
    return ", or use --total-epsilon of compare and plan" if key in GROUPS["budget"] else ""
