"""`pfels reproduce`: the paper's tables and figures, made again."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from pfels.cli.options import Jobs, Json, Out, Seeds, Set, overrides, seed_list, split_list
from pfels.cli.progress import progress
from pfels.errors import InputError
from pfels.paper.targets import TARGETS, check
from pfels.report.terminal import claim_note, number, print_json, print_table, say, scientific, spread
from pfels.report.text import claimed_epsilon, epsilon, seconds


def command(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=f"One of {', '.join(TARGETS)}.")],
    scale: Annotated[
        str,
        typer.Option("--scale", help="link: no training, full size. laptop: what is at hand. paper: its own settings."),
    ] = "link",
    preset: Annotated[
        str | None, typer.Option("--preset", help="At the laptop's scale, train this preset in the paper's place.")
    ] = None,
    learning_rates: Annotated[
        str | None, typer.Option("--learning-rates", help="The η to choose from, separated by commas.")
    ] = None,
    seeds: Seeds = "0,1,2,3,4",
    jobs: Jobs = 1,
    settings: Set = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Make a table or a figure of the paper again, beside the paper's own values, and put what it claims to the test.

    `link` needs no training: energy, subcarriers, airtime, β and privacy at the paper's N, r, d and T, in seconds.
    `laptop` trains data that are at hand, with ε scaled to the smaller model, every point at its own best learning
    rate; `paper` trains the paper's settings. Both take up where they were stopped, and share their runs.

    Examples:

        pfels reproduce table-cifar10                                  # energy and subcarriers, at full size

        pfels reproduce fig-privacy --scale laptop --jobs 2

        pfels reproduce fig-compression --scale laptop --preset demo -s rounds=100

        pfels reproduce table-femnist --scale paper -s run.device=cuda
    """
    changed, numbers, rates = overrides(settings), seed_list(seeds), _rates(learning_rates)
    check(target, scale=scale, settings=changed, preset=preset, learning_rates=rates)
    from pfels.paper.reproduce import reproduce

    document = reproduce(
        target, scale=scale, seeds=numbers, jobs=jobs, out=out or Path("runs") / "reproduce", overrides=changed,
        preset=preset, learning_rates=rates, command=shlex.join(["pfels", *sys.argv[1:]]), watch=_watch,
    )  # fmt: skip
    if json:
        print_json(document)
    else:
        _show(document)
    for file in document["files"]:
        say(f"wrote {file}")


@contextmanager
def _watch(points: Sequence[Any]) -> Iterator[Any]:
    from pfels.experiment.directory import point_name

    with progress([point_name(p.settings) for p in points], [p.config.rounds for p in points]) as report:
        yield report


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


def _show(document: Mapping[str, Any]) -> None:
    title = f"{document['target']}, {document['scale']}: {document['title']}"
    seeds = f"Mean±std over seeds {', '.join(map(str, document['seeds']))}."
    notes = [*document["notes"], seeds, "", *_verdicts(document["claims"]), "", f"made by: {document['command']}"]
    if "schemes" in document:
        columns = [_column(row) for row in document["schemes"].values()]
        rows = [(label, *[column[label] for column in columns]) for label in columns[0]]
        names = ("", *document["schemes"])
    else:
        lines = [_line(point) for point in _finals(document["points"])]
        rows, names = [tuple(line.values()) for line in lines], tuple(lines[0])
    print_table(names, rows, title=title, notes=[*_server_note(document), *notes])


def _server_note(document: Mapping[str, Any]) -> list[str]:
    rows = [*document.get("points", []), *document.get("schemes", {}).values()]
    if "privacy" not in rows[0]:
        return []
    server = rows[0]["privacy"]["server"]
    return [
        f"ε server: the whole training, for the worst device, against the server, at δ = {server['delta']:g}; "
        "neighbours: one device's data emptied.",
        *claim_note([row["privacy"]["claimed"] for row in rows], delta=server["delta"]),
    ]


def _column(row: Mapping[str, Any]) -> dict[str, str]:
    """A scheme's row of a table, with the paper's beside it."""
    paper, off, share = row["paper"], row["difference"], row["to_wfl_p"]
    known = row["accuracy"] is not None
    cells = {
        "ε claimed, a round": claimed_epsilon(row["privacy"]["claimed"]),
        "accuracy": spread(row["accuracy"], ".4f"),
        "  the paper's": f"{paper['accuracy']:.4f}",
        "  difference": number(off["accuracy"], "+.4f"),
        "subcarriers, in d": f"{row['subcarriers']:g}",
        "  the paper's ": f"{paper['subcarriers']:g}",
        "energy": scientific(row["energy"], digits=2),
        "  the paper's  ": f"{paper['energy']:.2e}",
        "  difference ": number(off["energy"], "+.1%"),
        "energy to WFL-P's": f"{share['energy']:.3f}",
        "  the paper's   ": f"{share['paper_energy']:.3f}",
        "airtime": seconds(row["airtime_s"]),
        "ε server": epsilon(row["privacy"]["server"]),
    }
    if known:
        return cells | {"learning rate": f"{row['learning_rate']:g}{'*' if row['learning_rate_at_edge'] else ''}"}
    return cells | {
        "β, median": spread(row["beta"], ".3g"),
        "privacy-limited rounds": f"{row['privacy_limited_share']['mean']:.0%}",
    }


def _finals(points: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The points of a figure; of a curve, its last."""
    if "round" not in points[0]:
        return list(points)
    return list({(point["benchmark"], point["scheme"]): point for point in points}.values())


def _line(point: Mapping[str, Any]) -> dict[str, str]:
    """A point of a figure as a row."""
    cells = {"for": point["benchmark"], "scheme": point["scheme"]}
    forms = {"ratio": ("p", "g"), "epsilon": ("ε", "g"), "round": ("rounds", ",")}
    cells |= {name: format(point[key], form) for key, (name, form) in forms.items() if key in point}
    if point["accuracy"] is not None:
        cells |= {"accuracy": spread(point["accuracy"], ".4f"), "η": f"{point['learning_rate']:g}"}
    cells |= {"subcarriers, d": f"{point['subcarriers']:g}", "energy": number(point["energy"]["mean"], ".2e")}
    if "beta" in point:
        cells |= {
            "β": number(point["beta"]),
            "z least": number(point["noise_multiplier_min"]),
            "limited": f"{point['privacy_limited_share']:.0%}",
        }
    if "bounds" in point:
        cells["bound"] = number(point["bounds"]["corrected"]["total"])
    if "paper" in point:
        cells |= {
            "the paper's": f"{point['paper']['energy']:.2e}",
            "off": number(point["difference"]["energy"], "+.1%"),
        }
    if "privacy" in point:
        cells["ε server"] = epsilon(point["privacy"]["server"])
        if "ε" in cells:
            cells["ε"] = claimed_epsilon(point["privacy"]["claimed"])
    return cells


def _verdicts(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every claim of the paper, and whether it holds here."""
    lines = []
    for each in claims:
        verdict = "holds" if each["holds"] else "does NOT hold"
        give = "" if each["standard_error"] is None else f" ± {each['standard_error']:.2g}"
        lines.append(f"{each['where']}: {each['claim']}: {verdict}, by {each['by']:+.3g}{give} ({each['unit']})")
    return lines
