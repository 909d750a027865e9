"""What is installed, and what a release is built by, is named with its hash or its commit."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FILES = sorted(ROOT.glob("constraints*.txt"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def packages(file: Path) -> Iterator[tuple[str, str, str]]:
    """Of each package its name, its version and the rest of its lines."""
    for block in re.split(r"\n(?=[^\s#])", re.sub(r"^#.*\n", "", file.read_text("utf-8"), flags=re.M).strip()):
        found = re.match(r"([A-Za-z0-9._-]+)(?:\[\S+\])?==(\S+)", block)
        assert found, block
        yield re.sub(r"[-_.]+", "-", found[1]).lower(), found[2], block[found.end() :]


def needed(*extras: str) -> set[str]:
    """The names that the project itself, or extras of it, ask for."""
    texts = [each for extra in extras for each in PROJECT["optional-dependencies"][extra]]
    names = [re.split(r"[\s\[><=!~;]", each)[0] for each in [*PROJECT["dependencies"], *texts]]
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names} - {"pfels"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_package_is_pinned_to_one_version_with_the_hashes_of_its_files(file: Path):
    found = list(packages(file))
    assert found
    for name, _, rest in found:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", rest), name
        lines = [line.strip().removesuffix("\\").strip() for line in rest.splitlines()[1:]]
        assert [line for line in lines if not re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line)] == [], name
    assert len({name for name, _, _ in found}) == len(found)


def test_the_constraints_hold_what_the_project_asks_for_in_one_version():
    own, tools, flower, torch, cuda = (
        {name: version for name, version, _ in packages(ROOT / f"constraints{part}.txt")}
        for part in ("", "-tools", "-flower", "-torch", "-cuda")
    )
    assert list(torch) == ["torch"]
    assert needed("dev", "pandas", "tensorboard") <= {*own, *torch}
    assert needed("docs", "browser", "notebooks") <= {*own, *tools, *torch}
    assert needed("flower") | {"pytest", "pytest-xdist", "hatchling"} <= {*flower, *torch}
    assert {name: (own[name], tools[name]) for name in set(own) & set(tools) if own[name] != tools[name]} == {}
    assert not (set(cuda) | set(torch)) & (set(own) | set(flower)), "only where PyTorch is a build with CUDA"


def test_what_make_installs_is_held_to_its_hash_and_pfels_is_built_by_it():
    lines = (ROOT / "Makefile").read_text("utf-8").partition("\ntest-sionna:")[0].splitlines()
    installs = [line.strip() for line in lines if "pip install" in line and not line.startswith("#")]
    assert len(installs) == 6
    hashed = [line for line in installs if "--require-hashes" in line]
    assert [line for line in installs if line not in hashed] == [
        "$(1)/bin/python -m pip install --quiet --no-deps --no-build-isolation -e ."
    ]
    for workflow in WORKFLOWS:
        assert "pip install" not in workflow.read_text("utf-8"), workflow.name


@pytest.mark.skipif(not WORKFLOWS, reason="an sdist has no workflows")
def test_every_action_is_named_by_its_commit():
    used = [use for file in WORKFLOWS for use in re.findall(r"uses: *(.*)", file.read_text("utf-8"))]
    assert len(used) >= 8
    assert [use for use in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use)] == []


def test_python_is_new_enough_for_the_filters_of_tarfile():
    """They came with 3.11.4: https://docs.python.org/3.11/library/tarfile.html#extraction-filters."""
    assert PROJECT["requires-python"] == ">=3.11.4"
    assert "Python 3.11.4 or newer" in (ROOT / "README.md").read_text("utf-8")
