"""Slips of a command line, each with the line that would be right: spaces, settings as options, names of commands."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pfels.errors import nearest, shown

SETTINGS = ("-s", "--set")
LISTS = ("--schemes", "--seeds", "--tuning-seeds", "--learning-rates")
GRIDS = ("-g", "--grid")
COMMANDS = {
    "run": "train training simulate sim start go fit execute launch",
    "compare": "comparison benchmark versus vs cmp",
    "sweep": "grid search gridsearch tune tuning multirun",
    "plan": "link budget forecast estimate dry-run",
    "privacy": "epsilon eps account accountant ledger dp",
    "reproduce": "paper replicate table figure",
    "report": "html page plot show view",
    "data": "dataset datasets download get",
    "audit": "attack canary canaries",
    "verify": "check test selftest",
    "init": "config new create template",
    "--help": "help",
    "--version": "version",
}
_MEANT = {word: command for command, words in COMMANDS.items() for word in words.split()}
VALUES = {"--seeds": "0,1,2", "--jobs": "2", "--schemes": "pfels,wfl-p", "-s": "rounds=10", "--set": "rounds=10"}


def spaces(arguments: Sequence[str]) -> str | None:
    """What is wrong with a command line whose parts are separated by spaces that do not belong there."""
    for option, text, *after in (arguments[i : i + 4] for i in range(len(arguments) - 1)):
        value = after[0] if after and not re.match(r"-\D", after[0]) else None
        if option in (*SETTINGS, *GRIDS) and not text.startswith("-"):
            if value == "=" and len(after) > 1:
                value = after[1]
            joined = f"{text.rstrip('=')}={value.lstrip('=')}" if value else ""
            if value and ("=" not in text or text.endswith("=")):
                return f"{option} {shown(text)}: did you mean {option} {shown(joined)}, without a space?"
        if option in (*LISTS, *GRIDS) and value is not None and _goes_on(option, text, value):
            joined = f"{text.rstrip(',')},{value.lstrip(',')}"
            return f"{option} {shown(text)}: did you mean {option} {shown(joined)}, without a space?"
    return None


def _goes_on(option: str, text: str, value: str) -> bool:
    """Whether what follows the value of an option is the rest of its list."""
    if text.endswith(",") or value.startswith(","):
        return True
    from pfels.schemes.registry import scheme_names

    return value.isdecimal() if "seeds" in option else option == "--schemes" and value in scheme_names()


def usage(error: Any, arguments: Sequence[str]) -> str:
    """One line for a command line that Typer cannot read: its own, with what would be right."""
    said: str = error.format_message()
    context: Any = getattr(error, "ctx", None)
    command, option = getattr(context, "command", None), getattr(error, "option_name", None)
    kind = type(error).__name__  # the classes have no public name in every version of Typer
    if kind == "BadOptionUsage" and "argument" in said:
        return f"{option}: needs a value{f', such as {option} {VALUES[option]}' if option in VALUES else ''}"
    if command is None or not said:
        return said
    if said.startswith("No such command") and said.count("'") > 1:
        return f"{said.partition('.')[0]}{_command(said.split(chr(39))[1], command.commands)}"
    if kind == "NoSuchOption" and option is not None:
        return f"No such option: {shown(option)}{_option(option, context, arguments)}"
    if "unexpected extra" in said:
        known = [each for each in arguments if "=" in each and each in said and not each.startswith("-")]
        return f"{said}; {f'did you mean -s {shown(known[0])}?' if known else f'see {context.command_path} --help'}"
    return said


def _command(typed: str, commands: Mapping[str, Any]) -> str:
    meant = _MEANT.get(typed.lower())
    return f"; did you mean pfels {meant}?" if meant and "run" in commands else nearest(typed, commands)


def _option(option: str, context: Any, arguments: Sequence[str]) -> str:
    """What may have been meant by an option that a command does not have: another one, or a setting."""
    if hasattr(context.command, "commands"):
        return f"; options follow the command; see {context.command_path} --help"
    own = [name for param in context.command.params for name in param.opts if name.startswith("--")]
    found = [each for each in own if option.startswith("--") and each.endswith(option[1:])]
    found += difflib.get_close_matches(option, own, n=1, cutoff=0.8)
    taken, value = {"seed": "--seeds", "scheme": "--schemes"}, _value(option, arguments)
    for key in _settings(option) if "--set" in own else ():
        same = f"--{key.rpartition('.')[2].replace('_', '-')}"
        other = next((each for each in (taken.get(key, ""), same) if each in own), None)
        found.append(other or f"-s {key}={shown(value)}")
    asked = " or ".join(dict.fromkeys(found))
    return f"; did you mean {asked}?" if found else f"; see {context.command_path} --help"


def _settings(option: str) -> list[str]:
    """The keys of settings that somebody may have meant by an option."""
    from pfels.config.messages import known_keys
    from pfels.config.synonyms import meant
    from pfels.config.tree import Config

    return meant(option[2:].replace("-", "_"), known_keys(Config)) if option.startswith("--") else []


def _value(option: str, arguments: Sequence[str]) -> str:
    """What was given for an option."""
    for each, after in zip(arguments, [*arguments[1:], "-"], strict=True):
        if each.startswith(f"{option}="):
            return each.partition("=")[2]
        if each == option and not after.startswith("-"):
            return after
    return "…"
