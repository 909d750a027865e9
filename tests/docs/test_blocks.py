"""Blocks of Python are executed, with three rounds; blocks of TOML are read, as configs where they are ones.

Excerpts, whose first line says which name of a file they are in, are not executed.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest

import pfels
import pfels.studies.plan
from pfels.config.load import load_config
from tests.docs.commands import DONE, PAGES
from tests.docs.pages import ROOT, Block, blocks
from tests.docs.shorter import FEW

BLOCKS = [(page, block) for page in PAGES for block in blocks(page.read_text("utf-8"))]
PYTHON = [(page, block) for page, block in BLOCKS if block.kind == "python" and page not in DONE]
TOML = [(page, block) for page, block in BLOCKS if block.kind == "toml"]


def _name(value: object) -> str:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else f"line-{getattr(value, 'first', value)}"


@pytest.mark.parametrize(("page", "block"), [pair for pair in PYTHON if ", in " not in pair[1].lines[0]], ids=_name)
def test_a_block_of_python_runs(page: Path, block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def short(base: Any = "demo", overrides: Any = None, **options: Any) -> Any:
        return load_config(base, {**(overrides or {}), "rounds": FEW}, **options)

    monkeypatch.chdir(tmp_path)

    def plan(base: Any = "demo", **options: Any) -> Any:
        return pfels.studies.plan.plan(short(base) if isinstance(base, str) else base, **options)

    monkeypatch.setattr(pfels, "load_config", short, raising=False)
    monkeypatch.setattr(pfels, "plan", plan, raising=False)
    exec(compile(block.text, f"{page.name}, line {block.first}", "exec"), {"__name__": "page"})


@pytest.mark.parametrize(("page", "block"), TOML, ids=_name)
def test_a_block_of_toml_is_one(page: Path, block: Block, tmp_path: Path):
    tables = tomllib.loads(block.text)
    if {"build-system", "project", "superlink"} & set(tables):
        return  # of a package, or of Flower
    path = tmp_path / "mine.toml"
    path.write_text(block.text)
    load_config(path)


def test_the_page_of_the_api_has_every_public_name_once():
    page = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    named = [line.removeprefix("::: pfels.") for line in page.split("\n") if line.startswith("::: pfels.")]
    assert sorted(named) == sorted(set(pfels.__all__))
