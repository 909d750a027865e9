"""A privacy card as a page of Markdown, in which text from configs and file names is text and nothing else."""

import re
from collections.abc import Iterable, Mapping, Sequence

from pfels.documents.card import PrivacyCard
from pfels.documents.privacy import ExplainedFigure, Figure
from pfels.errors import one_line
from pfels.privacy.events import rounded_up

NONE = "–"
# What may begin mark-up in the middle of a line, and what makes a link of an address. Not every renderer takes a
# backslash before each of these; all of them know numeric references, which never are mark-up.
_MARKUP = re.compile(r"[\\`*\[\]<>&|~$#@{}]|(?<![^\W_])_|_(?![^\W_])|(?<=:)/(?=/)|(?<=www)\.", re.IGNORECASE)


def markdown(card: PrivacyCard) -> str:
    """The card for a reader."""
    scheme, versions = card["scheme"], card["code"]["versions"]
    how = {"rounds": card["rounds"], "seed": f"{card['seed']} ({'secret' if card['seed_secret'] else 'public'})"}
    parts = [
        f"# Privacy card of {plain(card['model']['file'])}",
        f"**{plain(card['statement'])}**",
        _bullets(card["warnings"]),
        "## Privacy",
        *_figures(card),
        "## Score",
        _facts(_score(card)),
        "## Model",
        _facts(_model(card)),
        "## Data",
        _facts(_data(card)),
        "## Scheme",
        f"{plain(scheme['name'])}: {plain(scheme['about'])}",
        _facts(how | scheme["settings"]),
        "## Audit",
        _audit(card),
        "## Code",
        _facts(versions) if versions else "The versions were not recorded.",
        *_foreign(card["code"].get("foreign")),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _model(card: PrivacyCard) -> dict[str, object]:
    model = card["model"]
    return {
        "file": model["file"],
        "checksum": model["sha256"],
        "network": model["name"] + (f", hidden layer of {model['hidden']}" if "hidden" in model else ""),
        "parameters": f"{model['parameters']:,}",
        "weights": "the average of the released models" if model["averaged"] else "the last released model",
    }


def _data(card: PrivacyCard) -> dict[str, object]:
    data = card["data"]
    return {
        "data": f"{data['name']}, {data['title']}",
        "devices": f"{data['devices']:,}",
        "partition": data["partition"],
        "features": data["features"],
        **{f"checksum of {name}": value for name, value in data["checksums"].items()},
    }


def plain(text: object) -> str:
    r"""A text that Markdown shows as it is: no mark-up, no HTML, no link, one line.

    >>> plain("<b>[a](b) gain_min")
    '&#60;b&#62;&#91;a&#93;(b) gain_min'
    """
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", one_line(text))


def _figures(card: PrivacyCard) -> Iterable[str]:
    privacy = card["privacy"]
    named: list[tuple[str, str, Figure | None, str]] = [
        ("server", "whole training", privacy["server"], _small(privacy["server"].get("epsilon_at_1e-5"))),
        ("blind server", "whole training", privacy.get("blind_server"), NONE),
        ("outsider", "whole training", privacy["outsider"], NONE),
        ("the paper's claim", "one round", privacy["claimed"], NONE),
    ]
    rows = [
        (
            name, period, _epsilon(figure["epsilon"]), f"{figure['delta']:g}", small, figure["adversary"],
            figure["neighbours"], "yes" if figure["valid"] else "no",
        )
        for name, period, figure, small in named
        if figure is not None
    ]  # fmt: skip
    yield _table(("figure", "covers", "ε", "δ", "ε at δ = 1e-5", "adversary", "neighbours", "guarantee"), rows)
    yield "Upper bounds, rounded up. A guarantee holds if everything that it assumes holds."
    explained: list[tuple[str, ExplainedFigure]] = [("server", privacy["server"]), ("outsider", privacy["outsider"])]
    yield _bullets(f"{name}: {figure['why']}" for name, figure in explained)
    if card["assumes"]:
        yield "It is assumed that:"
        yield _bullets(card["assumes"])
    if prices := privacy.get("assumptions"):
        delta = privacy["server"]["delta"]
        yield f"What an assumption costs if it fails, each by itself: ε against the server at δ = {delta:g}."
        yield _table(("if", "ε"), [(each["name"], _epsilon(each["epsilon"])) for each in prices])


def _score(card: PrivacyCard) -> dict[str, object]:
    score = card["score"]
    found: dict[str, object] = {"accuracy": f"{score['accuracy']:.4f}"}
    if "chance" in score:
        found["always the most frequent class"] = f"{score['chance']:.4f}"
    found["loss"] = "not finite" if score["loss"] is None else f"{score['loss']:.4f}"
    if "test_examples" in score:
        found["test examples"] = f"{score['test_examples']:,}"
    return found


def _audit(card: PrivacyCard) -> str:
    audit = card["audit"]
    if audit is None:
        return "Not audited."
    claimed = audit["claimed"]
    outcome = f"rejected, by {', '.join(audit['rejected_by'])}" if audit["rejected"] else "not rejected"
    return _facts(
        {
            "outcome": outcome,
            "claim": f"ε = {_epsilon(claimed['epsilon'])} at δ = {claimed['delta']:g} against the "
            f"{claimed['adversary']}; neighbours: {claimed['neighbours']}",
            "trainings": f"{len(audit['seeds'])} of {audit['scheme']}, {audit['rounds']} rounds",
            "devices": f"{audit['devices']:,} and {audit['canaries']:,} canaries",
        }
    )


def _foreign(code: object) -> Iterable[str]:
    """Code from outside the package, line by line."""
    if code:
        yield "Code from outside pfels took part:"
        for each in code if isinstance(code, list) else [code]:
            yield _facts(each if isinstance(each, Mapping) else {"code": each})


def _small(epsilon: float | None) -> str:
    return NONE if epsilon is None else _epsilon(epsilon)


def _epsilon(epsilon: float | None) -> str:
    """An upper bound to four digits, rounded up."""
    if epsilon is None:
        return "none"
    return f"{rounded_up(epsilon, digits=4):,.4g}" if epsilon < 1000 else f"{rounded_up(epsilon, digits=4):,.0f}"


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {plain(line)}" for line in lines)


def _facts(facts: Mapping[str, object]) -> str:
    return _table(("", ""), [(name, str(value)) for name, value in facts.items()])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
