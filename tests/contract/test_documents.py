"""Every document has a type, every field of a document is in its type, and docs/files.md lists them all."""

import json
import sys
import types
import typing
from pathlib import Path
from typing import Any, NotRequired

import pytest
from typing_extensions import get_type_hints, is_typeddict

import pfels
from pfels.documents.data import DataSet, DataSets
from pfels.documents.paper import Reproduction
from pfels.documents.privacy import NoiseForBudget, PresetPrivacy, PrivacyFigures
from pfels.documents.report import Report
from pfels.documents.run import Environment, RoundRecord, Summary
from pfels.documents.studies import Comparison, Plan, Sweep
from pfels.documents.validate import validated
from pfels.errors import InputError
from tests.conftest import small

ROOT = Path(__file__).parents[2]
TINY = ["-s", "rounds=3", "-s", "data.devices=30", "-s", "cohort.size=8", "-s", "model.hidden=8"]
COMMANDS: dict[str, tuple[list[str], type]] = {
    "run": (["run", "demo", *TINY], Summary),
    "compare": (["compare", "demo", *TINY, "--seeds", "0,1", "--total-epsilon", "8"], Comparison),
    "sweep": (["sweep", "demo", *TINY, "-g", "compression.ratio=0.1,0.3", "--shard", "1/2"], Sweep),
    "plan": (["plan", "demo", *TINY, "--total-epsilon", "8"], Plan),
    "privacy": (["privacy", "demo", *TINY], PresetPrivacy),
    "privacy, numbers": (["privacy", "--noise-multiplier", "2"], PrivacyFigures),
    "privacy, target": (["privacy", "demo", *TINY, "--target-epsilon", "2"], NoiseForBudget),
    "data list": (["data", "list"], DataSets),
    "data get": (["data", "get", "digits"], DataSet),
    "data check": (["data", "check", "digits"], DataSet),
    "table": (["reproduce", "table-cifar10", "--seeds", "0", "-s", "rounds=5"], Reproduction),
    **{
        name: (["reproduce", name, "--seeds", "0", "-s", "rounds=5"], Reproduction)
        for name in ("fig-compression", "fig-privacy", "fig-training")
    },
    "fig-privacy, laptop": (
        ["reproduce", "fig-privacy", "--scale", "laptop", "--preset", "demo", "--learning-rates", "0.05",
         "--seeds", "0", *TINY],
        Reproduction,
    ),
}  # fmt: skip


def misfits(kind: Any, content: Any, where: str = "") -> list[str]:
    """Where a document differs from its type: fields that are missing, unknown, or of another type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if is_typeddict(kind):
        if not isinstance(content, dict):
            return [f"{where}: {type(content).__name__}"]
        hints = get_type_hints(kind, include_extras=True)
        optional = {name for name, hint in hints.items() if typing.get_origin(hint) is NotRequired}
        plain = {name: typing.get_args(hint)[0] if name in optional else hint for name, hint in hints.items()}
        found = [f"{where}.{name}: missing" for name in plain if name not in content and name not in optional]
        found += [f"{where}.{name}: not in the type" for name in content if name not in plain]
        return found + [f for n, v in content.items() if n in plain for f in misfits(plain[n], v, f"{where}.{n}")]
    if origin in (typing.Union, types.UnionType):
        tried = [misfits(each, content, where) for each in arguments]
        return min(tried, key=len)
    if origin in (list, dict) and not isinstance(content, origin):
        return [f"{where}: {type(content).__name__}"]
    if origin is list:
        return [f for i, v in enumerate(content) for f in misfits(arguments[0], v, f"{where}[{i}]")]
    if origin is dict:
        return [f for key, v in content.items() for f in misfits(arguments[1], v, f"{where}.{key}")]
    if kind is object or kind is Any:
        return []
    if kind is float:
        kind = (int, float)
    right = isinstance(content, kind) and (not isinstance(content, bool) or kind is bool)
    return [] if right else [f"{where}: {type(content).__name__}"]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_prints_is_what_its_type_says(name: str, pfels_command: Any):
    arguments, kind = COMMANDS[name]
    done = pfels_command(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert misfits(kind, json.loads(done.stdout)) == []


def test_a_run_directory_holds_what_its_types_say(tmp_path: Path, scheme: str):
    config = small(scheme=scheme)
    result = pfels.run(config, tmp_path / "run")
    assert misfits(Summary, json.loads((tmp_path / "run" / "summary.json").read_text())) == []
    assert misfits(Environment, json.loads((tmp_path / "run" / "environment.json").read_text())) == []
    assert [f for record in result.records for f in misfits(RoundRecord, record)] == []
    assert misfits(Report, pfels.write_report(tmp_path / "run")) == []


def test_a_misfit_is_found():
    assert misfits(Environment, {"python": 3, "pythn": "3.11"}) == [".pythn: not in the type", ".python: int"]
    with pytest.raises(InputError, match=r"here: expected: Field required"):
        validated(__import__("pfels.documents.run", fromlist=["Replies"]).Replies, {}, "here")


def test_the_page_of_files_is_that_of_the_types(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    import make_files

    assert make_files.PAGE.read_text("utf-8") == make_files.page(), "python docs/make_files.py writes it anew"
