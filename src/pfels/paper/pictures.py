"""The paper's figures as pictures. Every scheme has its own marker and line, so they can be told without colour."""

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pfels.documents.paper import FigurePoint, LinkCurvePoint, LinkPoint, TrainedCurvePoint, TrainedPoint
from pfels.paper.benchmarks import BENCHMARKS, NAMES, Benchmark, data_name
from pfels.paper.curve_claims import CURVE_AXES, LABELS, used
from pfels.runtime.files import write_atomically

LOOKS: dict[str, dict[str, Any]] = {
    "pfels": {"marker": "o", "linestyle": "-", "color": "#0072b2"},
    "wfl-p": {"marker": "s", "linestyle": "--", "color": "#d55e00"},
    "wfl-pdp": {"marker": "^", "linestyle": ":", "color": "#117733"},
}

ERRORS: dict[str, dict[str, Any]] = {
    "compression": {"marker": "v", "linestyle": "--", "color": "#d55e00", "label": "compression error"},
    "privacy": {"marker": "^", "linestyle": ":", "color": "#117733", "label": "privacy error"},
    "total": {"marker": "o", "linestyle": "-", "color": "#0072b2", "label": "bound"},
}

STYLE: Any = {"font.size": 9, "axes.grid": True, "grid.alpha": 0.35, "lines.linewidth": 1.4, "lines.markersize": 4.5}


def draw(
    points: Sequence[FigurePoint], kind: str, stem: Path, *, heading: Sequence[str], preferred: Mapping[str, float]
) -> None:
    """Draw the points of a figure as `stem`.png and `stem`.pdf; `preferred` is the p that minimises each bound."""
    titles = list(dict.fromkeys(point["benchmark"] for point in points))
    trained = points[0]["accuracy"] is not None
    stacked = {"compression": False, "privacy": not trained}.get(kind, trained)
    axes = CURVE_AXES.get(kind, ("",)) if trained else ("",)
    rows, columns = 2 if stacked else 1, len(titles) * len(axes)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.4 * columns, 3.1 * rows + 0.8), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False)
        for i, title in enumerate(titles):
            mine = [point for point in points if point["benchmark"] == title]
            columns_of = [panels[:, i * len(axes) + j].tolist() for j in range(len(axes))]
            _draw_benchmark(columns_of, mine, kind, BENCHMARKS[title], preferred.get(title))
        width = int(15 * 4.4 * columns)  # characters of this size that fit
        figure.suptitle("\n".join(part for line in heading for part in wrap(line, width)), fontsize=8)
        for suffix in (".png", ".pdf"):
            picture = io.BytesIO()
            figure.savefig(picture, format=suffix[1:], dpi=150)
            write_atomically(stem.with_suffix(suffix), picture.getvalue())


def _draw_benchmark(
    columns: Sequence[Sequence[Axes]],
    points: Sequence[FigurePoint],
    kind: str,
    benchmark: Benchmark,
    preferred: float | None,
) -> None:
    """Draw the points of one benchmark into its columns of panels, according to their type."""
    levels = [p for p in points if "noise_multiplier_median" in p]
    accuracies = [p for p in points if "learning_rate_at_edge" in p]
    link_curves = [p for p in points if "round" in p and "preset" not in p]
    curves = [p for p in points if "round" in p and "preset" in p]
    panels = columns[0]
    if levels and preferred is not None:
        _bound_against_p(panels[0], levels, benchmark, preferred)
    elif levels:
        _levels_against_epsilon(panels[0], panels[1], levels, benchmark)
    elif accuracies and kind == "compression":
        _accuracy_against_p(panels[0], accuracies, benchmark)
    elif accuracies:
        _accuracy_against_epsilon(panels[0], accuracies)
    elif link_curves:
        _used_by_round(panels[0], link_curves, "energy" if kind == "energy" else "subcarriers", benchmark)
    elif curves:
        for column, axis in zip(columns, CURVE_AXES[kind], strict=True):
            _course(column, curves, axis)


def _name(points: Sequence[FigurePoint]) -> str:
    first = points[0]
    return data_name(first["benchmark"], first["preset"]) if "preset" in first else first["benchmark"]


def _bars(axes: Axes, x: Sequence[float], points: Sequence[TrainedPoint], scheme: str) -> None:
    accuracies = [point["accuracy"] for point in points]
    means, errors = [each["mean"] for each in accuracies], [each["standard_error"] or 0.0 for each in accuracies]
    axes.errorbar(x, means, yerr=errors, capsize=2, label=NAMES[scheme], **LOOKS[scheme])


def _accuracy_against_p(axes: Axes, points: Sequence[TrainedPoint], benchmark: Benchmark) -> None:
    _bars(axes, [p["ratio"] for p in points], points, "pfels")
    _finish_against_p(axes, points, benchmark)
    axes.set(ylabel="test accuracy, mean ± standard error")


