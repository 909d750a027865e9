"""Which settings a scheme uses: what it would ignore is refused where somebody asks for it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.schemes.registry import OFF_BY_DEFAULT, PARTIAL, TOTAL, scheme_entry, scheme_names, users_of


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
    if key in PARTIAL:
        return key in entry.uses
    table = key.partition(".")[0]
    return table == scheme or table not in scheme_names()


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


def with_scheme(config: Config, scheme: str) -> dict[str, Any]:
    """The tree of the config with another scheme; what is off by default and the scheme does not use is left out."""
    tree = {key: value for key, value in config.tree().items() if key != config.scheme or key == scheme}
    for key in OFF_BY_DEFAULT - scheme_entry(scheme).uses:
        table, _, leaf = key.partition(".")
        tree[table].pop(leaf, None)
    return tree | {"scheme": scheme}


def _who(key: str) -> str:
    names = users_of(key) if key in PARTIAL else []
    return f", only {', '.join(names)}" if names else ""


def _instead(key: str) -> str:
    return ", or use --total-epsilon of compare and plan" if key in TOTAL else ""
