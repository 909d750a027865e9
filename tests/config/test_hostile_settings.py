"""Settings that nobody should give: refused in one printable line of bounded length, whoever gives them."""

import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pfels.cli import main
from pfels.cli.options import place, stem
from pfels.config.load import load_config, stored_config, tuning_grid
from pfels.config.messages import known_keys
from pfels.config.tree import Config
from pfels.errors import InputError, RunError
from pfels.studies.sweep import grid, parse_axes

KEYS = [
    "\udcff",
    "data.\udcff",
    "a\nb",
    "\x1b[31mred",
    "k" * 5000,
    "data." + "k" * 5000,
    "pfels-plus.\udcff",
    "\u202e.x",
    ".",
]
VALUES = {
    "bytes that are no UTF-8": ("data.path", "\udcff.npz"),
    "a name that is no UTF-8": ("scheme", "\udcff"),
    "hexadecimal of 5,000 digits": ("seed", int("f" * 5000, 16)),
    "an integer that no float holds": ("data.alpha", 10**400),
    "a name of 5,000 characters": ("scheme", "k" * 5000),
    "a nested list": ("rounds", eval("[" * 50 + "]" * 50)),
    "a table": ("data.name", {"a": {"b": 1}}),
    "a surrogate in a table": ("data", {"\udcff": 1}),
    "a number as key": ("data", {5: 1}),
}


def line_of(caught: Any) -> str:
    line = str(caught.value)
    assert line.isprintable()
    assert len(line) < 2000
    return line


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_is_none_is_refused_in_one_printable_line(key: str):
    for given in ({key: 1}, [f"{key}=1"]):
        with pytest.raises(InputError) as caught:
            load_config("demo", given)
        assert line_of(caught).count("k" * 200) == 0
    with pytest.raises(InputError) as caught:
        load_config("demo", parse_axes([f"{key}=1,2"]))
    line_of(caught)


TYPES = (
    "[]", '["pfels"]', "[[1]]", "[{a = 1}]", "{}", "{a = 1}", "{a = {b = [1]}}", "1", "1.5", "nan", "-inf", "true",
    "'x'", "''", "2026-01-01", "2026-01-01T00:00:00Z", "12:00:00",
)  # fmt: skip
PLACES = (
    *known_keys(Config), "scheme.x", "rounds.x", "data.x.y", "pfels-echo", "pfels-echo.bands", "pfels", "for",
    "for.pfels", "for.pfels.rounds", "for.nobody", "tune", "tune.rounds", "own",
    *(name for name in Config.model_fields if name not in ("scheme", "seed", "rounds", "own")),
)  # fmt: skip


def refusal(attempt: Callable[[], object]) -> str:
    """What an InputError says; nothing where there is none."""
    try:
        attempt()
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("value", TYPES)
def test_every_key_given_a_value_of_every_type_is_accepted_or_refused_in_one_line(value: str, tmp_path: Path):
    """On the command line, in a file, as a stored config, on a grid, and below overrides of another key."""
    file, python = tmp_path / "a.toml", tomllib.loads(f"value = {value}")["value"]
    for key in PLACES:
        file.write_text(f"{key} = {value}\n")
        for attempt in (
            lambda key=key: load_config("demo", [f"{key}={value}"]).to_toml(),
            lambda key=key: load_config("demo", {key: python}).to_toml(),
            lambda key=key: grid("demo", {key: [python]}, out=tmp_path),
            lambda: load_config(file, ["rounds=3"]).to_toml(),
            lambda: stored_config(file),
            lambda: tuning_grid(file),
        ):
            line = refusal(attempt)
            assert line.isprintable()
            assert len(line) < 2000


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_that_cannot_be_is_refused_in_one_printable_line(kind: str):
    key, value = VALUES[kind]
    with pytest.raises(InputError) as caught:
        load_config("demo", {key: value})
    assert key.partition(".")[0] in line_of(caught)


def test_what_is_no_key_at_all_is_refused():
    with pytest.raises(InputError, match="5: not a key of a config"):
        load_config("demo", {5: 1})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "demo", "-s", b"\xff=1"],
        ["run", "demo", "-s", b"data.path=\xff.npz"],
        ["run", "demo", "-s", b"data.name=file", "-s", b"data.path=\xff.npz"],
        ["run", b"\xff.toml"],
        ["run", "demo", "--out", b"runs/\xff"],
        ["compare", "demo", "--schemes", b"\xff"],
        ["sweep", "demo", "-g", b"\xff=1,2"],
        ["report", b"\xff"],
        ["data", "get", "fashion", "--from", b"\xff"],
        ["privacy", "--ledger", b"\xff/x"],
        ["run", "demo", "-s", "a\nb\x1b[31m=1"],
        ["run", "demo\n\x1b[31m"],
        ["run", "demo", "--\x1b[31m\n"],
        ["run", "demo", "-s", "k" * 5000 + "=1"],
        ["run", "k" * 5000],
    ],
)
def test_bytes_that_are_no_text_end_in_one_line_on_the_command_line_too(
    tmp_path: Path, arguments: list[str | bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pfels", *map(os.fsdecode, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, error = capsys.readouterr()
    assert ended.value.code == 2, error
    assert error.startswith("error: ")
    assert error.removesuffix("\n").isprintable()
    assert len(error) < 1000
    assert not out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["...toml", "....toml", "..", "x/...toml", ".toml"])
def test_the_name_of_a_config_never_leads_out_of_the_folder_of_runs(name: str):
    assert ".." not in Path("runs", stem(name), "run").parts
    assert ".." not in place(name, {}).parts
    assert ".." not in place(f"{name}-tuned", {}).parts


def test_every_error_for_a_user_is_one_printable_line():
    for kind in (InputError, RunError):
        assert str(kind("a\nb\x1b[31m\udcff")) == "a\\nb\\x1b[31m\\udcff"


def test_a_config_file_beyond_the_limit_is_not_read(tmp_path: Path):
    (tmp_path / "a.toml").write_text("# " + "x" * 2**20)
    with pytest.raises(InputError, match="more than 1048576 bytes; not a config"):
        load_config(tmp_path / "a.toml")
