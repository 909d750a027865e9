"""The tables of a report: what each group reached and what it cost, in figures and plain words."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pfels.report import text as words
from pfels.report.groups import Group, Study
from pfels.report.plots import ranked_energy


def comparison(study: Study) -> list[dict[str, Any]]:
    """A row a group: what it reached, and what it used up."""
    same = shared_seeds(study) is not None
    rows = ((group, group.row) for group in study.groups)
    return [_finished_row(group, row, same_seeds=same) if row else _unfinished_row(group) for group, row in rows]


def shared_seeds(study: Study) -> int | None:
    """How many seeds every finished group has, or None where they differ."""
    counts = {len(group.runs) for group in study.groups if group.finished}
    return counts.pop() if len(counts) == 1 else None


def highlights(study: Study) -> list[dict[str, str]]:
    """The figures to see first: the best of each kind among the finished groups, and whose it is."""
    rows = [(group, group.row) for group in study.groups if group.row is not None]
    epsilons = [(row["privacy"]["server"]["epsilon"], group, row) for group, row in rows]
    energies = [(row["energy"]["mean"], group, row) for group, row in rows if row["energy"] is not None]
    accuracies = [(-row["accuracy"]["mean"], group, row) for group, row in rows]

    def mean(row: Any) -> str:
        return f"{row['accuracy']['mean']:.3f}"

    on_air = [each for each in accuracies if each[2]["energy"] is not None]
    kinds: list[tuple[str, str, list[tuple[Any, Group, Any]], Callable[[Any], str]]] = [
        ("Test accuracy", "Most accurate", accuracies, mean),
        ("", "Most accurate over the air", on_air if 0 < len(on_air) < len(accuracies) else [], mean),
        ("ε against the server", "Smallest ε against the server", [each for each in epsilons if each[0] is not None],
         lambda row: words.epsilon(row["privacy"]["server"])),
        ("Energy", "Least energy", energies, lambda row: words.scientific(row["energy"]["mean"])),
        ("Subcarriers", "Fewest subcarriers", [(row["subcarriers"], group, row) for group, row in rows],
         lambda row: f"{row['subcarriers']:,.0f}"),
    ]  # fmt: skip
    cards = []
    for alone, among, found, text in kinds:
        if found:
            best = min(value for value, _, _ in found)
            winners = [(group, row) for value, group, row in found if value == best]
            cards.append({
                "title": alone if len(rows) == 1 else among,
                "value": text(winners[0][1]),
                "who": words.listed([group.label for group, _ in winners]),
            })  # fmt: skip
    return cards


def alignment(study: Study) -> list[dict[str, Any]]:
    """β over the rounds of each group that transmits over the air, and how often each limit set it."""
    rows = []
    for group in study.groups:
        beta = group.stack("beta")
        known = beta[~np.isnan(beta)]
        if len(known):
            limits = [limit for run in group.runs for limit in run.limits if limit is not None]
            shares = {name: limits.count(name) / len(limits) for name in sorted(set(limits))}
            noise = group.stack("noise_multiplier")
            constant = bool(known.min() == known.max())
            rows.append({
                "group": group,
                "constant": constant,
                "median": f"{np.median(known):.3g}",
                "range": "the same in every round" if constant else f"{known.min():.3g} to {known.max():.3g}",
                "shares": [{"limit": name, "percent": f"{share:.0%}"} for name, share in shares.items()],
                "noise": f"{np.nanmin(noise):.3g}",
            })  # fmt: skip
    return rows


def device_energy(study: Study) -> list[dict[str, Any]]:
    """How unevenly the energy is spread over the devices of each group that has one."""
    rows = []
    for group in study.groups:
        ranked = ranked_energy(group)
        if ranked is not None and len(ranked):
            tenth = max(1, round(0.1 * group.config.data.devices))
            rows.append({
                "group": group,
                "most": words.scientific(ranked[0]),
                "median": words.scientific(float(np.median(ranked))),
                "tenth": f"{ranked[:tenth].sum() / ranked.sum():.0%}",
            })  # fmt: skip
    return rows


def checkpoints(group: Group, column: str, *, shares: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 1.0)) -> list[str]:
    """A quantity at a few points of the training, as text, for those who do not see its figure."""
    curve = group.curve(column)
    cells = []
    for share in shares:
        due = share * group.config.rounds
        at = -1 if curve is None else int(np.searchsorted(curve.spent["rounds"], due - 1e-9))
        known = curve is not None and at < len(curve.mean)
        cells.append(f"{curve.mean[at]:.3f}" if curve is not None and known else words.NONE)
    return cells


def _finished_row(group: Group, row: Mapping[str, Any], *, same_seeds: bool) -> dict[str, Any]:
    several, privacy, energy = len(group.runs) > 1, row["privacy"], row["energy"]
    return {
        "group": group,
        "note": "" if same_seeds else f"{len(group.runs)} seeds" if several else "1 seed",
        "accuracy": words.accuracy(row),
        "loss": "diverged" if row["loss"] is None else f"{row['loss']['mean']:.3f}",
        "subcarriers": f"{row['subcarriers']:,.0f}",
        "energy": words.NONE
        if energy is None
        else words.scientific(energy["mean"], energy["std"] if several else None),
        "airtime": words.seconds(row["airtime_s"]),
        "claimed": words.claimed_epsilon(privacy["claimed"]),
        "server": words.epsilon(privacy["server"]),
        "outsider": words.outsider_epsilon(privacy),
    }


def _unfinished_row(group: Group) -> dict[str, Any]:
    run, last = group.runs[0], group.runs[0].last
    accuracy, loss = (run.columns[name][~np.isnan(run.columns[name])] for name in ("test_accuracy", "test_loss"))
    used, channel = run.columns["subcarriers"], group.config.channel
    slots = np.ceil(used / channel.subcarriers).sum()
    return {
        "group": group,
        "note": f"unfinished: {run.rounds} of {group.config.rounds} rounds",
        "accuracy": f"{accuracy[-1]:.3f}" if len(accuracy) else words.NONE,
        "loss": f"{loss[-1]:.3f}" if len(loss) else words.NONE,
        "subcarriers": f"{int(used.sum()):,}",
        "energy": words.scientific(float(run.columns["energy"].sum())) if group.has_energy else words.NONE,
        "airtime": words.seconds(float(slots) * channel.slot_ms / 1000),
        "claimed": words.claimed_epsilon(last["claimed"]) if last else words.NONE,
        "server": words.epsilon(last["server"]) if last else words.NONE,
        "outsider": words.NONE,
    }
