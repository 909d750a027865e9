"""What every setting means, and a commented config to start from. The meanings are in settings.toml, and those of the
channel's effects beside the effects."""

import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, NamedTuple

from pfels.config.load import load_config
from pfels.config.tables import Channel, Receiver
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
    at = next(i for i, each in enumerate(found) if each.key.startswith("channel."))
    return [*found[:at], *_channel({each.key: each for each in found}), *found[at + len(Receiver.model_fields) :]]


def _channel(found: Mapping[str, Setting]) -> Iterator[Setting]:
    """The table [channel], in the order of its fields: what is not in settings.toml is described by its effect."""
    for name, field in Channel.model_fields.items():
        key, default = f"channel.{name}", field.default
        value = (field.examples or [None])[0] if default is None else default
        yield found.get(key) or Setting(key, value, default is not None, field.description or "")


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
