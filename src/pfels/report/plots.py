"""The figures of a report as plain data for plotly.js; colours are left to the page, which knows light from dark."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from pfels.arrays import Reals
from pfels.report.groups import Curve, Group, thinned
from pfels.report.privacy import DeviceSpread

Figure = dict[str, Any]  # JSON for plotly.js: a whole figure, or a part of one
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross")
AXES = {"rounds": "rounds", "subcarriers": "channel uses so far", "energy": "energy so far, Σ‖x‖²"}
LIMIT_SYMBOLS = {"power": "circle", "privacy": "diamond-open"}


def learning(groups: Sequence[Group], column: str, title: str) -> Figure:
    """A quantity of the training against rounds, channel uses or energy: one line per group, a band over its seeds.

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
                "text": [f"{word}: ε = {value:.4g}" for word, value in zip(words, values, strict=True)],
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
            traces.append(trace | {"x": _short(share), "y": _short(ranked[at]), "hovertemplate": _hover(
                group, "%{x:.3g} % of devices spent at least this", "energy %{y:.4s}")})  # fmt: skip
    values = [value for trace in traces for value in trace["y"]]
    layout = {
        "xaxis": _axis("share of devices, %"),
        "yaxis": _log_axis("energy, Σ‖x‖²", values, form="~s"),
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
        values = {"x": [t + 1 for t in rounds], "y": _short(run.columns["beta"][rounds])}
        traces.append(trace | values | {"hovertemplate": hover})
    layout = {
        "xaxis": _axis("round"),
        "yaxis": _log_axis("β", (value for trace in traces for value in trace["y"])),
        "height": 230,
    }
    return {"data": traces, "layout": layout}


def _curves(groups: Iterable[Group], column: str, title: str) -> Iterator[Figure]:
    for group in groups:
        curve = group.curve(column)
        if curve is not None:
            if len(group.runs) > 1:
                yield _band(group, curve)
            yield _line(group, curve, title)


def _line(group: Group, curve: Curve, title: str) -> Figure:
    trace = _styled(group, "lines+markers", {"size": 7, "maxdisplayed": 12})
    trace["meta"]["x"] = {key: _short(values) for key, values in curve.spent.items()}
    value = "%{y:.4g}"
    if len(group.runs) > 1:
        trace["customdata"] = [[*_short(pair)] for pair in zip(curve.minimum, curve.maximum, strict=True)]
        value += " (%{customdata[0]:.4g} to %{customdata[1]:.4g})"
    return trace | {"y": _short(curve.mean), "hovertemplate": _hover(group, "%{x:,.4~s}", f"{title} {value}")}


def _band(group: Group, curve: Curve) -> Figure:
    """The area between minimum and maximum, as one closed line."""
    around = {key: _short([*values, *values[::-1]]) for key, values in curve.spent.items()}
    meta = {"group": group.style, "band": True, "x": around}
    return {"type": "scatter", "mode": "lines", "fill": "toself", "hoverinfo": "skip", "line": {"width": 0},
            "meta": meta, "y": _short([*curve.maximum, *curve.minimum[::-1]])}  # fmt: skip


def _styled(group: Group, mode: str, marker: Mapping[str, object]) -> Figure:
    dash, symbol = DASHES[group.style % len(DASHES)], SYMBOLS[group.style % len(SYMBOLS)]
    return {"type": "scatter", "mode": mode, "name": escape(group.label), "line": {"width": 2, "dash": dash},
            "marker": {"symbol": symbol, **marker}, "meta": {"group": group.style}}  # fmt: skip


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
    return [float(f"{value:.6g}") for value in values]
