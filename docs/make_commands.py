"""The page of all commands, from the command itself: `python docs/make_commands.py` prints it, the site includes it."""

import enum
import inspect
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

HEAD = """# Commands

Every command with its arguments and options, as `--help` has them. This page is made from the command itself when the
site is built. Exit codes: 0 done; 2 the input is wrong, and nothing was touched; 1 it failed, or a claim was rejected;
130 interrupted, with the state saved.
"""


def page() -> str:
    """The Markdown of the page."""
    import typer.main

    from pfels.cli import app

    group = typer.main.get_command(app)
    return HEAD + "".join(_command(command, path) for path, command in leaves(group, ("pfels",)))


def leaves(command: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that lead to it."""
    below = getattr(command, "commands", None)
    if below is None:
        return [(path, command)]
    return [leaf for name, sub in below.items() for leaf in leaves(sub, (*path, name))]


def _command(command: Any, path: tuple[str, ...]) -> str:
    kinds = {name: _kind(hint) for name, hint in get_type_hints(inspect.unwrap(command.callback)).items()}
    arguments = [(_metavar(p, kinds), p) for p in command.params if p.param_type_name == "argument"]
    options = [(_names(p, kinds), p) for p in command.params if p.param_type_name == "option"]
    usage = " ".join([*path, "[OPTIONS]", *(name if p.required else f"[{name}]" for name, p in arguments)])
    parts = [f"\n## {' '.join(path)}\n", f"```text\n{usage}\n```\n", _help(command.help or "")]
    if arguments:
        parts.append(_table("argument", [(f"`{name}`", p) for name, p in arguments]))
    parts.append(_table("option", options))
    return "\n".join(parts)


def _kind(hint: Any) -> Any:
    """The type of one value of a parameter: of `list[str] | None`, `str`."""
    inner = [part for part in get_args(hint) if part is not type(None)]
    return _kind(inner[0]) if inner else hint


def _help(text: str) -> str:
    """A help text, with its examples as a block of code."""
    before, mark, after = text.partition("Examples:")
    if not mark:
        return _prose(text)
    lines = [line.strip() for line in after.splitlines()]
    start = next(i for i, line in enumerate(lines) if _is_example(line))
    end = start
    for i, line in enumerate(lines[start:], start):
        if _is_example(line):
            end = i + 1
        elif line and line != "\b":
            break
    examples = [line for line in lines[start:end] if _is_example(line)]
    rest = "\n".join(lines[end:]).strip()
    return f"{_prose(before)}\n```sh\n{chr(10).join(examples)}\n```\n\n{_prose(rest)}"


def _is_example(line: str) -> bool:
    return line.startswith(("pfels ", "torchrun ", "flwr "))


def _prose(text: str) -> str:
    return re.sub(r"[\b\f]", "", text).strip() + "\n"


def _names(option: Any, kinds: dict[str, Any]) -> str:
    names = ", ".join(f"`{name}`" for name in sorted([*option.opts, *option.secondary_opts], key=len, reverse=True))
    flag = kinds.get(option.name, bool) is bool  # --help is no parameter of the function
    return names if flag else f"{names} `{_metavar(option, kinds)}`"


def _metavar(parameter: Any, kinds: dict[str, Any]) -> str:
    kind = kinds.get(parameter.name, str)
    if parameter.metavar:
        return str(parameter.metavar).strip("[]")
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "|".join(str(member.value) for member in kind)
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper() + ("..." if parameter.nargs == -1 else "")
    return {int: "NUMBER", float: "NUMBER", Path: "PATH"}.get(kind, "TEXT")


def _table(kind: str, rows: list[tuple[str, Any]]) -> str:
    lines = [f"| {kind} | default | meaning |", "|---|---|---|"]
    for name, parameter in rows:
        text = _prose(getattr(parameter, "help", None) or "").strip().replace("\n", " ")
        cells = [name, _default(parameter), text]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "needed"
    if value is None or value is False or value == () or callable(value) or "Sentinel" in type(value).__name__:
        return ""
    return f"`{getattr(value, 'value', value)}`"


if __name__ == "__main__":
    print(page())
