"""The presets that ship with the package, as files."""

from importlib import resources

FOLDER = "pfels.config.presets"


def presets() -> list[str]:
    """The names of the presets that ship with the package.

    >>> "demo" in presets()
    True
    """
    return sorted(p.name.removesuffix(".toml") for p in resources.files(FOLDER).iterdir() if p.name[-5:] == ".toml")


def preset_text(name: str) -> str:
    """The TOML of a preset."""
    return resources.files(FOLDER).joinpath(f"{name}.toml").read_text("utf-8")
