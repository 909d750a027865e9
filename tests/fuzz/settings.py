"""Configs, overrides and command lines: what is accepted reads back as it was, and what is not is one line."""

import contextlib
import io
import math
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pfels import cli
from pfels.config.load import load_config, stored_config, tuning_grid
from pfels.config.messages import known_keys
from pfels.config.preset_files import presets
from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.studies.sweep import grid, parse_axes
from tests.fuzz.target import Target, part, require

OVERRIDES = (
    ["rounds=3", "seed=7"], ["scheme=pfels-plus", "privacy.total_epsilon=2.0", "compression.ratio=0.5"],
    ["data.name=file", "data.path=own.npz"], ["training.learning_rate=0.1", "channel.gain_min=0.001", "data.alpha=0.3"],
    ["scheme=pfels-echo", "pfels-echo.bands=3"], ["data.partition=dirichlet", "cohort.sampling=poisson"],
    ["training={learning_rate=0.1}"], ["server.average=0.9", "run.device=cpu", "model.name=cnn"],
)  # fmt: skip
COMMANDS = (
    ["run", "demo", "-s", "scheme=[]"], ["sweep", "demo", "-g", "scheme={a=1}"],
    ["run", "demo", "-s", "rounds=2"], ["run", "demo", "--json", "--resume"], ["sweep", "demo", "--grid", "seed=1,2"],
    ["sweep", "demo", "-g", "compression.ratio=0.1,0.3", "--seeds", "0,1", "--shard", "1/2"],
    ["compare", "demo", "--schemes", "pfels,wfl-pdp", "--seeds", "0", "--total-epsilon", "4.0"],
    ["report", "nowhere", "--json"], ["run", "a.toml", "-s", "data.name=file", "-s", "data.path=x"],
)  # fmt: skip


# Every key may be given a value of every type of TOML; an input of this kind names the two by number.
TYPES = (
    "[]", '["pfels"]', "[[1]]", "[{a = 1}]", "{}", "{a = 1}", "{a = {b = [1]}}", "0", "1", "-1", "1.5", "nan", "-inf",
    "true", "'x'", "''", "'pfels-echo'", "2026-01-01", "2026-01-01T00:00:00Z", "12:00:00", "9223372036854775808",
)  # fmt: skip
PLACES = (
    *known_keys(Config), *Config.model_fields, "scheme.x", "rounds.x", "for", "for.pfels", "for.pfels.rounds",
    "for.nobody", "tune", "tune.rounds", "pfels-echo", "pfels-echo.bands",
)  # fmt: skip


def _typed(data: bytes, folder: Path) -> None:
    """Settings of any type: in a file, a stored config, an override, a grid, and beside another scheme."""
    pairs = [(PLACES[a % len(PLACES)], TYPES[b % len(TYPES)]) for a, b in zip(data[1::2], data[2::2], strict=False)][:4]
    text = "\n".join(f"{key} = {value}" for key, value in pairs)
    (folder / "a.toml").write_text(text + "\n")
    overrides = [f"{key}={value}" for key, value in pairs]
    for attempt in (
        lambda: _require_sound(load_config(folder / "a.toml"), folder),
        lambda: _require_sound(stored_config(folder / "a.toml"), folder),
        lambda: tuning_grid(folder / "a.toml"),
        lambda: grid("demo", parse_axes(overrides), out=folder),
        lambda: _require_sound(load_config("demo", ["scheme=wfl-p", *overrides]), folder),
        lambda: _require_sound(load_config("demo", overrides), folder),
    ):
        with suppress(InputError):
            _one_line(attempt)
    _require_sound(load_config("demo", overrides), folder)


def _one_line(attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except InputError as error:
        require(str(error).isprintable() and len(str(error)) < 3000, "a message of many lines")
        raise


def _typed_corpus(folder: Path) -> Sequence[bytes]:
    return [part(0, bytes([i, j])) for i in range(0, len(PLACES), 5) for j in range(0, len(TYPES), 3)]


def _config_corpus(folder: Path) -> Sequence[bytes]:
    whole = [load_config(name).to_toml().encode() for name in ("demo", "femnist")]
    source = Path(cli.__file__).parents[1] / "config" / "presets"
    files = [(source / f"{name}.toml").read_bytes() for name in presets()]
    own = load_config("demo", {"scheme": "pfels-echo"}).to_toml().encode()
    lists = [part(1, b"\0".join(map(str.encode, each))) for each in OVERRIDES]
    return [*(part(0, each) for each in (*whole, *files, own)), *lists]


def _config(data: bytes, folder: Path) -> None:
    if data[0] % 2 == 0:
        (folder / "a.toml").write_bytes(data[1:])
        _require_sound(load_config(folder / "a.toml"), folder)
    else:
        _require_sound(load_config("demo", [os.fsdecode(each) for each in data[1:].split(b"\0")]), folder)


def _require_sound(config: Config, folder: Path) -> None:
    (folder / "back.toml").write_bytes(config.to_toml().encode())
    again = load_config(folder / "back.toml", tuned=False)
    require(again == config and again.digest() == config.digest(), "a config that reads back as another one")
    numbers = [value for value in config.flat().values() if isinstance(value, float)]
    require(all(map(math.isfinite, numbers)), "a number that is not finite")


def _command_corpus(folder: Path) -> Sequence[bytes]:
    return [part(0, b"\0".join(map(str.encode, each))) for each in COMMANDS]


def _command(data: bytes, folder: Path) -> None:
    """The whole command in process. Its --out lies below a file, so that what is accepted is refused before it runs."""
    (folder / "file").touch()
    before, out, err = os.getcwd(), io.StringIO(), io.StringIO()
    arguments = [os.fsdecode(each) for each in data[1:].split(b"\0") if b"-h" not in each]
    argv, sys.argv = sys.argv, ["pfels", *arguments, "--out", str(folder / "file" / "x.html")]
    os.chdir(folder)
    code: object = None
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.argv = argv
        os.chdir(before)
    error = err.getvalue()
    require(sorted(path.name for path in folder.iterdir()) == ["file"], "something was written")
    if code == 0:
        return
    require(code == 2, f"exit code {code}")
    lines = error.splitlines()
    require(lines and lines[-1].startswith("error: ") and error.replace("\n", "").isprintable(), "no line of an error")
    require(len(lines[-1]) < 3000, "a long line")
    raise InputError(lines[-1])


TARGETS = (
    Target("config", _config_corpus, _config),
    Target("typed", _typed_corpus, _typed, every=4),
    Target("command", _command_corpus, _command, every=8),
)
