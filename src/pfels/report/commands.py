"""Commands that make runs again: a preset, or where none serves a stored config, and what the runs change of it."""

import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pfels.config.load import load_config, parse_value
from pfels.config.preset_files import presets
from pfels.config.scheme_settings import used_by
from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.experiment.reader import StoredRun
from pfels.report.groups import Comparison, Group, Settings, on_budget, used_settings
from pfels.runtime.files import printable
from pfels.schemes.registry import GROUPS, BudgetBy, scheme_entry

OUT = "again"


@dataclass(frozen=True)
class Recipe:
    """A group as changes of a preset or of a stored config. `budget` is the ε and the adversary of --total-epsilon,
    where it is used."""

    group: Group
    base: str
    changes: Settings
    budget: tuple[float, str] | None

    @property
    def scheme(self) -> str:
        """The scheme of the group."""
        return self.group.config.scheme

    @property
    def seeds(self) -> list[int]:
        """Its seeds, in order."""
        return sorted(run.config.seed for run in self.group.runs)


def run_command(run: StoredRun) -> str:
    """The command that makes a run again next to the old one, or that finishes an unfinished one."""
    config = printable(run.path / "config.toml")
    if run.summary is None:
        return shlex.join(["pfels", "run", config, "--out", printable(run.path), "--resume"])
    again = f"{run.path.resolve().name}-again"
    beside = run.path.with_name(again) if run.path.name else Path("..") / again
    return shlex.join(["pfels", "run", config, "--out", printable(beside)])


def comparison_command(comparison: Comparison) -> str | None:
    """The one command that makes all runs again, from a preset or else from a stored config; None where none does."""
    stored = {run.config.scheme: printable(run.path / "config.toml") for run in reversed(comparison.runs)}
    files = [stored[scheme] for scheme in comparison.schemes]
    return one_command(recipes(comparison)) or one_command(recipes(comparison, files))


def recipes(comparison: Comparison, bases: Sequence[str] | None = None) -> list[Recipe]:
    """One recipe per group, all from one base, which is a preset unless bases are given: the one from which the first
    group needs the fewest changes, of those that serve all groups. None where none does."""
    first = [_recipe(comparison.groups[0], base) for base in (presets() if bases is None else bases)]
    for begun in sorted(filter(None, first), key=lambda recipe: len(recipe.changes)):
        others = [_recipe(group, begun.base) for group in comparison.groups[1:]]
        if all(others):
            return [begun, *filter(None, others)]
    return []


def commands(some: Sequence[Recipe]) -> dict[str, str]:
    """The command that makes the runs of each group, by its label; several write into folders of their own."""
    return {
        each.group.label: _command(each, out=OUT if len(some) == 1 else f"{OUT}/{i}") for i, each in enumerate(some, 1)
    }


def _command(recipe: Recipe, *, out: str) -> str:
    if recipe.budget is None and len(recipe.seeds) == 1:
        usual = load_config(recipe.base)
        who = {"scheme": recipe.scheme, "seed": recipe.seeds[0]}
        own = {key: value for key, value in who.items() if getattr(usual, key) != value}
        return shlex.join(["pfels", "run", recipe.base, *_options(own | recipe.changes), "--out", out])
    return _compare([recipe], recipe.changes, out=out)


def one_command(some: Sequence[Recipe]) -> str | None:
    """The command that makes the runs of all groups, or None where no single one does."""
    if len(some) < 2 or any(each.seeds != some[0].seeds or not each.group.finished for each in some):
        return None
    return _as_compare(some) or _as_sweep(some)


def _as_compare(some: Sequence[Recipe]) -> str | None:
    """`pfels compare`: every scheme once, on one budget if on any; a change goes to every scheme that uses it."""
    schemes = [each.scheme for each in some]
    if len(set(schemes)) < len(schemes):
        return None
    budgets = {each.budget for each in some if each.budget is not None}
    brought = [_brought(each, *budgets) if len(budgets) == 1 else each for each in some]
    changes: Settings = {}
    for each in brought:
        changes |= each.changes
    if len(budgets) > 1 or any(used_by(each.scheme, changes) != each.changes for each in brought):
        return None
    return _compare(brought, changes, budget=next(iter(budgets), None))


