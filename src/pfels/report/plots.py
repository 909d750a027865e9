"""The figures of a report as plain data for plotly.js; colours are left to the page, which knows light from dark."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from pfels.arrays import Reals
from pfels.report.groups import Curve, Group, thinned, written
from pfels.report.privacy import DeviceSpread
from pfels.report.sweeps import Sweep
from pfels.report.text import at_least

Figure = dict[str, Any]  # JSON for plotly.js: a whole figure, or a part of one
AXES = {
    "rounds": "round (the first is 0, as in rounds.jsonl)",
    "subcarriers": "channel uses so far",
    "energy": "energy radiated so far, J",
}
HEIGHT, SMALL_HEIGHT = 320, 230  # pixels; the page keeps this room free before a figure is drawn
POINTS = 4000  # of all lines of a figure together; a line has 400 at most
LIMIT_SYMBOLS = {"power": "circle", "privacy": "diamond-open"}


def learning(groups: Sequence[Group], column: str, title: str) -> Figure:
    """A quantity of the training against rounds, channel uses or energy: one line per group, a band over its seeds.

    Lines are thinned evenly, so that a page stays small however many rounds and groups there are.

    Each trace carries its x for every axis that it has; the page uses one of them.
    """
    traces = list(_curves(groups, column, title))
    axes = {key: words for key, words in AXES.items() if any(key in trace["meta"]["x"] for trace in traces)}
    return {"data": traces, "axes": axes, "layout": {"yaxis": _axis(title), "xaxis": _axis(AXES["rounds"])}}


def server_growth(groups: Sequence[Group]) -> Figure:
    """The worst device's ε against the server, per round."""
    title = "worst device's ε against the server"
    traces = list(_curves(groups, "server_epsilon", title))
    for trace in traces:
        trace["x"] = trace["meta"].pop("x")["rounds"]
    values = [value for trace in traces for value in trace["y"]]
    return {"data": traces, "layout": {"yaxis": _log_axis(title, values), "xaxis": _axis(AXES["rounds"])}}


def swept(sweep: Sweep) -> Figure:
    """Accuracy against a swept setting: one line per scheme and other settings, with standard errors."""
    traces = []
    for line in sweep.lines:
        group = line.points[0].group
        trace = _styled(group, "lines+markers", {"size": 8})
        trace["meta"]["fixed"] = True
        values = [point.number for point in line.points] if sweep.numeric else [written(p.value) for p in line.points]
        errors = [point.error for point in line.points]
        if any(errors):
            trace["error_y"] = {"type": "data", "array": [_digits(error or 0.0) for error in errors], "thickness": 1.2}
        hover = f"{escape(sweep.key)} = %{{x}}<br>test accuracy %{{y:.4f}}<extra>{escape(line.label)}</extra>"
        accuracies = _short(point.accuracy for point in line.points)
        traces.append(trace | {"name": _wrapped(line.label), "x": values, "y": accuracies, "hovertemplate": hover})
    title = escape(sweep.key)
    axis = _axis(title) | ({} if sweep.numeric else {"type": "category"})
    if sweep.logarithmic:
        axis = _log_axis(title, [x for trace in traces for x in trace["x"]])
    return {"data": traces, "layout": {"xaxis": axis, "yaxis": _axis("test accuracy"), "height": HEIGHT}}


def server_spread(rows: Sequence[DeviceSpread]) -> Figure:
    """ε of the devices against the server: minimum, median, 90 % and maximum, one row per group."""
    traces = []
    for row in rows:
        group, values = row.group, [row.minimum, row.median, row.p90, row.maximum]
        trace = _styled(group, "lines+markers", {"size": 10, "symbol": ["line-ns-open", "circle", "diamond", "square"]})
        words = ("minimum", "median", "90 % of devices at most", "maximum")
        traces.append(
            trace
            | {
                "x": _short(values),
                "y": [_wrapped(group.label)] * 4,
                "text": [f"{word}: ε = {at_least(value, 4)}" for word, value in zip(words, values, strict=True)],
                "hovertemplate": "%{text}<extra>" + escape(group.label) + "</extra>",
            }
        )
    ends = [value for row in rows for value in (row.minimum, row.maximum)]
    title = "ε of a device against the server"
    wide = min(ends) > 0 and max(ends) > 20 * min(ends)
    layout = {
        "xaxis": _log_axis(title, ends) if wide else _axis(title),
        "yaxis": {"automargin": True, "autorange": "reversed", "type": "category"},
        "height": 90 + sum(28 + 16 * _wrapped(row.group.label).count("<br>") + 16 for row in rows),
    }
    return {"data": traces, "layout": layout}


