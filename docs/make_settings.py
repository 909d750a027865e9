"""Write the tables of docs/settings.md from src/pfels/config/settings.toml: python docs/make_settings.py

The text between the tables is written by hand. A test holds the tables to the file, and the file to the config.
"""

import re
from pathlib import Path

from pfels.config.documented import Setting, settings
from pfels.config.tree import Config

PAGE = Path(__file__).with_name("settings.md")


def page() -> str:
    """The whole page, with a row per setting in place of what the tables have now."""
    found = {each.key: each for each in settings()}

    def rows(match: re.Match[str]) -> str:
        tables = dict.fromkeys(map(_table, re.findall(r"^\| `([a-z_.-]+)` ", match[0], re.MULTILINE)))
        return "".join(_row(found[key]) for table in tables for key in found if _table(key) == table)

    return re.sub(r"(^\| `[a-z_.-]+` \|.*\n)+", rows, PAGE.read_text("utf-8"), flags=re.MULTILINE)


def _table(key: str) -> str:
    return key.rpartition(".")[0]


def _row(setting: Setting) -> str:
    unset = setting.key not in Config().flat() and not setting.set
    default = "not set" if unset else f"`{str(setting.value).lower() if setting.value is False else setting.value}`"
    return f"| `{setting.key}` | {default} | {setting.meaning} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
