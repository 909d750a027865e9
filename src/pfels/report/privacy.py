"""The privacy figures of a report, one table for each adversary, in its words."""

from collections.abc import Mapping, Sequence
from typing import Any

from pfels.privacy.events import Adversary, Neighbours
from pfels.report import text as words
from pfels.report.groups import Group, Study

_WITHOUT = {"claimed": "makes no such claim", "exact": "nothing hides the updates: there is no noise"}


def adversaries(study: Study) -> list[dict[str, Any]]:
    """Every privacy figure, a block for each adversary: its words, a row a group, and why a figure holds or not."""
    server, outsider, claimed, exact = (
        [(group, _loss(group, who)) for group in study.groups]
        for who in ("server", "outsider", "claimed", "exact_per_round")
    )
    return [
        _block("server", "Against the server, over the whole training", Adversary.SERVER, server,
               "The figure is that of the device that lost most, in the seed where it lost most." + _carried(study)),
        _block("outsider", "Against an outsider, over the whole training", Adversary.OUTSIDER, outsider,
               "Who took part is hidden from an outsider, which may make the loss smaller." + _drawn(study)),
        _block("claimed", "What the paper claims, for one round", Adversary.SERVER, claimed,
               "This is the paper's own figure, kept for comparison; it says nothing of the whole training."),
        _block("exact", "What the paper's argument gives, for one round", Adversary.OUTSIDER, exact,
               "The argument behind the claim, done exactly, for the round with least noise."),
    ]  # fmt: skip


def _carriers(study: Study) -> list[str]:
    return sorted(
        {str(run.environment["carrier"]) for g in study.groups for run in g.runs if "carrier" in run.environment}
    )


def _drawn(study: Study) -> str:
    """What a deployment changes: those who take part know the seed, by which devices are drawn."""
    if not _carriers(study):
        return ""
    return " Who took part follows from the seed, so that this is about those who neither know nor can guess it."


def _carried(study: Study) -> str:
    """What a digital link changes: there the server could look at each signal before it adds them up."""
    carriers = _carriers(study)
    if not carriers:
        return ""
    return (
        f" Rounds were carried by {words.listed(carriers)}: the figure describes whoever sees only "
        "the noisy sums, as a radio would; a server of this kind could look at single signals (docs/deployment.md)."
    )


def spread_rows(study: Study) -> list[tuple[Group, Mapping[str, Any]]]:
    """How the loss to the server is spread over the devices, for the groups that have noise in every round."""
    found = [(group, group.row["privacy"]["server"]["distribution"]) for group in study.groups if group.row]
    return [(group, spread) for group, spread in found if spread["max"] is not None]


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
    reasons: dict[str, list[Group]] = {}
    relations: dict[str, str] = {}
    for group, loss in found:
        if loss is None:
            reason = _WITHOUT[key] if group.finished else "not known yet: the run is unfinished"
            rows.append(
                {
                    "group": group,
                    "epsilon": words.NONE,
                    "delta": words.NONE,
                    "neighbours": words.NONE,
                    "holds": words.NONE,
                }
            )
            reasons.setdefault(reason, []).append(group)
            continue
        rows.append({
            "group": group,
            "epsilon": loss.get("display") or ("none" if loss["epsilon"] is None else f"{loss['epsilon']:.4g}"),
            "delta": f"{loss['delta']:g}",
            "neighbours": loss["neighbours"],
            "holds": _verdict(loss) if key != "claimed" else "in the range of its proof" if loss["valid"] else "no",
        })  # fmt: skip
        reasons.setdefault(loss["why"], []).append(group)
        relations[loss["neighbours"]] = Neighbours(loss["neighbours"]).sentence
    deltas = {row["delta"] for row in rows} - {words.NONE}
    return {
        "key": key, "title": title, "adversary": adversary.sentence, "note": note, "rows": rows,
        "reasons": [{"why": why, "who": _who(some, [group for group, _ in found])} for why, some in reasons.items()],
        "relations": relations,
        "delta": deltas.pop() if len(deltas) == 1 else None,
    }  # fmt: skip


def _who(some: Sequence[Group], everyone: Sequence[Group]) -> str:
    """Some of the groups in few words: by their schemes alone where that says it."""
    if len(some) == len(everyone) > 1:
        return "All of them"
    schemes = list(dict.fromkeys(group.config.scheme for group in some))
    if len(some) == sum(group.config.scheme in schemes for group in everyone):
        return words.listed(schemes)
    return words.listed([group.label for group in some])


def _verdict(loss: Mapping[str, Any]) -> str:
    if loss["epsilon"] is None:
        return "no figure"
    if not loss["valid"]:
        return "no"
    return "yes, but it is too large to be of use" if loss["epsilon"] > 100 else "yes"
