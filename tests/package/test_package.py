"""What users get is whole: the wheel has every file, works on its own, and the sdist makes the same one."""

import json
import re
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from tests.package.conftest import ROOT, Call, build

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSION = PROJECT["version"]


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata(wheel: Path) -> Message:
    return message_from_string(contents(wheel)[f"pfels-{VERSION}.dist-info/METADATA"].decode())


# What is in it


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path):
    source = ROOT / "src"
    files = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name and ".egg-info" not in name}
    found = {name for name in contents(wheel) if not name.startswith(f"pfels-{VERSION}.dist-info/")}
    assert found == files
    needed = ["py.typed", "config/presets/demo.toml", "report/templates/report.html", "studies/published.json"]
    assert {f"pfels/{name}" for name in [*needed, "flower/app/pyproject.toml"]} <= found


def test_the_sdist_has_tests_and_docs_and_makes_the_same_wheel(unpacked: Path, wheel: Path, tmp_path: Path):
    for name in ("tests/e2e/golden.json", "docs/privacy.md", "README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff"):
        assert (unpacked / name).read_bytes() == (ROOT / name).read_bytes()
    tests = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py")}
    assert {name for name in tests if not (unpacked / name).is_file()} == set()
    assert contents(build(unpacked, "wheel", tmp_path / "again")) == contents(wheel)


def test_the_metadata_name_licence_links_and_what_the_page_shows(wheel: Path):
    found = metadata(wheel)
    assert (found["Name"], found["Version"], found["License-Expression"]) == ("pfels", VERSION, "Apache-2.0")
    assert found["Description-Content-Type"] == "text/markdown"
    assert found.get_payload() == (ROOT / "README.md").read_text("utf-8")
    links = dict(link.split(", ") for link in found.get_all("Project-URL", []))
    assert set(links) == {"Repository", "Documentation", "Changelog", "Issues"}
    assert all(link.startswith("https://") for link in links.values())
    assert not any(kind.startswith("License ::") for kind in found.get_all("Classifier", []))  # PEP 639: either or


def test_one_version_is_named_everywhere():
    cff = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    app = tomllib.loads((ROOT / "src/pfels/flower/app/pyproject.toml").read_text("utf-8"))
    log = re.search(r"^## (\S+) \((\d{4}-\d{2}-\d{2})\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert cff is not None
    assert log is not None
    assert [cff[1].strip('"'), app["project"]["version"], log[1]] == [VERSION] * 3
    assert f"date-released: {log[2]}" in (ROOT / "CITATION.cff").read_text("utf-8").replace('"', "")


# It works where nothing else of the project is


def test_the_installed_command_is_the_wheel_s(call: Call, environment: Path):
    done = call("pfels", "--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"pfels {VERSION}"), done.stderr
    done = call("python", "-c", "import pfels; print(pfels.__file__)")
    assert Path(done.stdout.strip()).is_relative_to(environment), done.stderr


def test_every_requirement_is_met_by_what_is_installed(call: Call):
    program = (
        "from importlib.metadata import requires, version\nfrom packaging.requirements import Requirement\n"
        "for text in requires('pfels'):\n"
        "    need = Requirement(text)\n"
        "    if need.marker is None and not need.specifier.contains(version(need.name), prereleases=True):\n"
        "        print(text, version(need.name))"
    )
    done = call("python", "-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_preset_loads(call: Call):
    program = "import pfels; print(*[pfels.load_config(name).rounds > 0 for name in pfels.presets()])"
    done = call("python", "-c", program)
    presets = list((ROOT / "src/pfels/config/presets").glob("*.toml"))
    assert done.stdout.split() == ["True"] * len(presets), done.stderr


def test_a_short_demo_runs_and_is_reported(call: Call, tmp_path: Path):
    done = call("pfels", "run", "demo", "-s", "rounds=5", "--out", "run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rounds"] == 5
    done = call("pfels", "report", "run", "--json")
    assert done.returncode == 0, done.stderr
    page = tmp_path / json.loads(done.stdout)["report"]
    assert "<html" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data", "list"], "digits"),
        (["privacy", "--claimed-epsilon", "1.5", "--rounds", "2000"], "outsider"),
        (["plan", "demo", "-s", "rounds=20"], "pfels-echo"),
        (["verify"], "ok: "),
    ],
)
def test_a_command_works(call: Call, arguments: list[str], words: str):
    done = call("pfels", *arguments)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


def test_the_flower_app_is_found_with_its_components(call: Call, environment: Path):
    done = call("python", "-m", "pfels.flower")
    app = Path(done.stdout.strip())
    assert app.is_relative_to(environment), done.stderr
    parts = tomllib.loads((app / "pyproject.toml").read_text("utf-8"))["tool"]["flwr"]["app"]["components"]
    for kind in ("serverapp", "clientapp"):
        module, _, name = parts[kind].partition(":")
        source = (app.parents[2] / f"{module.replace('.', '/')}.py").read_text("utf-8")
        assert f"\n{name} = " in source
