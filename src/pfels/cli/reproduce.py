"""`pfels reproduce`: the paper's tables and figures."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pfels.cli.options import Fresh, Jobs, Json, Out, Seeds, Set, overrides, seed_list, split_list
from pfels.cli.progress import progress
from pfels.cli.stored import Stored
from pfels.errors import InputError
from pfels.paper.benchmarks import data_name
from pfels.paper.targets import TARGETS, check, find
from pfels.report.terminal import (
    ERRORS,
    PROVEN,
    claim_note,
    large,
    number,
    print_json,
    print_notes,
    print_table,
    say,
    scientific,
    spread,
)
from pfels.report.text import at_most, claimed_epsilon, epsilon, seconds

if TYPE_CHECKING:
    from pfels.documents.paper import Claim, MatchedPoint, PaperPoint, Reproduction, SchemeRow
    from pfels.documents.privacy import ClaimedFigure, ExplainedFigure

LIMITED = "limited: share of the rounds in which privacy, not power, sets β."


def command(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=f"One of {', '.join(TARGETS)}.")],
    scale: Annotated[
        str,
        typer.Option(
            "--scale",
            metavar="SCALE",
            help="link: no training, full size. laptop: data that are available. paper: its own settings.",
        ),
    ] = "link",
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset", metavar="PRESET", help="With --scale laptop: the preset to train in the paper's place."
        ),
    ] = None,
    learning_rates: Annotated[
        str | None, typer.Option("--learning-rates", metavar="RATES", help="The η to choose from, separated by commas.")
    ] = None,
    seeds: Seeds = "0,1,2,3,4",
    jobs: Jobs = 1,
    settings: Set = None,
    out: Out = None,
    fresh: Fresh = False,
    json: Json = False,
) -> None:
    """Reproduce a table or figure of the paper, compare it with the printed values, and judge the paper's claims.

    `link` needs no training: energy, channel uses, airtime, β and privacy at the paper's N, r, d and T, in seconds.
    `laptop` trains data that are available, with ε scaled to the smaller model and every point at its own best
    learning rate; `paper` trains the paper's settings. Both continue where they were stopped, and share their runs.

    A claim is judged by differences seed by seed: within two standard errors, or with one seed, it is undecided.

    Examples:

        pfels reproduce table-cifar10

        pfels reproduce fig-privacy --scale laptop --jobs 2

        pfels reproduce fig-compression --scale laptop --preset demo -s rounds=100

        pfels reproduce table-femnist --scale paper -s run.device=cuda
    """
    changed, numbers, rates = overrides(settings), seed_list(seeds), _rates(learning_rates)
    check(target, scale=scale, settings=changed, preset=preset, learning_rates=rates)
    with progress() as display:
        stored = Stored(display, fresh=fresh)
        from pfels.paper.reproduce import reproduce

        document = reproduce(
            target, scale=scale, seeds=numbers, jobs=jobs, out=out or Path("runs") / "reproduce", overrides=changed,
            preset=preset, learning_rates=rates, command=shlex.join(["pfels", *sys.argv[1:]]),
            fresh=fresh, watch=stored.watch,
        )  # fmt: skip
    if json:
        print_json(document)
    else:
        _show(document)
    stored.say()
    for file in document["files"]:
        say(f"wrote {file}")


def _rates(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        rates = [float(item) for item in split_list(text, option="--learning-rates")]
    except ValueError:
        rates = []
    if not rates or not all(0 < rate < float("inf") for rate in rates):
        raise InputError(f"--learning-rates = {text!r}: must be numbers above 0, separated by commas")
    return rates


def _show(document: Reproduction) -> None:
    """Print a table, or one for each benchmark of a figure, with notes and verdicts below."""
    title, names = f"{document['target']}, {document['scale']}: ", []
    if "schemes" in document:
        columns = [list(_column(row)) for row in document["schemes"].values()]
        rows = [(cells[0][0], *[text for _, text in cells]) for cells in zip(*columns, strict=True)]
        print_table(("", *document["schemes"]), rows, title=title + document["title"])
    for data, points in _by_data(document.get("points", [])).items():
        lines = [dict(_line(point)) for point in points]
        names = list(lines[0])
        # A scheme without ε has the same row at every ε.
        rows = list(dict.fromkeys(tuple(line.values()) for line in lines))
        print_table(names, rows, title=f"{title}{data}: {document['title']}")
    notes = [
        *_printed_note(document),
        *_column_notes(names),
        *_edge_note(document),
        *_privacy_notes(document),
        *document["notes"],
        f"Means over seeds {', '.join(map(str, document['seeds']))}.{f' {ERRORS}' * (len(document['seeds']) > 1)}",
        "",
        *map(_verdict, document["claims"]),
        "",
        f"made by: {document['command']}",
    ]
    print_notes(notes)


def _column(row: SchemeRow) -> Iterator[tuple[str, str]]:
    """The cells of a scheme with their labels, the paper's values below those found here."""
    paper, off, share = row["paper"], row["difference"], row["to_wfl_p"]
    yield "claimed ε per round", claimed_epsilon(row["privacy"]["claimed"])
    yield "accuracy", spread(row["accuracy"], ".4f")
    yield "  printed", f"{paper['accuracy']:.4f}"
    yield "  difference", number(off["accuracy"], "+.4f")
    yield "channel uses, in d", f"{row['subcarriers']:g}"
    yield "  printed", f"{paper['subcarriers']:g}"
    yield "energy", scientific(row["energy"], digits=2)
    yield "  printed", large(paper["energy"], digits=2)
    yield "  difference", number(off["energy"], "+.1%")
    yield "energy / WFL-P's energy", f"{share['energy']:.3f}"
    yield "  printed", f"{share['paper_energy']:.3f}"
    yield "airtime", seconds(row["airtime_s"])
    yield "server ε", epsilon(row["privacy"]["server"])
    if "learning_rate" in row:
        yield "learning rate", f"{row['learning_rate']:g}{' (edge)' if row['learning_rate_at_edge'] else ''}"
    else:
        yield "median β", spread(row["beta"], ".3g")
        yield "privacy-limited rounds", f"{row['privacy_limited_share']['mean']:.0%}"


