"""The tables of a report: what each group reached and what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pfels.documents.studies import AggregateRow
from pfels.experiment.link import frame_of
from pfels.report import text
from pfels.report.groups import Comparison, Group
from pfels.report.plots import ranked_energy

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)  # of the rounds, at which tables give the figures of a curve


@dataclass(frozen=True)
class ComparisonRow:
    """One group: what it reached and what it used, as text."""

    group: Group
    note: str
    accuracy: str
    loss: str
    channel_uses: str
    energy: str
    energy_units: str
    airtime: str
    claimed: str
    server: str
    outsider: str


@dataclass(frozen=True)
class LevelRow:
    """The level β over the rounds of a group, and how often each limit set it."""

    group: Group
    constant: bool
    median: str
    range: str
    limits: str
    noise: str


@dataclass(frozen=True)
class EnergyRow:
    """How the energy of a group is spread over its devices."""

    group: Group
    maximum: str
    median: str
    first_tenth: str


def comparison_rows(comparison: Comparison) -> list[ComparisonRow]:
    """What each group reached and what it used, one row per group."""
    same = shared_seeds(comparison) is not None
    rows = ((group, group.row) for group in comparison.groups)
    return [_finished_row(group, row, same_seeds=same) if row else _unfinished_row(group) for group, row in rows]


def shared_seeds(comparison: Comparison) -> int | None:
    """How many seeds every finished group has, or None where they differ."""
    counts = {len(group.runs) for group in comparison.groups if group.finished}
    return counts.pop() if len(counts) == 1 else None


def level_rows(comparison: Comparison) -> list[LevelRow]:
    """β over the rounds of each group that transmits over the air."""
    rows = []
    for group in comparison.groups:
        beta = group.stack("beta")
        known = beta[~np.isnan(beta)]
        if len(known):
            limits = [limit for run in group.runs for limit in run.limits if limit is not None]
            shares = [f"{name} {text.percent(limits.count(name) / len(limits))}" for name in sorted(set(limits))]
            constant = bool(known.min() == known.max())
            rows.append(
                LevelRow(
                    group,
                    constant,
                    median=f"{np.median(known):.3g}",
                    range="the same in every round" if constant else f"{known.min():.3g} to {known.max():.3g}",
                    limits=", ".join(shares),
                    noise=text.at_most(float(np.nanmin(group.stack("noise_multiplier")))),
                )
            )
    return rows


def energy_rows(comparison: Comparison) -> list[EnergyRow]:
    """How the energy is spread over the devices of each group that has one."""
    rows = []
    for group in comparison.groups:
        ranked = ranked_energy(group)
        if ranked is not None and len(ranked):
            tenth = max(1, round(0.1 * group.config.data.devices))
            rows.append(
                EnergyRow(
                    group,
                    maximum=text.joules(float(ranked[0]) * group.joules_per_energy),
                    median=text.joules(float(np.median(ranked)) * group.joules_per_energy),
                    first_tenth=text.percent(float(ranked[:tenth].sum() / ranked.sum())),
                )
            )
    return rows


def checkpoints(group: Group, column: str, *, shares: Sequence[float] = SHARES) -> list[str]:
    """A quantity at a few points of the training, as text, for those who do not see its figure."""
    curve = group.curve(column)
    if curve is None:
        return [text.NONE] * len(shares)
    done = curve.spent["rounds"] + 1
    at = [int(np.searchsorted(done, share * group.config.rounds - 1e-9)) for share in shares]
    return [f"{curve.mean[i]:.3f}" if i < len(curve.mean) else text.NONE for i in at]


def _finished_row(group: Group, row: AggregateRow, *, same_seeds: bool) -> ComparisonRow:
    several, figures, energy = len(group.runs) > 1, row["privacy"], row["energy"]
    return ComparisonRow(
        group,
        note="" if same_seeds else f"{len(group.runs)} seeds" if several else "1 seed",
        accuracy=text.accuracy(row),
        loss="diverged" if row["loss"] is None else f"{row['loss']['mean']:.3f}",
        channel_uses=f"{row['subcarriers']:,.0f}",
        energy=text.NONE if energy is None else text.joules(energy["mean"] * group.joules_per_energy),
        energy_units="" if energy is None else f"{text.scientific(energy['mean'])} σ₀²",
        airtime=text.seconds(row["airtime_s"]),
        claimed=text.claimed_epsilon(figures["claimed"]),
        server=text.epsilon(figures["server"]),
        outsider=text.outsider_epsilon(figures),
    )


def _unfinished_row(group: Group) -> ComparisonRow:
    run, last = group.runs[0], group.runs[0].last
    accuracy, loss = (run.columns[name][~np.isnan(run.columns[name])] for name in ("test_accuracy", "test_loss"))
    used, frame = run.columns["subcarriers"], frame_of(group.config)
    spent = float(run.columns["energy"].sum())
    slots = np.ceil(used / frame.capacity).sum()
    return ComparisonRow(
        group,
        note=f"unfinished: {run.rounds} of {group.config.rounds} rounds",
        accuracy=f"{accuracy[-1]:.3f}" if len(accuracy) else text.NONE,
        loss=f"{loss[-1]:.3f}" if len(loss) else text.NONE,
        channel_uses=f"{int(used.sum()):,}",
        energy=text.joules(spent * group.joules_per_energy) if group.has_energy else text.NONE,
        energy_units=f"{text.scientific(spent)} σ₀²" if group.has_energy else "",
        airtime=text.seconds(float(slots) * frame.slot_s),
        claimed=text.claimed_epsilon(last["claimed"]) if last else text.NONE,
        server=text.epsilon(last["server"]) if last else text.NONE,
        outsider=text.NONE,
    )
