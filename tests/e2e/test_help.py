"""The help of every command on a terminal of 80 columns, and what a shell completes."""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from pfels.cli import app, main
from pfels.cli.help import complete_preset, complete_schemes, complete_setting


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its words, the groups included."""
    yield path, group
    for name, each in getattr(group, "commands", {}).items():
        yield from commands(each, (*path, name))


EVERY = dict(commands(typer.main.get_command(app)))


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[tuple[str, ...]], str]:
    def call(path: tuple[str, ...]) -> str:
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setattr(sys, "argv", ["pfels", *path, "--help"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_example_is_on_one_line_and_no_flag_has_a_type(path: tuple[str, ...], said):
    text = said(path)
    assert "<bool>" not in text
    assert "BOOLEAN" not in text
    lines = [line.strip() for line in text.splitlines()]
    assert max(map(len, text.splitlines())) <= 80
    examples = [
        line.strip()
        for line in inspect.cleandoc(EVERY[path].help or "").splitlines()
        if re.match(r" {4}(pfels|torchrun) ", line)
    ]
    assert [example for example in examples if example not in lines] == []
    if not hasattr(EVERY[path], "commands"):
        assert examples, "every command teaches by example"


def test_an_option_that_takes_a_value_still_says_so(said):
    assert re.search(r"--seeds +SEEDS ", said(("compare",)))
    assert re.search(r"--jobs +-j +N \[x>=1\] ", said(("compare",)))


def completed(tmp_path: Path, *words: str) -> list[str]:
    """What bash would offer for the last word."""
    asked = {"_PFELS_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "pfels"], env={**os.environ, **asked}, cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_bash_completes_commands_presets_settings_and_data_sets(tmp_path: Path):
    (tmp_path / "demonstration.toml").touch()
    assert completed(tmp_path, "pfels", "com") == ["compare"]
    assert completed(tmp_path, "pfels", "run", "demo") == ["demo", "demonstration.toml"]
    assert completed(tmp_path, "pfels", "run", "demo", "-s", "compression.r") == ["compression.ratio="]
    assert completed(tmp_path, "pfels", "data", "get", "mn") == ["mnist-writers"]


def test_completions_begin_with_what_is_there():
    assert complete_preset("cifar10-") == ["cifar10-features", "cifar10-small"]
    assert complete_preset("[") == []
    assert complete_setting("radio.server") == ["radio.server_dbm="]
    assert complete_schemes("pfels,wfl-") == ["pfels,wfl-p", "pfels,wfl-pdp"]
    assert "pfels,pfels" not in complete_schemes("pfels,pfels")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_each_shell_is_shown(tmp_path: Path, shell: str):
    asked = {"_PFELS_COMPLETE": f"source_{shell}"}
    done = subprocess.run(
        [sys.executable, "-m", "pfels"], env={**os.environ, **asked}, cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert f"_PFELS_COMPLETE=complete_{shell}" in done.stdout