def device_energy(groups: Iterable[Group]) -> Figure:
    """The energy of each device in falling order, mean over the seeds."""
    traces = []
    for group in groups:
        ranked = ranked_energy(group)
        if ranked is not None:
            at = thinned(len(ranked), limit=400)
            share = (at + 1) / group.config.data.devices * 100
            trace = _styled(group, "lines+markers", {"size": 7, "maxdisplayed": 10})
            spent = _short(ranked[at] * group.joules_per_energy)
            traces.append(trace | {"x": _short(share), "y": spent, "hovertemplate": _hover(
                group, "%{x:.3g} % of devices radiated at least this", "%{y:.4s}J")})  # fmt: skip
    values = [value for trace in traces for value in trace["y"]]
    layout = {
        "xaxis": _axis("share of devices, %"),
        "yaxis": _log_axis("energy radiated, J", values, form="~s"),
    }
    return {"data": traces, "layout": layout}


def ranked_energy(group: Group) -> Reals | None:
    """The energies of the devices of a group in falling order, mean over the seeds; None where there is no energy."""
    spent = [sorted(run.device_energy.values(), reverse=True) for run in group.runs if run.device_energy]
    if not spent:
        return None
    common = min(len(values) for values in spent)  # a device that was never drawn spent nothing and has no rank
    ranked: Reals = np.mean([values[:common] for values in spent], axis=0)
    return ranked[ranked > 0]


def levels(group: Group) -> Figure:
    """β of a group's first run, per round; the marker's shape says which limit set it."""
    run = group.runs[0]
    at = thinned(run.rounds, limit=600)
    traces = []
    for limit in sorted({limit for limit in run.limits if limit is not None}):
        rounds = [t for t in at.tolist() if run.limits[t] == limit]
        symbol = LIMIT_SYMBOLS.get(limit, "square-open")
        trace = _styled(group, "markers", {"size": 6, "symbol": symbol})
        hover = _hover(group, "round %{x}", f"β = %{{y:.4g}}, set by the {escape(limit)} limit")
        values = {"x": rounds, "y": _short(run.columns["beta"][rounds])}
        traces.append(trace | values | {"hovertemplate": hover})
    layout = {
        "xaxis": _axis("round"),
        "yaxis": _log_axis("β", (value for trace in traces for value in trace["y"])),
        "height": SMALL_HEIGHT,
    }
    return {"data": traces, "layout": layout}


def _curves(groups: Iterable[Group], column: str, title: str) -> Iterator[Figure]:
    drawn = list(groups)
    limit = max(50, min(400, POINTS // max(len(drawn), 1)))
    for group in drawn:
        curve = group.curve(column, limit=limit)
        if curve is not None:
            yield _line(group, curve, title)


def _line(group: Group, curve: Curve, title: str) -> Figure:
    trace = _styled(group, "lines+markers", {"size": 7, "maxdisplayed": 12})
    trace["meta"]["x"] = _spent(group, curve)
    value = "%{y:.4g}"
    if len(group.runs) > 1:  # the page draws the band between them
        trace["customdata"] = [[*_short(pair)] for pair in zip(curve.minimum, curve.maximum, strict=True)]
        value += " (%{customdata[0]:.4g} to %{customdata[1]:.4g})"
    return trace | {"y": _short(curve.mean), "hovertemplate": _hover(group, "at %{x:,.4~s}", f"{title} {value}")}


def _spent(group: Group, curve: Curve) -> dict[str, list[float]]:
    """What had been spent, axis by axis; energy in joules."""
    units = {"energy": group.joules_per_energy}
    return {key: _short(values * units.get(key, 1.0)) for key, values in curve.spent.items()}


def _styled(group: Group, mode: str, marker: Mapping[str, object]) -> Figure:
    return {"type": "scatter", "mode": mode, "name": escape(group.label), "line": {"width": 2, "dash": group.look.dash},
            "marker": {"symbol": group.look.symbol, **marker}, "meta": {"group": group.style}}  # fmt: skip


def _axis(title: str) -> Figure:
    return {"title": {"text": title}, "automargin": True, "zeroline": False}


def _log_axis(title: str, values: Iterable[float], *, form: str = "~g") -> Figure:
    """A logarithmic axis labelled at 1, 2 and 5 of each decade, or at 1 alone over many decades."""
    known = [value for value in values if value > 0]
    decades = math.log10(max(known) / min(known)) if known else 0.0
    return _axis(title) | {"type": "log", "dtick": "D2" if decades < 2.5 else 1, "tickformat": form}


def _hover(group: Group, where: str, what: str) -> str:
    # plotly.js reads a little HTML in its labels, so a label that looks like HTML has to be escaped.
    return f"{where}<br>{what}<extra>{escape(group.label)}</extra>"


def _wrapped(label: str) -> str:
    return escape(label).replace(", ", ",<br>")


def _short(values: Iterable[float]) -> list[float]:
    """Six significant digits, which is more than a screen can show."""
    return [_digits(value) for value in values]


def _digits(value: float) -> float:
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short
