"""No command in README, CONTRIBUTING or docs fails. (The blocks of tutorials are run as they are: test_tutorials.py.)

Run for real, in an empty directory, with three rounds, one seed, one job, at most two values of each grid (with --tune,
one) and 24 canaries:
- `pfels run`, `compare`, `sweep` and `audit` on the demo or a config file;
- `pfels plan` and `pfels privacy` on every preset, since they need no data; `--ledger` and `--create` on a new file;
- `pfels reproduce --scale link`, `pfels report` and `pfels privacy DIR` on a run made here, `pfels data list`, `init`.

Only validated, since they need data that are not here, other machines, or hours; every option and value goes through
the command's own parser, and
- for `pfels run`, `compare`, `sweep`, `audit` and `reproduce` on other presets, and under torchrun, the config is
  loaded with every setting and every value of every grid, for each scheme that is named;
- for `pfels data get` and `check`, the data set must be one that is known;
- for `python FILE` and `python -m MODULE`, the script's own parser must accept the arguments; nothing of it is run;
- for `make TARGET`, `make -n` must know the target.
Where a page leaves something out (…), or names a command or option as such (`pfels reproduce`), names are checked.
Flower's own commands are checked in tests/flower/test_tutorial.py; blocks of Python and TOML in test_blocks.py.
"""

import argparse
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

import pfels
from pfels.cli import app
from pfels.config.load import load_config
from pfels.config.preset_files import presets
from pfels.data.catalog import CATALOG
from pfels.schemes import registry
from tests.docs.commands import NODE, Command, commands
from tests.docs.pages import ROOT
from tests.docs.shorter import FEW, ROUNDS, call, few, load

