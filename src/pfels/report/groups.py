"""Stored runs side by side: runs that differ in their seed alone as one line, lines that share a task as one study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pfels.arrays import Reals
from pfels.config.scheme_keys import PLUS_KEYS
from pfels.config.tree import NEUTRAL_KEYS, Config
from pfels.experiment.reader import StoredRun
from pfels.schemes.registry import CLAIMING, POISSON_ONLY, SCHEMES
from pfels.studies.aggregate import aggregate

PARTIAL = PLUS_KEYS | {"privacy.epsilon", "cohort.sampling"}  # what only some schemes know sets no other scheme apart


@dataclass(frozen=True)
class Curve:
    """A quantity after so many rounds: mean, least and most over the seeds, and what had been spent by then.

    `spent` holds `rounds`, `subcarriers` and, where there is such a figure, `energy`, as means over the seeds.
    """

    mean: Reals
    low: Reals
    high: Reals
    spent: Mapping[str, Reals]


@dataclass(frozen=True)
class Group:
    """Finished runs that differ in their seed alone, or one unfinished run; `style` tells it from its neighbours."""

    style: int
    label: str
    runs: tuple[StoredRun, ...]

    @property
    def config(self) -> Config:
        """The config, up to its seed."""
        return self.runs[0].config

    @property
    def finished(self) -> bool:
        """Whether its runs are."""
        return self.runs[0].summary is not None

    @property
    def rounds(self) -> int:
        """How many rounds are done."""
        return self.runs[0].rounds

    @property
    def row(self) -> dict[str, Any] | None:
        """Means, spreads and the worst privacy figure of finished runs."""
        summaries = [run.summary for run in self.runs if run.summary is not None]
        return aggregate(summaries) if summaries else None

    @property
    def has_energy(self) -> bool:
        """Whether the scheme transmits over the air, and so has an energy."""
        return self.rounds > 0 and not np.isnan(self.stack("energy")).any()

    def stack(self, column: str) -> Reals:
        """A column of every run, a run a row."""
        return np.stack([run.columns[column] for run in self.runs])

    def curve(self, column: str, *, most: int = 400) -> Curve | None:
        """A column over the rounds that have it, thinned evenly to at most so many points; None without any."""
        values = self.stack(column)
        at = np.flatnonzero(~np.isnan(values).any(0))
        if not len(at):
            return None
        at = at[thinned(len(at), most=most)]
        spent = {"rounds": at + 1.0, "subcarriers": self.stack("subcarriers").cumsum(1).mean(0)[at]}
        if self.has_energy:
            spent["energy"] = self.stack("energy").cumsum(1).mean(0)[at]
        values = values[:, at]
        return Curve(values.mean(0), values.min(0), values.max(0), spent)


@dataclass(frozen=True)
class Study:
    """Groups with the same data and network: what may stand in one table."""

    groups: tuple[Group, ...]
    differing: tuple[str, ...]

    @property
    def runs(self) -> list[StoredRun]:
        """All runs, group by group."""
        return [run for group in self.groups for run in group.runs]

    @property
    def common(self) -> dict[str, Any]:
        """The settings that all runs share, but for the seed."""
        skip = {"seed", *self.differing, *NEUTRAL_KEYS}
        known: dict[str, Any] = {}
        for group in self.groups:
            known = effective(group.runs[0]) | known
        for key in PARTIAL & known.keys():
            schemes = dict.fromkeys(group.config.scheme for group in self.groups if key in effective(group.runs[0]))
            if len(schemes) < len({group.config.scheme for group in self.groups}):
                known[key] = f"{known[key]} ({', '.join(schemes)})"
        return {key: value for key, value in known.items() if key not in skip}


def studies(runs: Sequence[StoredRun]) -> tuple[list[Study], list[tuple[StoredRun, StoredRun]]]:
    """The studies that these runs make up, and the runs left out as copies, each with the one it repeats."""
    kept: dict[str, StoredRun] = {}
    copies = []
    for run in sorted(
        runs, key=lambda run: -run.rounds
    ):  # stable: of two copies the one that got further, then the first
        first = kept.setdefault(repr(_settings(run.config)), run)
        if first is not run:
            copies.append((run, first))
    tasks: dict[str, list[StoredRun]] = {}
    for run in runs:
        if kept[repr(_settings(run.config))] is run:
            task = {k: v for k, v in run.config.flat().items() if k.startswith(("data.", "model."))}
            tasks.setdefault(repr(task), []).append(run)
    return [_study(members) for members in tasks.values()], copies


def thinned(count: int, *, most: int) -> Any:
    """Indices of at most so many of `count` things, evenly apart, with the first and the last."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(np.int64)


def _settings(config: Config) -> dict[str, Any]:
    return {key: value for key, value in config.flat().items() if key not in NEUTRAL_KEYS}


def effective(run: StoredRun) -> dict[str, Any]:
    """The settings as the scheme takes them: without those that it does not know, and with an ε that was worked out
    from a budget as what it is, since that is another number for every seed."""
    flat, scheme = run.config.flat(), run.config.scheme
    flat = {key: value for key, value in flat.items() if scheme == "pfels-plus" or key not in PLUS_KEYS}
    if scheme in POISSON_ONLY:
        del flat["cohort.sampling"]
    if scheme not in CLAIMING:
        del flat["privacy.epsilon"]
    elif run.summary is not None and _on_budget(run.summary["privacy"], run.config.privacy.total_epsilon):
        flat["privacy.epsilon"] = f"for a total of {run.config.privacy.total_epsilon:g}"
    return flat


def _on_budget(privacy: Mapping[str, Any], total: float) -> bool:
    spent = [privacy[adversary]["epsilon"] for adversary in ("server", "outsider")]
    return any(epsilon is not None and abs(epsilon / total - 1) < 1e-6 for epsilon in spent)


def _study(runs: Sequence[StoredRun]) -> Study:
    settings = [{k: v for k, v in effective(run).items() if k not in NEUTRAL_KEYS} for run in runs]
    keys = dict.fromkeys(key for each in settings for key in each)
    differing = tuple(
        key
        for key in keys
        if key != "seed" and len({repr(each.get(key)) for each in settings if key in each or key not in PARTIAL}) > 1
    )
    gathered: dict[str, list[StoredRun]] = {}
    order = list(SCHEMES)
    for run in sorted(runs, key=lambda run: (run.summary is None, order.index(run.config.scheme), run.config.seed)):
        flat = effective(run)
        key = repr([flat.get(name) for name in differing])
        gathered.setdefault(key if run.summary is not None else f"{key}, {run.config.seed}, unfinished", []).append(run)
    groups = [Group(i, _label(members[0], differing), tuple(members)) for i, members in enumerate(gathered.values())]
    return Study(tuple(groups), differing)


def _label(run: StoredRun, differing: Sequence[str]) -> str:
    """The scheme and what else sets a group apart, in few words."""
    flat = effective(run)
    leaves = [key.rpartition(".")[2] for key in differing]
    parts = [run.config.scheme]
    for key, leaf in zip(differing, leaves, strict=True):
        if key != "scheme" and (key in flat or key not in PARTIAL):
            parts.append(f"{leaf if leaves.count(leaf) == 1 else key}={_written(flat.get(key, 'unset'))}")
    if run.summary is None:
        parts.append(f"seed={run.config.seed} (unfinished)")
    return ", ".join(parts)


def _written(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
