"""A command with few rounds, and the configs that a command would run."""

from collections.abc import Sequence
from typing import Any

from pfels.cli import app
from pfels.cli.options import seed_list, split_list
from pfels.config.load import load_config, parse_override
from pfels.config.scheme_settings import used_by
from pfels.paper.targets import TARGETS
from pfels.schemes.registry import usable_schemes

FEW = 3
ROUNDS = ("run", "compare", "sweep", "audit", "plan", "privacy", "reproduce")  # commands that have rounds to shorten


def call(name: str, arguments: Sequence[str]) -> None:
    """Run a command of `pfels` in this process."""
    code = app([*name.split(), *arguments], standalone_mode=False)
    assert code in (0, None), f"pfels {name} {' '.join(arguments)}: exit code {code}"


def few(name: str, arguments: Sequence[str]) -> list[str]:
    """The same words with three rounds, one seed, one job, short grids and few canaries."""
    words, rest, tune = list[str](), iter(arguments), "--tune" in arguments
    for word in rest:
        if word in ("--jobs", "-j"):
            next(rest)
        elif word in ("--seeds", "--tuning-seeds"):
            words += [word, next(rest).split(",")[0]]
        elif word in ("--grid", "-g"):
            words += ["--grid", ",".join(next(rest).split(",")[: 1 if tune else 2])]
        elif word == "--rounds":
            words += [word, str(min(int(next(rest)), 20))]
        elif word == "--canaries":
            next(rest)
        elif word == "--out":
            words += [word, next(rest).lstrip("/")]
        else:
            words.append(word)
    on_config = name != "privacy" or bool(arguments and not arguments[0].startswith(("-", "runs/")))
    more = ["-s", f"rounds={FEW}"] if on_config and name in ROUNDS else []
    return words + more + _added(name, words, tune=tune)


def _added(name: str, words: Sequence[str], *, tune: bool) -> list[str]:
    """Options whose defaults would take long."""
    added = list[str]()
    if tune or name == "sweep":
        added += [] if "--grid" in words else ["--grid", "training.learning_rate=0.1"]
    if tune and "--tuning-seeds" not in words:
        added += ["--tuning-seeds", "1000"]
    if name in ("compare", "reproduce") and "--seeds" not in words:
        added += ["--seeds", "0"]
    return added + (["--canaries", "24"] if name == "audit" else [])


def load(name: str, given: dict[str, Any]) -> None:
    """Load every config that a command would run: every scheme, with its settings and every value of every grid.

    `given` has what the command's own parser made of its options and arguments, by their names on the command line.
    """
    preset = given.get("preset") or given.get("--preset") or "cifar10"  # the last is reproduce's own
    changed = dict(map(parse_override, given["--set"] or []))
    axes = [axis.split("=", 1) for axis in given.get("--grid") or []]
    grid = [parse_override(f"{key}={value}") for key, values in axes for value in values.split(",")]
    named = given.get("--schemes")
    schemes = split_list(named, option="--schemes") if named else usable_schemes()
    if name in ("run", "sweep", "audit"):  # of one scheme, unless the grid has several
        schemes = [str(v) for k, v in grid if k == "scheme"] or [changed.get("scheme", load_config(preset).scheme)]
    if name == "reproduce":
        assert given["target"] in TARGETS
    if "--seeds" in given:
        seed_list(given["--seeds"])
    shared = name in ("compare", "reproduce") or any(key == "scheme" for key, _ in grid)  # each takes what it uses
    used = {"scheme"}
    for scheme in schemes:
        for key, value in [*grid, ("scheme", scheme)]:
            wanted = {**changed, key: value, "scheme": scheme}
            mine = used_by(scheme, wanted) if shared else wanted
            load_config(preset, {**mine, "scheme": scheme})
            used |= set(mine)
    asked = {*changed, *(key for key, _ in grid)}
    assert used >= asked, f"no scheme of the command uses {', '.join(asked - used)}"
