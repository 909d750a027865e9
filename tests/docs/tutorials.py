"""The pages that are done as they are written, and an environment for those that install something."""

import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.docs.pages import ROOT

OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}  # 0: builds use what is installed here
ELSEWHERE = ("index", "real-machines")  # has no steps; has an environment of its own, tests/flower/test_tutorial.py
PAGES = [
    ROOT / "docs" / "index.md",
    *sorted(page for page in (ROOT / "docs" / "tutorials").glob("*.md") if page.stem not in ELSEWHERE),
]


def overlay(folder: Path) -> Path:
    """The commands of a fresh environment on top of this one: what is installed there does not stay here."""
    env = folder / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True)
    (packages,) = env.glob("lib/python*/site-packages")
    (packages / "below.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    for name in ("pfels", "pip"):
        command = env / "bin" / name
        command.write_text(f'#!/bin/sh\nexec {env}/bin/python -m {name} "$@"\n')
        command.chmod(0o755)
    return env / "bin"