def _brought(recipe: Recipe, budget: tuple[float, str]) -> Recipe:
    """The recipe of a scheme that calibrates itself, without what the budget says already."""
    same = {"privacy.total_epsilon": budget[0], "privacy.adversary": budget[1]}
    config = recipe.group.config.flat()
    if scheme_entry(recipe.scheme).budget is not BudgetBy.TOTAL or any(config[key] != same[key] for key in same):
        return recipe
    kept = {key: value for key, value in recipe.changes.items() if key not in GROUPS["budget"]}
    return Recipe(recipe.group, recipe.base, kept, budget)


def _compare(
    some: Sequence[Recipe], changes: Settings, *, budget: tuple[float, str] | None = None, out: str = OUT
) -> str:
    asked = budget or some[0].budget
    total = [] if asked is None else ["--total-epsilon", _text(asked[0]).removesuffix(".0"), "--adversary", asked[1]]
    words = ["pfels", "compare", some[0].base, "--schemes", ",".join(each.scheme for each in some)]
    seeds = ["--seeds", ",".join(map(str, some[0].seeds))]
    return shlex.join([*words, *seeds, *total, *_options(changes), "--out", out])


def _as_sweep(some: Sequence[Recipe]) -> str | None:
    """`pfels sweep`, where the groups are a full grid. The grid is built here and compared with them."""
    configs = [each.group.config.flat() for each in some]
    keys = {key for each in some for key in each.changes}
    axes = {
        key: list(dict.fromkeys(_text(flat.get(key)) for flat in configs))
        for key in ("scheme", *sorted(keys))
        if len({_text(flat.get(key)) for flat in configs}) > 1
    }
    fixed: Settings = {}
    for each in some:
        fixed |= {key: value for key, value in each.changes.items() if key not in axes}
    if "scheme" not in axes and some[0].scheme != load_config(some[0].base).scheme:
        fixed = {"scheme": some[0].scheme} | fixed
    unwritable = any("," in value or value == "None" for values in axes.values() for value in values)
    if not axes or unwritable or any(each.budget for each in some) or not _makes(some, axes, fixed):
        return None
    grids = [word for key, values in axes.items() for word in ("--grid", f"{key}={','.join(values)}")]
    seeds = ["--seeds", ",".join(map(str, some[0].seeds))]
    return shlex.join(["pfels", "sweep", some[0].base, *grids, *_options(fixed), *seeds, "--out", OUT])


def _makes(some: Sequence[Recipe], axes: Mapping[str, list[str]], fixed: Settings) -> bool:
    if math.prod(map(len, axes.values())) != len(some):
        return False
    made = []
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, map(parse_value, values), strict=True))
        mine = used_by(point["scheme"], fixed) if "scheme" in point else fixed
        try:
            made.append(load_config(some[0].base, {**mine, **point}))
        except InputError:  # a scheme would be given a setting that it does not use
            return False
    return sorted(map(_identity, made)) == sorted(_identity(each.group.config) for each in some)


def _recipe(group: Group, base: str) -> Recipe | None:
    """The recipe from this base, or None where a setting that must change cannot be written on a command line."""
    config, scheme = group.config, group.config.scheme
    budget = (config.privacy.total_epsilon, str(config.privacy.adversary)) if on_budget(group.runs[0]) else None
    by_budget = {"privacy.epsilon", f"{scheme}.private", *GROUPS["budget"]} if budget else set()
    try:
        usual = used_settings(load_config(base, {"scheme": scheme}))
        wanted = {key: value for key, value in used_settings(config).items() if key not in by_budget}
        changes = {
            key: value
            for key, value in wanted.items()
            if key not in ("scheme", "seed") and (key not in usual or usual[key] != value)
        }
        if any(parse_value(_text(value)) != value for value in changes.values()):
            return None
        made = used_settings(load_config(base, {"scheme": scheme, **changes, "seed": config.seed}))
    except InputError:
        return None
    same = {key: value for key, value in made.items() if key not in by_budget} == wanted
    return Recipe(group, base, changes, budget) if same else None


def _identity(config: Config) -> str:
    return repr(sorted((key, value) for key, value in used_settings(config).items() if key != "seed"))


def _options(changes: Settings) -> list[str]:
    return [word for key, value in changes.items() for word in ("-s", f"{key}={_text(value)}")]


def _text(value: object) -> str:
    """A setting as it is written on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)
