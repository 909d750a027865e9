"""What every setting means, and a commented config to start from. The meanings are in settings.toml."""

import re
import textwrap
import tomllib
from collections.abc import Iterator
from importlib import resources
from typing import Any, NamedTuple

from pfels.config.load import load_config
from pfels.config.toml import toml_value

WIDTH = 79
HEAD = """\
# A config for pfels. Run it: pfels run {name}
# Every setting is here, and one that is left out has its default. The values
# are those of the preset demo; where one is not the default, that is named.
"""


class Setting(NamedTuple):
    """One setting: `value` is its default, or an example if it is not `set` and has none."""

    key: str
    value: Any
    set: bool
    meaning: str


def settings() -> list[Setting]:
    """Every setting of the config and of the schemes in the package, in the order of the tables, in Markdown."""
    found: list[Setting] = []
    table = meaning = ""
    for line in resources.files("pfels.config").joinpath("settings.toml").read_text("utf-8").splitlines():
        if line.startswith("# "):
            meaning = line[2:]
        elif line.startswith("["):
            table = line.strip("[]") + "."
        elif line:
            ((leaf, value),) = tomllib.loads(line.removeprefix("#")).items()
            found.append(Setting(table + leaf, value, not line.startswith("#"), meaning))
    return found


def starter(name: str) -> str:
    """A commented config with every setting, as TOML; `name` is the file that it is for."""
    return HEAD.format(name=name) + "".join(_lines())


def _lines() -> Iterator[str]:
    values, table = load_config("demo").flat(), ""
    for key, default, is_set, meaning in settings():
        before, table = table, key.rpartition(".")[0]
        if table != before:
            yield f"\n[{table}]"
        value = values.get(key, default) if is_set else default
        note = "" if value == default else f"; default: {toml_value(default)}"
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", meaning) + note  # without links
        yield "\n"
        yield from (f"{line}\n" for line in textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# "))
        yield f"{'' if is_set else '# '}{key.rpartition('.')[2]} = {toml_value(value)}\n"