def _by_data(points: Sequence[PaperPoint]) -> dict[str, list[PaperPoint]]:
    """The points of a figure by the data they are about; of each curve, the last."""
    last = {(point["benchmark"], point["scheme"]): point["round"] for point in points if "round" in point}
    found: dict[str, list[PaperPoint]] = {}
    for point in points:
        if "round" in point and point["round"] < last[point["benchmark"], point["scheme"]]:
            continue
        data = data_name(point["benchmark"], point["preset"]) if "preset" in point else point["benchmark"]
        found.setdefault(data, []).append(point)
    return found


def _line(point: PaperPoint) -> Iterator[tuple[str, str]]:
    """The cells of a point with their labels."""
    if "noise_power_ratio" in point:
        yield from _matched_line(point)
        return
    yield "scheme", point["scheme"]
    if "round" in point:
        yield "rounds", f"{point['round']:,}"
    if "ratio" in point:
        yield "p", f"{point['ratio']:g}"
    if "privacy" in point:
        yield "ε", claimed_epsilon(point["privacy"]["claimed"])
    if "learning_rate" in point:
        yield "accuracy", spread(point["accuracy"], ".4f")
        yield "η", f"{point['learning_rate']:g}"
    yield "uses/d", f"{point['subcarriers']:g}"
    yield "energy", large(point["energy"]["mean"], digits=2)
    if "beta" in point:
        yield "β", number(point["beta"])
        yield "min z", at_most(point["noise_multiplier_min"])
        yield "limited", f"{point['privacy_limited_share']:.0%}"
    if "bounds" in point:
        yield "bound", number(point["bounds"]["corrected"]["total"])
    if "paper" in point:
        yield "printed", large(point["paper"]["energy"], digits=2)
        yield "difference", number(point["difference"]["energy"], "+.1%")
    if "privacy" in point:
        yield "server ε", epsilon(point["privacy"]["server"])


def _matched_line(point: MatchedPoint) -> Iterator[tuple[str, str]]:
    yield "p", f"{point['ratio']:g}"
    yield "ε", f"{point['epsilon']:g}"
    yield "noise power ratio", spread(point["noise_power_ratio"], ".3f")
    yield "limited, PFELS", f"{point['pfels_privacy_limited_share']:.0%}"
    yield "limited, WFL-PDP", f"{point['wfl_pdp_privacy_limited_share']:.0%}"


def _printed_note(document: Reproduction) -> list[str]:
    """What the rows `printed` of a table are about: the paper's data, whatever was trained."""
    return [f"printed: the paper's value for {find(document['target']).benchmarks[0].title}."] * ("schemes" in document)


def _column_notes(names: Sequence[str]) -> list[str]:
    """What the short names of columns mean."""
    meanings = {
        "p": "p: compression ratio k/d.",
        "ε": "ε: claimed per round.",
        "uses/d": "uses/d: channel uses in units of d.",
        "printed": "printed: the energy that the paper prints.",
        "min z": "min z: minimum noise multiplier over rounds and seeds.",
        "limited": LIMITED,
        "limited, PFELS": LIMITED,
        "bound": "bound: the corrected convergence bound.",
    }
    meant = [meaning for name, meaning in meanings.items() if name in names]
    return [" ".join(meant)] if meant else []


def _edge_note(document: Reproduction) -> list[str]:
    rows = document.get("schemes", {}).values()
    edge = any(row.get("learning_rate_at_edge") for row in rows)
    return ["edge: the learning rate is the minimum or maximum of those tried."] if edge else []


def _privacy_notes(document: Reproduction) -> list[str]:
    """Against whom the privacy figures hold."""
    servers: list[ExplainedFigure] = [row["privacy"]["server"] for row in document.get("schemes", {}).values()]
    claims: list[ClaimedFigure | None] = [row["privacy"]["claimed"] for row in document.get("schemes", {}).values()]
    for point in document.get("points", []):
        if "privacy" in point:
            servers.append(point["privacy"]["server"])
            claims.append(point["privacy"]["claimed"])
    if not servers:
        return []
    return [
        f"server ε: against the server, over the whole training, for the worst device of the worst seed, at "
        f"δ = {servers[0]['delta']:g}; neighbours: one device's data emptied; {PROVEN}.",
        *claim_note(claims, delta=servers[0]["delta"]),
    ]


def _verdict(claim: Claim) -> str:
    """A claim, the verdict on it, and its margin with the standard error."""
    verdict = claim["verdict"].replace("not", "NOT")
    if claim["by"] is None:
        margin = "no margin, because a run diverged"
    else:
        error, alone = claim["standard_error"], ", one seed"
        margin = f"margin {claim['by']:+.3g}"
        margin += f" ({claim['unit']}){alone}" if error is None else f" ± {error:.2g} ({claim['unit']})"
    return f"{claim['where']}: {claim['claim']}: {verdict}, {margin}"
