"""The figures of a report as plain data for plotly.js; colours are left to the page, which knows light from dark."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from pfels.report.groups import Curve, Group, thinned

Figure = dict[str, Any]
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross")
AXES = {"rounds": "rounds", "subcarriers": "subcarriers used so far", "energy": "energy used so far, Σ‖x‖²"}
LIMIT_SYMBOLS = {"power": "circle", "privacy": "diamond-open"}


def learning(groups: Sequence[Group], column: str, title: str) -> Figure:
    """A quantity of the training, to be drawn against rounds, subcarriers or energy: a line a group, a band its seeds.

    Each trace carries its x for every axis that it has; the page puts one of them in place.
    """
    traces = list(_curves(groups, column, title))
    axes = {key: words for key, words in AXES.items() if any(key in trace["meta"]["x"] for trace in traces)}
    return {"data": traces, "axes": axes, "layout": {"yaxis": _axis(title), "xaxis": _axis(AXES["rounds"])}}


def server_growth(groups: Sequence[Group]) -> Figure:
    """The worst device's ε against the server, round by round."""
    title = "worst device's ε"
    traces = list(_curves(groups, "server_epsilon", title))
    for trace in traces:
        trace["x"] = trace["meta"].pop("x")["rounds"]
    values = [value for trace in traces for value in trace["y"]]
    return {"data": traces, "layout": {"yaxis": _log_axis(title, values), "xaxis": _axis(AXES["rounds"])}}


def server_spread(rows: Sequence[tuple[Group, Mapping[str, Any]]]) -> Figure:
    """ε of the devices against the server: least, median, 90 % and most, a row a group."""
    traces = []
    for group, found in rows:
        values = [found[name] for name in ("min", "median", "p90", "max")]
        trace = _styled(group, "lines+markers", {"size": 10, "symbol": ["line-ns-open", "circle", "diamond", "square"]})
        words = ("least", "median", "nine in ten at most", "most")
        traces.append(
            trace
            | {
                "x": _short(values),
                "y": [_wrapped(group.label)] * 4,
                "text": [f"{word}: ε = {value:.4g}" for word, value in zip(words, values, strict=True)],
                "hovertemplate": "%{text}<extra>" + escape(group.label) + "</extra>",
            }
        )
    ends = [value for _, found in rows for value in (found["min"], found["max"])]
    title = "ε of a device against the server"
    wide = min(ends) > 0 and max(ends) > 20 * min(ends)
    layout = {
        "xaxis": _log_axis(title, ends) if wide else _axis(title),
        "yaxis": {"automargin": True, "autorange": "reversed", "type": "category"},
        "height": 90 + sum(28 + 16 * _wrapped(group.label).count("<br>") + 16 for group, _ in rows),
    }
    return {"data": traces, "layout": layout}


def device_energy(groups: Iterable[Group]) -> Figure:
    """The energy of each device from the one that spent most to the one that spent least, mean over the seeds."""
    traces = []
    for group in groups:
        ranked = ranked_energy(group)
        if ranked is not None:
            at = thinned(len(ranked), most=400)
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


def ranked_energy(group: Group) -> Any:
    """What the devices of a group spent, largest first, mean over the seeds; None where there is no energy."""
    spent = [sorted(run.device_energy.values(), reverse=True) for run in group.runs if run.device_energy]
    if not spent:
        return None
    common = min(len(values) for values in spent)  # a device that was never drawn spent nothing and has no rank
    ranked = np.mean([values[:common] for values in spent], axis=0)
    return ranked[ranked > 0]


def alignment(group: Group) -> Figure:
    """β of a group's first run, round by round; the marker's shape says which limit set it."""
    run = group.runs[0]
    at = thinned(run.rounds, most=600)
    traces = []
    for limit in sorted({limit for limit in run.limits if limit is not None}):
        rounds = [t for t in at.tolist() if run.limits[t] == limit]
        symbol = LIMIT_SYMBOLS.get(limit, "square-open")
        trace = _styled(group, "markers", {"size": 6, "symbol": symbol})
        traces.append(trace | {"x": [t + 1 for t in rounds], "y": _short(run.columns["beta"][rounds]),
            "hovertemplate": _hover(group, "round %{x}", f"β = %{{y:.4g}}, set by the {limit} limit")})  # fmt: skip
    layout = {
        "xaxis": _axis("round"),
        "yaxis": _log_axis("β", (value for trace in traces for value in trace["y"])),
        "height": 230,
    }
    return {"data": traces, "layout": layout}


def _curves(groups: Iterable[Group], column: str, title: str) -> Iterator[dict[str, Any]]:
    for group in groups:
        curve = group.curve(column)
        if curve is not None:
            if len(group.runs) > 1:
                yield _band(group, curve)
            yield _line(group, curve, title)


def _line(group: Group, curve: Curve, title: str) -> dict[str, Any]:
    trace = _styled(group, "lines+markers", {"size": 7, "maxdisplayed": 12})
    trace["meta"]["x"] = {key: _short(values) for key, values in curve.spent.items()}
    value = "%{y:.4g}"
    if len(group.runs) > 1:
        trace["customdata"] = [[*_short(pair)] for pair in zip(curve.low, curve.high, strict=True)]
        value += " (%{customdata[0]:.4g} to %{customdata[1]:.4g})"
    return trace | {"y": _short(curve.mean), "hovertemplate": _hover(group, "%{x:,.4~s}", f"{title} {value}")}


def _band(group: Group, curve: Curve) -> dict[str, Any]:
    """The area between least and most, drawn there and back."""
    there_and_back = {key: _short([*values, *values[::-1]]) for key, values in curve.spent.items()}
    meta = {"group": group.style, "band": True, "x": there_and_back}
    return {"type": "scatter", "mode": "lines", "fill": "toself", "hoverinfo": "skip", "line": {"width": 0},
            "meta": meta, "y": _short([*curve.high, *curve.low[::-1]])}  # fmt: skip


def _styled(group: Group, mode: str, marker: Mapping[str, Any]) -> dict[str, Any]:
    dash, symbol = DASHES[group.style % len(DASHES)], SYMBOLS[group.style % len(SYMBOLS)]
    return {"type": "scatter", "mode": mode, "name": escape(group.label), "line": {"width": 2, "dash": dash},
            "marker": {"symbol": symbol, **marker}, "meta": {"group": group.style}}  # fmt: skip


def _axis(title: str) -> dict[str, Any]:
    return {"title": {"text": title}, "automargin": True, "zeroline": False}


def _log_axis(title: str, values: Iterable[float], *, form: str = "~g") -> dict[str, Any]:
    """A logarithmic axis whose labels are whole numbers of one size: 1, 2, 5 of each decade, or 1 alone if many."""
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
