"""The tables of a report: what each group reached and what it cost, in figures and plain words."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pfels.groups import Group, Study
from pfels.plots import ranked_energy
from pfels.privacy import Adversary, Neighbours

NONE = "–"
_WITHOUT = {"claimed": "makes no such claim", "exact": "nothing hides the updates: there is no noise"}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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
         lambda row: _epsilon_text(row["privacy"]["server"])),
        ("Energy", "Least energy", energies, lambda row: scientific(row["energy"]["mean"])),
        ("Subcarriers", "Fewest subcarriers", [(row["subcarriers"], group, row) for group, row in rows],
         lambda row: f"{row['subcarriers']:,}"),
    ]  # fmt: skip
    cards = []
    for alone, among, found, text in kinds:
        if found:
            best = min(value for value, _, _ in found)
            winners = [(group, row) for value, group, row in found if value == best]
            cards.append({
                "title": alone if len(rows) == 1 else among,
                "value": text(winners[0][1]),
                "who": listed([group.label for group, _ in winners]),
            })  # fmt: skip
    return cards


def adversaries(study: Study) -> list[dict[str, Any]]:
    """Every privacy figure, a block for each adversary: its words, a row a group, and why a figure holds or not."""
    server, outsider, claimed, exact = (
        [(group, _loss(group, who)) for group in study.groups]
        for who in ("server", "outsider", "claimed", "exact_per_round")
    )
    return [
        _block("server", "Against the server, over the whole training", Adversary.SERVER, server,
               "The figure is that of the device that lost most, in the seed where it lost most."),
        _block("outsider", "Against an outsider, over the whole training", Adversary.OUTSIDER, outsider,
               "Who took part is hidden from an outsider, which may make the loss smaller."),
        _block("claimed", "What the paper claims, for one round", Adversary.SERVER, claimed,
               "This is the paper's own figure, kept for comparison; it says nothing of the whole training."),
        _block("exact", "What the paper's argument gives, for one round", Adversary.OUTSIDER, exact,
               "The argument behind the claim, done exactly, for the round with least noise."),
    ]  # fmt: skip


def spread_rows(study: Study) -> list[tuple[Group, Mapping[str, Any]]]:
    """How the loss to the server is spread over the devices, for the groups that have noise in every round."""
    found = [(group, group.row["privacy"]["server"]["distribution"]) for group in study.groups if group.row]
    return [(group, spread) for group, spread in found if spread["max"] is not None]


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
            rows.append({
                "group": group,
                "median": f"{np.median(known):.3g}",
                "range": f"{known.min():.3g} to {known.max():.3g}",
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
                "most": scientific(ranked[0]),
                "median": scientific(float(np.median(ranked))),
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
        cells.append(f"{curve.mean[at]:.3f}" if curve is not None and known else NONE)
    return cells


def listed(labels: Sequence[str]) -> str:
    """Labels as a list in a sentence; semicolons where a label has a comma of its own."""
    if any("," in label for label in labels):
        return "; ".join(labels)
    return " and ".join(filter(None, [", ".join(labels[:-1]), *labels[-1:]]))


def scientific(mean: float, std: float | None = None) -> str:
    """A number, with its spread if given, over one power of ten: (5.3 ± 0.8) × 10⁶."""
    if mean <= 0:
        return "0"
    power = math.floor(math.log10(mean))
    if abs(power) < 3:
        return f"{mean:.3g}" if std is None else f"{mean:.3g} ± {std:.2g}"
    ten = f"× 10{str(power).translate(SUPERSCRIPTS)}"
    scale = 10.0**power
    return f"{mean / scale:.2f} {ten}" if std is None else f"({mean / scale:.2f} ± {std / scale:.2f}) {ten}"


def _finished_row(group: Group, row: Mapping[str, Any], *, same_seeds: bool) -> dict[str, Any]:
    several, privacy, energy = len(group.runs) > 1, row["privacy"], row["energy"]
    return {
        "group": group,
        "note": "" if same_seeds else f"{len(group.runs)} seeds" if several else "1 seed",
        "accuracy": _accuracy(row),
        "loss": f"{row['loss']['mean']:.3f}",
        "subcarriers": f"{row['subcarriers']:,}",
        "energy": NONE if energy is None else scientific(energy["mean"], energy["std"] if several else None),
        "airtime": f"{row['airtime_s']:,.1f} s",
        "claimed": _claimed_text(privacy["claimed"]),
        "server": _epsilon_text(privacy["server"]),
        "outsider": _outsider_text(privacy),
    }


def _unfinished_row(group: Group) -> dict[str, Any]:
    run, last = group.runs[0], group.runs[0].last
    accuracy, loss = (run.columns[name][~np.isnan(run.columns[name])] for name in ("test_accuracy", "test_loss"))
    used, channel = run.columns["subcarriers"], group.config.channel
    slots = np.ceil(used / channel.subcarriers).sum()
    return {
        "group": group,
        "note": f"unfinished: {run.rounds} of {group.config.rounds} rounds",
        "accuracy": f"{accuracy[-1]:.3f}" if len(accuracy) else NONE,
        "loss": f"{loss[-1]:.3f}" if len(loss) else NONE,
        "subcarriers": f"{int(used.sum()):,}",
        "energy": scientific(float(run.columns["energy"].sum())) if group.has_energy else NONE,
        "airtime": f"{slots * channel.slot_ms / 1000:,.1f} s",
        "claimed": _claimed_text(last["claimed"]) if last else NONE,
        "server": _epsilon_text(last["server"]) if last else NONE,
        "outsider": NONE,
    }


def _accuracy(row: Mapping[str, Any]) -> str:
    figure = row["accuracy"]
    return f"{figure['mean']:.3f} ± {figure['std']:.3f}" if len(row["seeds"]) > 1 else f"{figure['mean']:.3f}"


def _epsilon_text(loss: Mapping[str, Any]) -> str:
    epsilon = loss["epsilon"]
    if epsilon is None:
        return "none"
    return "> 100" if epsilon > 100 else f"{epsilon:.2f}"


def _outsider_text(privacy: Mapping[str, Any]) -> str:
    """An outsider sees less than the server, so the server's figure holds where there is none of its own."""
    alone = privacy["outsider"]["epsilon"] is None and privacy["server"]["epsilon"] is not None
    return "as server" if alone else _epsilon_text(privacy["outsider"])


