"""No command imports from the directory in which it is started: it may hold what somebody else wrote."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.foreign_modules import foreign_modules

BIN = Path(sys.executable).parent
SMALL = ("-s", "data.devices=30", "-s", "cohort.size=4", "-s", "rounds=2", "-s", "model.hidden=4")
ONE = ("--preset", "demo", "--learning-rates", "0.1", "-s", "rounds=1", "-s", "data.devices=40")
JOBS = ("--seeds", "0,1", "--jobs", "2")
SEVERAL = ("compare", "demo", *SMALL, "--schemes", "pfels", *JOBS)


def call(command: Sequence[str], folder: Path, **variables: str) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=folder, env={**environment, "OMP_NUM_THREADS": "1", **variables}, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    mark = folder / "IMPORTED"
    assert not mark.exists(), f"{command}: {mark.read_text()}"
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_command_imports_from_the_current_directory(tmp_path: Path):
    here = foreign_modules(tmp_path / "here")
    for arguments in (
        ("run", "demo", *SMALL, "--out", "runs/one"),
        ("compare", "demo", *SMALL, "--schemes", "pfels,fedavg", *JOBS, "--out", "runs/compare"),
        ("sweep", "demo", *SMALL, "-g", "compression.ratio=0.1,0.3", *JOBS, "--out", "runs/sweep"),
        ("reproduce", "fig-compression", "--scale", "laptop", *ONE, *JOBS),
        ("report", "runs/compare"),
        ("plan", "demo", "-s", "rounds=2"),
        ("privacy", "demo", "-s", "rounds=2"),
        ("audit", "demo", *SMALL, "--canaries", "40"),
        ("data", "list"),
        ("init",),
    ):
        call([str(BIN / "pfels"), *arguments], here)


def test_an_empty_entry_of_the_python_path_is_not_the_current_directory(tmp_path: Path):
    started = imported_by_python(tmp_path, "-c", "import re, sys; print(*sys.modules)")  # as the command's script does
    here = foreign_modules(tmp_path / "here", leaving_out={*started, "sitecustomize", "usercustomize", "pfels"})
    call([str(BIN / "pfels"), *SEVERAL], here, PYTHONPATH=f"{os.pathsep}{tmp_path}")


@pytest.mark.parametrize("arguments", [("pfels", *SEVERAL), ("pfels.flower",)], ids=lambda arguments: arguments[0])
def test_python_m_imports_nothing_more_from_the_current_directory(arguments: Sequence[str], tmp_path: Path):
    (tmp_path / "probe.py").write_text("import sys\nprint(*sys.modules)")
    here = foreign_modules(tmp_path / "here", leaving_out={*imported_by_python(tmp_path, "-m", "probe"), "pfels"})
    call([sys.executable, "-m", *arguments], here)


def test_a_script_keeps_its_own_folder_and_its_workers_have_it_too(tmp_path: Path):
    """A scheme of a script's own, beside which a module lies: started elsewhere, with workers."""
    here = foreign_modules(tmp_path / "here")
    (tmp_path / "beside.py").write_text("NAME = 'mine'\n")
    (tmp_path / "script.py").write_text(
        "import pfels\n"
        "from pfels.schemes.registry import register, scheme_entry\n"
        "from beside import NAME\n"
        "register(NAME, scheme_entry('fedavg'))\n"
        "if __name__ == '__main__':\n"
        "    small = {'data.devices': 30, 'cohort.size': 4, 'rounds': 2}\n"
        "    found = pfels.compare('demo', schemes=[NAME], seeds=[0, 1], overrides=small, jobs=2)\n"
        "    print(*found['schemes'])\n"
    )
    assert call([sys.executable, "../script.py"], here) == "mine\n"


def imported_by_python(folder: Path, *arguments: str) -> set[str]:
    """What Python imports before anything of ours is imported."""
    return set(call([sys.executable, *arguments], folder).split())