def _bound_against_p(axes: Axes, points: Sequence[LinkPoint], benchmark: Benchmark, preferred: float) -> None:
    bounds, ratios = [p["bounds"]["corrected"] for p in points], [p["ratio"] for p in points]
    axes.plot(ratios, [bound["compression"] for bound in bounds], **ERRORS["compression"])
    axes.plot(ratios, [bound["privacy"] for bound in bounds], **ERRORS["privacy"])
    axes.plot(ratios, [bound["total"] for bound in bounds], **ERRORS["total"])
    axes.axvline(preferred, linestyle="-.", color="black", label=f"minimum of the bound, p = {preferred:.2f}")
    _finish_against_p(axes, points, benchmark)
    axes.set(ylabel="corrected convergence bound", ylim=(0, None))


def _finish_against_p(axes: Axes, points: Sequence[LinkPoint] | Sequence[TrainedPoint], benchmark: Benchmark) -> None:
    label = f"the paper's best, p = {benchmark.ratio:g}"
    axes.axvline(benchmark.ratio, linestyle=(0, (1, 3)), color="black", label=label)
    axes.set(xlabel="compression ratio p = k/d", title=f"{_name(points)}, ε = {points[0]['epsilon']:g}")
    axes.legend()


def _accuracy_against_epsilon(axes: Axes, points: Sequence[TrainedPoint]) -> None:
    for scheme in NAMES:
        mine = [p for p in points if p["scheme"] == scheme]
        _bars(axes, [p["epsilon"] for p in mine], mine, scheme)
    _epsilon_axis(axes, [p["epsilon"] for p in points])
    axes.set(ylabel="test accuracy, mean ± standard error", title=_name(points))
    axes.legend()


def _epsilon_axis(axes: Axes, epsilons: Sequence[float]) -> None:
    grid = sorted(set(epsilons))
    axes.set(xscale="log", xlabel="ε claimed per round")
    axes.set_xticks(grid, [f"{epsilon:g}" for epsilon in grid], rotation=45)
    axes.xaxis.minorticks_off()


def _levels_against_epsilon(above: Axes, below: Axes, points: Sequence[LinkPoint], benchmark: Benchmark) -> None:
    for scheme, name in NAMES.items():
        mine = [p for p in points if p["scheme"] == scheme]
        x = [p["epsilon"] for p in mine]
        above.plot(x, [p["noise_multiplier_median"] for p in mine], label=name, **LOOKS[scheme])
        server = [math.nan if (e := p["privacy"]["server"]["epsilon"]) is None else e for p in mine]
        below.plot(x, server, label=name, **LOOKS[scheme])
    label = f"the paper: WFL-PDP = WFL-P from ε = {benchmark.same_from:g}"
    for axes in (above, below):
        axes.axvline(benchmark.same_from, linestyle=(0, (1, 3)), color="black", label=label)
        _epsilon_axis(axes, [p["epsilon"] for p in points])
    above.set(ylabel="median noise multiplier z", title=_name(points), ylim=(0, None))
    delta = points[0]["privacy"]["server"]["delta"]
    below.set(
        yscale="log",
        ylabel=f"ε of the whole training\nagainst the server, δ = {delta:g}",
        title="worst device; neighbours: its data emptied",
    )
    above.legend(fontsize=7)


def _used_by_round(axes: Axes, points: Sequence[LinkCurvePoint], axis: str, benchmark: Benchmark) -> None:
    rounds = max(point["round"] for point in points)
    for scheme, name in NAMES.items():
        mine = [p for p in points if p["scheme"] == scheme]
        axes.plot(
            [p["round"] for p in mine], [used(p, axis) for p in mine], label=name, **(LOOKS[scheme] | {"markevery": 7})
        )
        row = benchmark.printed[scheme]
        printed = row["energy"] if axis == "energy" else row["subcarriers"]
        label = "printed in the paper" if scheme == "wfl-pdp" else None
        axes.plot(rounds, printed, marker="*", markersize=11, color="black", linestyle="none", zorder=5, label=label)
    axes.set(xlabel=LABELS["round"], ylabel=LABELS[axis], title=_name(points), ylim=(0, None))
    axes.legend()


def _course(panels: Sequence[Axes], points: Sequence[TrainedCurvePoint], axis: str) -> None:
    """Training loss above, test accuracy below."""
    for scheme in NAMES:
        mine = [p for p in points if p["scheme"] == scheme]
        known = [(used(p, axis), loss) for p in mine if (loss := p["train_loss"]) is not None]
        _line(panels[0], known, scheme)
        _line(panels[1], [(used(p, axis), p["accuracy"]["mean"]) for p in mine], scheme)
    above, below = panels
    above.set(xlim=(0, None), ylabel="training loss", title=_name(points))
    below.set(xlim=(0, None), ylabel="test accuracy", xlabel=LABELS[axis])
    above.legend()


def _line(axes: Axes, points: Sequence[tuple[float, float]], scheme: str) -> None:
    look = LOOKS[scheme] | {"markevery": max(1, len(points) // 8)}
    axes.plot([x for x, _ in points], [y for _, y in points], label=NAMES[scheme], **look)
