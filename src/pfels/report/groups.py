"""Stored runs side by side: runs that differ in their seed alone are a group, groups with one task a comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import Reals
from pfels.config.scheme_settings import uses
from pfels.config.tree import NEUTRAL_KEYS, Config
from pfels.documents.studies import AggregateRow
from pfels.experiment.code import brief
from pfels.experiment.reader import StoredRun
from pfels.experiment.units import joules_per_energy
from pfels.report.looks import Look, looks
from pfels.schemes.registry import BudgetBy, is_foreign, scheme_entry, scheme_names
from pfels.studies.aggregate import aggregate

Settings = dict[str, Any]  # a config as `table.key`
CODE = "code"  # beside the settings: the code from outside pfels that made a run


@dataclass(frozen=True)
class Curve:
    """A quantity over the rounds: mean, minimum and maximum over the seeds, and what had been spent by then.

    `spent` holds `rounds` (the round as `rounds.jsonl` counts it, from 0), `subcarriers` (channel uses) and, where
    there is such a figure, `energy`, as means over the seeds.
    """

    mean: Reals
    minimum: Reals
    maximum: Reals
    spent: Mapping[str, Reals]


@dataclass(frozen=True)
class Group:
    """Finished runs that differ in their seed alone, or one unfinished run; `style` numbers it in its comparison."""

    style: int
    label: str
    runs: tuple[StoredRun, ...]
    look: Look

    @property
    def config(self) -> Config:
        """The config of its first run; the others differ in their seed."""
        return self.runs[0].config

    @property
    def finished(self) -> bool:
        """Whether its runs are finished."""
        return self.runs[0].summary is not None

    @property
    def rounds(self) -> int:
        """How many rounds are done."""
        return self.runs[0].rounds

    @property
    def audited(self) -> bool:
        """Whether its scheme is one of pfels, whose tests audit it, and pfels played the rounds."""
        said = [run.summary["privacy"].get("audited", True) for run in self.runs if run.summary is not None]
        return all(said) and not is_foreign(self.config.scheme)

    @property
    def row(self) -> AggregateRow | None:
        """Means, standard errors and the worst privacy figures of finished runs."""
        summaries = [run.summary for run in self.runs if run.summary is not None]
        return aggregate(summaries) if summaries else None

    @property
    def has_energy(self) -> bool:
        """Whether the scheme transmits over the air, and so has an energy."""
        return self.rounds > 0 and not bool(np.isnan(self.stack("energy")).any())

    @property
    def joules_per_energy(self) -> float:
        """What its devices radiate for a unit of energy, by the config's channel and radio."""
        return joules_per_energy(self.config)

    def stack(self, column: str) -> Reals:
        """A column of every run, one row per run."""
        return np.stack([run.columns[column] for run in self.runs])

    def curve(self, column: str, *, limit: int = 400) -> Curve | None:
        """A column over the rounds that have it, thinned evenly to at most `limit` points; None without any."""
        values = self.stack(column)
        at = np.flatnonzero(~np.isnan(values).any(0))
        if not len(at):
            return None
        at = at[thinned(len(at), limit=limit)]
        rounds: Reals = at.astype(np.float64)
        spent = {"rounds": rounds, "subcarriers": self.stack("subcarriers").cumsum(1).mean(0)[at]}
        if self.has_energy:
            spent["energy"] = self.stack("energy").cumsum(1).mean(0)[at]
        values = values[:, at]
        return Curve(values.mean(0), values.min(0), values.max(0), spent)


@dataclass(frozen=True)
class Comparison:
    """Groups with the same data and network, and the settings in which they differ."""

    groups: tuple[Group, ...]
    differing: tuple[str, ...]

    @property
    def runs(self) -> list[StoredRun]:
        """All runs, group by group."""
        return [run for group in self.groups for run in group.runs]

    @property
    def schemes(self) -> list[str]:
        """The schemes, in the order of the groups."""
        return list(dict.fromkeys(group.config.scheme for group in self.groups))

    @property
    def common(self) -> Settings:
        """The settings, other than the seed, that all runs share whose scheme uses them."""
        known: Settings = {}
        order: Settings = {}  # of the config, also for what only some schemes use
        for group in self.groups:
            known, order = effective(group.runs[0]) | known, order | group.config.flat()
        skip = {"seed", CODE, *self.differing}
        return {key: known[key] for key in order | known if key in known and key not in skip}


