"""What all commands share in their help, and what a shell completes."""

import glob
from typing import Any

from typer.core import TyperCommand, TyperGroup


def _without_types(params: list[Any]) -> list[Any]:
    """Flags take no value, so their help names no type."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


class Command(TyperCommand):
    """A command whose help shows flags as flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The arguments and options, `--help` included."""
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """The same for a command with subcommands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The arguments and options, `--help` included."""
        return _without_types(super().get_params(ctx))


def complete_preset(incomplete: str) -> list[str]:
    """The presets and TOML files that begin so."""
    from pfels.config.preset_files import presets

    files = glob.glob(f"{glob.escape(incomplete)}*.toml")
    return [name for name in presets() if name.startswith(incomplete)] + sorted(files)


def complete_setting(incomplete: str) -> list[str]:
    """The keys of settings that begin so."""
    from pfels.config.messages import known_keys
    from pfels.config.tree import Config

    return [f"{key}=" for key in known_keys(Config) if key.startswith(incomplete)]


def complete_schemes(incomplete: str) -> list[str]:
    """A list of schemes with one more at its end."""
    from pfels.schemes.registry import scheme_names

    before, comma, last = incomplete.rpartition(",")
    chosen = before.split(",")
    return [f"{before}{comma}{name}" for name in scheme_names() if name.startswith(last) and name not in chosen]
