"""The foreign code that takes part in a run, and whether a stored run was made with the same.

A model, a task or data from elsewhere would be one more line in `foreign_code`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pfels.config.tree import Config
from pfels.documents.run import Environment, ForeignCode
from pfels.errors import InputError, shown
from pfels.runtime.bytecode import sha256
from pfels.runtime.code import Code, is_ours
from pfels.runtime.source_files import distribution_of, import_name
from pfels.schemes.registry import BUILT_IN, SchemeEntry, entry_point, scheme_entry

MOST = 3  # files and values that a message names
CURE = "choose another --out, or make it anew with --fresh (in Python, fresh=True)"


def foreign_code(config: Config, play_round: Callable[..., object] | None = None) -> list[ForeignCode]:
    """What a run of this config, whose rounds `play_round` plays, takes from outside this package."""
    found = [] if config.scheme in BUILT_IN else [_scheme(config.scheme)]
    found += [described("effect", import_name(type(each)), type(each)) for each in config.effects]
    if play_round is not None and not is_ours(play_round):
        found.append(described("play_round", import_name(play_round), play_round))
    return found


def described(role: str, name: str, *things: object, code: Code | None = None) -> ForeignCode:
    """What is known of the code of some objects that together play a role."""
    code = Code() if code is None else code
    for thing in things:
        code.add(thing, role)
    distribution, version = distribution_of(name.partition(":")[0]) or (None, None)
    return {
        "role": role, "name": name, "distribution": distribution, "version": version,
        "files": dict(sorted(code.files.items())), "values": dict(sorted(code.values.items())),
        "unknown": sorted(set(code.unknown)),
    }  # fmt: skip


def _scheme(name: str) -> ForeignCode:
    """What an entry says is a value; only what differs from the defaults, since later versions may add some."""
    entry, point, code = scheme_entry(name), entry_point(name), Code()
    if point is not None:
        code.add_module(point.module)
    code.add(entry.create, "create")
    for key, default in SchemeEntry.__dataclass_fields__.items():
        if key != "create" and (value := getattr(entry, key)) != default.default:
            code.add(value, key)
    found = described("scheme", import_name(entry.create) if point is None else point.value, code=code)
    if point is not None and point.dist is not None:
        found["distribution"], found["version"] = point.dist.name, point.dist.version
    return found


def require_same_code(path: Path, scheme: str, before: Environment, now: Sequence[ForeignCode]) -> None:
    """An InputError unless a stored run was made with this code. Earlier versions did not say which code it was."""
    if "code" not in before and scheme not in BUILT_IN:
        reason = f"made with code of scheme {scheme} that its environment.json does not describe"
    else:
        reason = difference(before.get("code", []), now)
    if reason:
        raise InputError(f"{path}: {shown(reason, maximum=600)}; {CURE}")


def difference(before: Sequence[ForeignCode], now: Sequence[ForeignCode]) -> str:
    """In what the code of a stored run differs from the code now, or nothing."""
    stored, current = ({each["role"]: each for each in some} for some in (before, now))
    for role, code in (stored | current).items():
        if role not in current or role not in stored:
            made = "without" if role not in stored else "with"
            return f"made {made} {role} {code['name']}"
        was, other = stored[role], current[role]
        if was["name"] != other["name"]:
            return f"made with {role} {was['name']}, not {other['name']}"
        unknown = [*was["unknown"], *other["unknown"]]
        if unknown:
            return f"made with {role} {was['name']}, of which {unknown[0]} cannot be compared"
        changed = [*_changed(was["files"], other["files"]), *_changed(was["values"], other["values"])]
        if changed:
            more = f" and {len(changed) - MOST} more" if len(changed) > MOST else ""
            return f"made with other code of {role} {was['name']}: {', '.join(changed[:MOST])}{more}"
        if was["version"] != other["version"] and not was["files"]:
            return f"made with version {was['version']} of {role} {was['name']}, not {other['version']}"
    return ""


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names whose hashes differ, with what became of them."""
    words = {True: "differs now", False: "is new"}
    return [
        f"{name} {'is gone' if name not in now else words[name in before]}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def brief(scheme: str, environment: Environment) -> str:
    """A short name of the code that made a stored run, for telling runs apart: nothing without foreign code."""
    if not is_recorded(scheme, environment):
        return "unknown"
    code = environment.get("code", [])
    return sha256(repr([(each["role"], each["files"], each["values"]) for each in code]))[:8] if code else ""


def is_recorded(scheme: str, environment: Environment) -> bool:
    """Whether a stored run says enough of its foreign code to be told from one that other code made."""
    return ("code" in environment or scheme in BUILT_IN) and not any(
        each["unknown"] for each in environment.get("code", [])
    )