def comparisons(runs: Sequence[StoredRun]) -> tuple[list[Comparison], list[tuple[StoredRun, StoredRun]]]:
    """One comparison per data set and network, and the runs left out as copies, each with the one it repeats."""
    kept: dict[str, StoredRun] = {}
    copies = []
    # The sort is stable: of two copies the one with more rounds is kept, then the first.
    for run in sorted(runs, key=lambda run: -run.rounds):
        first = kept.setdefault(_identity(run), run)
        if first is not run:
            copies.append((run, first))
    tasks: dict[str, list[StoredRun]] = {}
    for run in runs:
        if kept[_identity(run)] is run:
            task = {k: v for k, v in run.config.flat().items() if k.startswith(("data.", "model."))}
            tasks.setdefault(repr(task), []).append(run)
    return [_comparison(members) for members in tasks.values()], copies


def _identity(run: StoredRun) -> str:
    """What two copies of a run have in common: all that can change the result."""
    return repr((used_settings(run.config), brief(run.config.scheme, run.environment)))


def thinned(count: int, *, limit: int) -> NDArray[np.int64]:
    """Indices of at most `limit` of `count` things, evenly spaced, with the first and the last."""
    if count <= limit:
        return np.arange(count, dtype=np.int64)
    return np.linspace(0, count - 1, limit).round().astype(np.int64)


def used_settings(config: Config) -> Settings:
    """The settings that can change the result: those that the scheme uses."""
    flat = config.flat()
    return {key: flat[key] for key in flat if key not in NEUTRAL_KEYS and uses(config.scheme, key)}


def effective(run: StoredRun) -> Settings:
    """The settings that the scheme uses, with the δ that applies where none is set; an ε derived from a budget is shown
    as that budget, since every seed has another one."""
    used, total = used_settings(run.config), run.config.privacy.total_epsilon
    used["privacy.delta"] = run.config.delta
    if code := brief(run.config.scheme, run.environment):
        used[CODE] = code
    if on_budget(run):
        used["privacy.epsilon"] = f"for a total of {total:g}"
    return used


def on_budget(run: StoredRun) -> bool:
    """Whether a budget for the whole training has set the claim of this run."""
    if run.summary is None or scheme_entry(run.config.scheme).budget not in (BudgetBy.CLAIM, BudgetBy.SWITCH):
        return False
    privacy, total = run.summary["privacy"], run.config.privacy.total_epsilon
    spent = (privacy["server"]["epsilon"], privacy["outsider"]["epsilon"])
    return any(epsilon is not None and abs(epsilon / total - 1) < 1e-6 for epsilon in spent)


def _comparison(runs: Sequence[StoredRun]) -> Comparison:
    settings = [(run.config.scheme, effective(run)) for run in runs]
    keys = dict.fromkeys(key for _, flat in settings for key in flat if key != "seed")
    found = [key for key in keys if _differs(key, settings)]
    within = {
        name: [key for key in found if _differs(key, [pair for pair in settings if pair[0] == name])]
        for name, _ in settings
    }
    differing = tuple(key for key in found if key != CODE or any(CODE in some for some in within.values()))
    gathered: dict[str, list[StoredRun]] = {}
    order = scheme_names()
    for run in sorted(runs, key=lambda run: (run.summary is None, order.index(run.config.scheme), run.config.seed)):
        flat = effective(run)
        key = repr([flat.get(name) for name in differing])
        if run.summary is None:
            key = f"{key}, {run.config.seed}, unfinished"
        elif "stopped" in run.summary:  # with those that have as many rounds
            key = f"{key}, stopped after {run.rounds}"
        gathered.setdefault(key, []).append(run)
    styles = looks([members[0].config.scheme for members in gathered.values()])
    groups = [
        Group(i, _label(members[0], within[members[0].config.scheme]), tuple(members), styles[i])
        for i, members in enumerate(gathered.values())
    ]
    return Comparison(tuple(groups), differing)


def _differs(key: str, settings: Sequence[tuple[str, Settings]]) -> bool:
    """Whether a setting differs among the schemes that use it."""
    return len({repr(flat.get(key)) for scheme, flat in settings if uses(scheme, key)}) > 1


def _label(run: StoredRun, differing: Sequence[str]) -> str:
    """The scheme, and the settings that set its groups apart from each other."""
    flat, scheme = effective(run), run.config.scheme
    leaves = [key.rpartition(".")[2] for key in differing]
    parts = [scheme]
    for key, leaf in zip(differing, leaves, strict=True):
        if key != "scheme" and uses(scheme, key):
            parts.append(f"{leaf if leaves.count(leaf) == 1 else key}={written(flat.get(key, 'unset'))}")
    if run.summary is None:
        parts.append(f"seed={run.config.seed} (unfinished)")
    elif "stopped" in run.summary:
        parts.append(f"stopped after {run.rounds} of {run.config.rounds} rounds")
    return ", ".join(parts)


def written(value: object) -> str:
    """A setting for a reader."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