COMMANDS = commands()
REAL = (*ROUNDS, "report", "init", "data list")
OF_PFELS = [command for command in COMMANDS if command.words[0] in ("pfels", "torchrun")]
OTHERS = [c for c in COMMANDS if c.words[0] in ("make", "python", "python3") and c.words[: len(NODE)] != NODE]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory with what pages take for granted: `mine.npz` and `mine.toml` of the reader's own."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(400, 6)), draw.integers(0, 3, 400)
    np.savez(tmp_path / "mine.npz", x_train=x[:300], y_train=y[:300], x_test=x[300:], y_test=y[300:])
    (tmp_path / "mine.toml").write_text('[data]\nname = "file"\npath = "mine.npz"\ndevices = 50\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", OF_PFELS, ids=str)
def test_a_command_of_pfels_works(command: Command, here: Path):
    _check(command, here)


@pytest.mark.parametrize(
    "line",
    [
        "pfels trian demo",
        "pfels run demo --nope",
        "pfels run nope",
        "pfels run demo -s compresion.ratio=0.1",
        "pfels run demo -s scheme=fedavg -s compression.ratio=0.1",
        "pfels run fashion -s compression.ratio=2",
        "pfels sweep fashion -g compression.ratio=0.1,2",
        "pfels compare fashion --schemes fedavg,nope",
        "pfels compare fashion --schemes fedavg -s compression.ratio=0.1",
        "pfels compare fashion --seeds 0,one",
        "pfels plan cifar10 -s radio.distance=200",
        "pfels privacy --target-epsilon -1",
        "pfels reproduce fig-9",
        "pfels reproduce fig-privacy --scale laptop --preset nope",
        "pfels data get nope",
        "pfels privacy --leger",
        "torchrun -m pfels run cifar10 --aut runs",
    ],
)
def test_a_command_that_is_wrong_is_found(line: str, here: Path):
    with pytest.raises(Exception, match=r".") as found:
        _check(Command(tuple(line.split()), "here", excerpt=False), here)
    assert not isinstance(
        found.value, TypeError | AttributeError | KeyError
    )  # an error of the command, not of the test


def _check(command: Command, here: Path) -> None:
    words = command.words[command.words.index("pfels") + 1 :]
    if words[0].startswith("--"):  # of the command itself, such as --version
        assert words[0] in {option for parameter in typer.main.get_command(app).params for option in parameter.opts}
        return
    name, leaf, arguments = _leaf(words)
    if command.excerpt or _is_a_name(leaf, arguments):
        known = {option for parameter in leaf.params for option in parameter.opts}
        assert {word for word in arguments if word.startswith("-")} <= known, command.place
        return
    values = leaf.make_context(name, list(arguments)).params
    given = {option: values[p.name] for p in leaf.params if p.name in values for option in p.opts}
    if name in ("data get", "data check"):
        assert given["name"] in CATALOG, command.place
    elif command.words[0] == "torchrun" or _needs_data(name, given):
        load(name, given)
    elif name in REAL:
        _run(name, arguments, here)


@pytest.mark.parametrize("command", OTHERS, ids=str)
def test_a_command_of_the_repository_is_understood(command: Command, monkeypatch: pytest.MonkeyPatch):
    tool, *rest = command.words
    if tool == "make":
        done = subprocess.run(["make", "-n", *rest], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command.place}: {done.stderr}"
    elif rest[0] == "-c":
        compile(rest[1], command.place, "exec")
    elif rest[:2] != ["-m", "venv"]:
        _parse(rest, monkeypatch)


def _leaf(words: Sequence[str]) -> tuple[str, Any, list[str]]:
    """The subcommand, its parser, and the rest of the words."""
    parser, path, rest = typer.main.get_command(app), list[str](), list(words)
    while hasattr(parser, "commands"):
        assert rest, "no subcommand"
        assert rest[0] in parser.commands, f"pfels has no command {rest[0]}"
        path.append(rest.pop(0))
        parser = parser.commands[path[-1]]
    return " ".join(path), parser, rest


def _is_a_name(leaf: Any, arguments: Sequence[str]) -> bool:
    """`pfels reproduce` or `pfels privacy --ledger`: the name of a thing, not a command to type."""
    if not all(word.startswith("-") for word in arguments):
        return False
    needed = any(parameter.required and parameter.param_type_name == "argument" for parameter in leaf.params)
    values = {o for p in leaf.params if p.param_type_name == "option" and not p.is_flag for o in p.opts}
    return needed or arguments in ([], ["--json"]) or arguments[-1] in values


def _needs_data(name: str, given: dict[str, Any]) -> bool:
    if name == "reproduce":
        return bool(given["--scale"] != "link")
    return name in ("run", "compare", "sweep", "audit") and given["preset"] in set(presets()) - {"demo"}


def _run(name: str, arguments: list[str], here: Path) -> None:
    """Run a command with few rounds, after what must be there for it."""
    if "--resume" in arguments:
        call(name, few(name, [word for word in arguments if word != "--resume"]))
    if "--ledger" in arguments and "--create" not in arguments:
        call("privacy", ["--ledger", "ledger.json", "--create", "0/4", "--devices", "100"])
    if name == "init":
        (here / "mine.toml").unlink()
    if name == "report" or any(word.startswith("runs/first") for word in arguments):
        pfels.run(load_config("demo", {"rounds": FEW}), out=here / "runs" / "first")
    call(name, [str(here / "runs")] if name == "report" else few(name, arguments))


class _ParsedError(Exception):
    """A script's arguments were accepted."""


def _parse(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a script parse its arguments, and stop it there."""
    words = words[1:] if words[0] == "-P" else words
    path, arguments = ROOT / words[0], list(words[1:])
    if words[0] == "-m":
        inside = Path(words[1].replace(".", "/")) / "__main__.py"
        path, arguments = ROOT / inside if (ROOT / inside).exists() else ROOT / "src" / inside, list(words[2:])
    assert path.exists(), f"{path} is not there"
    if "argparse" not in path.read_text("utf-8"):
        assert not arguments, f"{path.name} takes no arguments"
        return
    parse = argparse.ArgumentParser.parse_args

    def stop(self: argparse.ArgumentParser, *given: Any, **more: Any) -> None:
        parse(self, *given, **more)
        raise _ParsedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr(sys, "argv", [str(path), *arguments])
    monkeypatch.setattr(sys, "path", [str(path.parent), str(ROOT), *sys.path])
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(registry, "_SCHEMES", dict(registry._SCHEMES))  # a study may register one
    with pytest.raises(_ParsedError):
        runpy.run_path(str(path), run_name="__main__")
