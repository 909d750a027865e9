"""A command that writes tables or a page into a folder keeps what is there and is not its own."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pfels.paper import reproduce as module
from pfels.paper.reproduce import reproduce
from pfels.report.page import write_report
from pfels.runtime.files import number_beside
from tests.conftest import SMALL
from tests.report.stored_runs import finish

Pfels = Callable[..., CompletedProcess[str]]
OPTIONS = [word for key, value in SMALL.items() for word in ("-s", f"{key}={value}")]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_smaller_comparison_is_written_beside_a_larger_one(pfels: Pfels, tmp_path: Path):
    """As on the first page of the documentation: three schemes after `make demo`, into the same folder."""
    folder = tmp_path / "runs"
    compare = ("compare", "demo", *OPTIONS, "--seeds", "0,1", "--out", "runs")
    assert pfels(*compare, "--schemes", "pfels,wfl-p,fedavg").returncode == 0
    assert pfels("report", "runs").returncode == 0
    before = contents(folder)
    assert set(before) == {"comparison.csv", "comparison.json", "report.html"}
    fewer = pfels(*compare, "--schemes", "wfl-p,fedavg")
    assert fewer.stderr.endswith("run directories: runs\ntable: runs/comparison-2.csv\n")
    after = contents(folder)
    assert {name: after[name] for name in before} == before
    assert list(json.loads(after["comparison-2.json"])["schemes"]) == ["wfl-p", "fedavg"]
    again = pfels(*compare, "--schemes", "pfels,wfl-p,fedavg")
    assert "6 of 6 runs read from runs, finished" in again.stderr
    assert "table: runs/comparison.csv" in again.stderr
    assert "older" not in again.stderr
    assert set(contents(folder)) == set(after)
    os.utime(folder / "report.html", (0, 0))
    assert (
        "runs/report.html is older than these runs; `pfels report runs` writes it anew"
        in pfels(*compare, "--schemes", "pfels,wfl-p,fedavg").stderr
    )


def test_a_name_is_taken_by_what_was_asked_for_otherwise_and_by_what_is_no_document_of_ours(tmp_path: Path):
    asked = {"seeds": (0, 1), "budget": None}
    assert number_beside(tmp_path, ["t", "s"], asked) == ""
    (tmp_path / "t.json").write_text(json.dumps({"asked": {"seeds": [0, 1], "budget": None}}))
    assert number_beside(tmp_path, ["t", "s"], asked) == ""
    assert number_beside(tmp_path, ["t", "s"], {**asked, "seeds": (0,)}) == "-2"
    (tmp_path / "t-2.json").write_text("not ours")
    (tmp_path / "s-3.csv").write_text("not ours either")
    (tmp_path / "t-4.json").write_text("{}")  # as earlier versions wrote it
    assert number_beside(tmp_path, ["t", "s"], {**asked, "seeds": (0,)}) == "-5"


def test_a_reproduction_with_other_seeds_or_settings_is_written_beside(tmp_path: Path):
    def files(**changed: object) -> list[str]:
        given = {"seeds": [0], "overrides": {"rounds": 3}, "out": tmp_path, **changed}
        return [Path(file).name for file in reproduce("table-cifar10", **given)["files"]]  # type: ignore[arg-type]

    assert files() == ["table-cifar10-link.json", "table-cifar10-link.csv"]
    before = contents(tmp_path)
    assert files(seeds=[1]) == ["table-cifar10-link-2.json", "table-cifar10-link-2.csv"]
    assert files(overrides={"rounds": 4})[0] == "table-cifar10-link-3.json"
    assert files() == ["table-cifar10-link.json", "table-cifar10-link.csv"]
    assert {name: contents(tmp_path)[name] for name in before} == before


def test_a_reproduction_that_was_killed_between_two_files_replaces_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def again() -> None:
        reproduce("table-cifar10", seeds=[0], overrides={"rounds": 3}, out=tmp_path)

    write = module.write_atomically
    for files in (0, 1):
        left = [files]

        def killed(path: Path, content: bytes, left: list[int] = left) -> None:
            if not left[0]:
                raise SystemExit
            left[0] -= 1
            write(path, content)

        monkeypatch.setattr(module, "write_atomically", killed)
        with pytest.raises(SystemExit):
            again()
    monkeypatch.setattr(module, "write_atomically", write)
    again()
    assert set(contents(tmp_path)) == {"table-cifar10-link.json", "table-cifar10-link.csv"}


def test_an_audit_with_other_canaries_is_written_beside(pfels: Pfels, tmp_path: Path):
    audit = ("audit", "demo", *OPTIONS, "--out", "a")
    for canaries, names in (("60", {"audit.json"}), ("50", {"audit.json", "audit-2.json"})):
        done = pfels(*audit, "--canaries", canaries)
        assert done.returncode in (0, 1), done.stderr
        assert {path.name for path in (tmp_path / "a").glob("audit*.json")} == names
    found = [json.loads((tmp_path / "a" / name).read_text())["canaries"] for name in ("audit.json", "audit-2.json")]
    assert found == [60, 50]
    pictures = {path.name for path in (tmp_path / "a").glob("*.png")}
    assert pictures == {"audit.png", "audit-2.png"}


def test_a_page_replaces_a_page_and_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a/run", "b/run"):
        finish(tmp_path / name)
    (tmp_path / "a" / "report.html").write_text("<title>mine</title>")
    assert write_report("a")["report"] == write_report("a")["report"] == "a/report-2.html"
    assert (tmp_path / "a" / "report.html").read_text() == "<title>mine</title>"
    assert write_report(["a", "b"])["report"] == write_report(["a", "b"])["report"] == "report.html"
