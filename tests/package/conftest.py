"""The wheel and the sdist, built once, and an environment in which only the wheel is pfels."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Call = Callable[..., subprocess.CompletedProcess[str]]


def build(source: Path, kind: str, out: Path) -> Path:
    """A wheel or an sdist of a source tree, made by the backend that pyproject.toml names."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of this tree."""
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in the sdist."""
    place = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    (tree,) = place.iterdir()
    return tree


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel installed. Its dependencies are those of this environment, by a path that comes
    last, and without the tree that is installed here: .pth files there are not read."""
    place = tmp_path_factory.mktemp("clean") / "env"
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True, text=True)
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    own = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    (Path(own) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place


@pytest.fixture
def call(environment: Path, tmp_path: Path) -> Call:
    """A program of the new environment, run in an empty directory, without any settings of this one."""

    def run(program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PFELS"))}
        command = [str(environment / "bin" / program), *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env={**clean, "COLUMNS": "80"}, capture_output=True, text=True, check=False,
            timeout=120, **options,
        )  # fmt: skip

    return run
