"""The pages that are done as they are written, and an environment for those that install something."""

import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.docs.pages import ROOT, environment, steps

OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}  # 0: builds use what is installed here
ELSEWHERE = ("index", "real-machines")  # has no steps; has an environment of its own, tests/flower/test_tutorial.py
PAGES = [
    ROOT / "docs" / "index.md",
    *sorted(page for page in (ROOT / "docs" / "tutorials").glob("*.md") if page.stem not in ELSEWHERE),
]


def environment_of(page: str, folder: Path) -> dict[str, str]:
    """The environment in which a page's commands are run, without an index of packages and with an empty cache."""
    installs = any("pip install" in step.block.text for step in steps(page) if step.block.kind == "sh")
    return environment(folder / "data", overlay(folder) if installs else None) | OFFLINE


def overlay(folder: Path) -> Path:
    """The commands of a fresh environment on top of this one: what is installed there does not stay here."""
    env = folder / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True)
    (packages,) = env.glob("lib/python*/site-packages")
    below = sysconfig.get_paths()["purelib"]
    (packages / "below.pth").write_text(f"import site; site.addsitedir({below!r})\n")  # with its own .pth files
    for name in ("pfels", "pip"):
        command = env / "bin" / name
        command.write_text(f'#!/bin/sh\nexec {env}/bin/python -m {name} "$@"\n')
        command.chmod(0o755)
    return env / "bin"