def _verdict(loss: Mapping[str, Any]) -> str:
    if loss["epsilon"] is None:
        return "no figure"
    if not loss["valid"]:
        return "no"
    return "yes, but it is too large to be of use" if loss["epsilon"] > 100 else "yes"


def _claimed_text(claim: Mapping[str, Any] | None) -> str:
    return NONE if claim is None or claim["epsilon"] is None else f"{claim['epsilon']:g}{'' if claim['valid'] else '*'}"


def _loss(group: Group, who: str) -> Mapping[str, Any] | None:
    """A privacy figure of a group; of an unfinished run, what its last round says of it."""
    row, last = group.row, group.runs[0].last
    if row is not None:
        figure: Mapping[str, Any] | None = row["privacy"][who]
        return figure
    found = last and last.get(who)
    return found and {**found, "why": f"up to round {group.rounds}; the run is unfinished"}


def _block(
    key: str, title: str, adversary: Adversary, found: Sequence[tuple[Group, Mapping[str, Any] | None]], note: str
) -> dict[str, Any]:
    """One adversary's table; the words that several rows share stand below it once, with the rows they belong to."""
    rows: list[dict[str, Any]] = []
    reasons: dict[str, list[str]] = {}
    relations: dict[str, str] = {}
    for group, loss in found:
        if loss is None:
            reason = _WITHOUT[key] if group.finished else "not known yet: the run is unfinished"
            rows.append({"group": group, "epsilon": NONE, "delta": NONE, "neighbours": NONE, "holds": NONE})
            reasons.setdefault(reason, []).append(group.label)
            continue
        rows.append({
            "group": group,
            "epsilon": loss.get("display") or ("none" if loss["epsilon"] is None else f"{loss['epsilon']:.4g}"),
            "delta": f"{loss['delta']:g}",
            "neighbours": loss["neighbours"],
            "holds": _verdict(loss),
        })  # fmt: skip
        reasons.setdefault(loss["why"], []).append(group.label)
        relations[loss["neighbours"]] = Neighbours(loss["neighbours"]).sentence
    deltas = {row["delta"] for row in rows} - {NONE}
    return {
        "key": key, "title": title, "adversary": adversary.sentence, "note": note, "rows": rows,
        "reasons": [{"why": why, "who": listed(labels)} for why, labels in reasons.items()], "relations": relations,
        "delta": deltas.pop() if len(deltas) == 1 else None,
    }  # fmt: skip
