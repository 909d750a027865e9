"""The tutorial on real machines, done as it is written: a SuperLink, two SuperNodes and a run."""

import itertools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pfels.flower import settings
from pfels.flower.loopback import MARK, Loopback
from tests.docs.commands import NODE, Command, commands
from tests.docs.pages import ROOT, differs, environment, perform, steps

COMMANDS = commands()
OF_FLOWER = [c for c in COMMANDS if c.words[0].startswith("flower-") or c.words[0] == "flwr"]
OF_FLOWER += [
    replace(c, words=("flower-supernode", *c.words[len(NODE) :])) for c in COMMANDS if c.words[: len(NODE)] == NODE
]
PAGE = ROOT / "docs" / "tutorials" / "real-machines.md"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of the page's commands; all that they left running is stopped at the end."""
    mark = Loopback(tmp_path, 0)
    home = {"FLWR_HOME": str(tmp_path / "flower-home"), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    yield environment(tmp_path / "data") | home | {MARK: mark.mark}
    mark.stop()


def test_the_page_works_as_it_is_written(tmp_path: Path, started: dict[str, str]):
    for step in steps(PAGE.read_text("utf-8")):
        printed = perform(step, tmp_path, started)
        if step.shown is not None:
            assert differs(step.shown.text, printed, exact=False) is None, printed


@pytest.mark.parametrize("command", OF_FLOWER, ids=str)
def test_a_command_of_flower_on_any_page_is_understood(command: Command, tmp_path: Path):
    """Its options are in its own help, and a run config is read by the app's own reader; nothing is started."""
    tool, *words = command.words
    below = list(itertools.takewhile(str.isalpha, words))[: 2 if "supernode" in words else 1]  # `supernode register`
    shown = subprocess.run(
        [str(Path(sys.executable).parent / tool), *below, "--help"],
        capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200", "FLWR_HOME": str(tmp_path)},
    )  # fmt: skip
    for option in (word for word in words if word.startswith("--")):
        assert re.search(rf"{option}\b(?!-)", shown.stdout), f"{command.place}: {option}"
    for option, read in (("--run-config", _read_run_config), ("--node-config", _read_node_config)):
        if option in words:
            read(_pairs(words[words.index(option) + 1]))


def _pairs(text: str) -> dict[str, Any]:
    """`key=value` pairs as Flower reads them: values are TOML's."""
    return {key: tomllib.loads(f"v = {value}")["v"] for key, value in re.findall(r'([\w.-]+)=("[^"]*"|\S+)', text)}


def _read_run_config(pairs: dict[str, Any]) -> None:
    settings.read({"noise": "secret", **pairs, "out": "run"})


def _read_node_config(pairs: dict[str, Any]) -> None:
    assert set(pairs) <= set(settings.NODE_KEYS)
