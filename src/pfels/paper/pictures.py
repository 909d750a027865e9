"""The paper's figures as pictures. Every scheme has its own marker and line, so no colour is needed to tell them."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pfels.paper.benchmarks import CIFAR10, FEMNIST, Benchmark
from pfels.runtime.files import write_atomically

Points = Sequence[Mapping[str, Any]]
BENCHMARKS = {each.title: each for each in (CIFAR10, FEMNIST)}
NAMES = {"pfels": "PFELS", "wfl-p": "WFL-P", "wfl-pdp": "WFL-PDP"}

LOOKS: dict[str, dict[str, Any]] = {
    "pfels": {"marker": "o", "linestyle": "-", "color": "#0072b2"},
    "wfl-p": {"marker": "s", "linestyle": "--", "color": "#d55e00"},
    "wfl-pdp": {"marker": "^", "linestyle": ":", "color": "#117733"},
}

ERRORS: dict[str, dict[str, Any]] = {
    "compression": {"marker": "v", "linestyle": "--", "color": "#d55e00", "label": "compression error"},
    "privacy": {"marker": "^", "linestyle": ":", "color": "#117733", "label": "privacy error"},
    "total": {"marker": "o", "linestyle": "-", "color": "#0072b2", "label": "whole bound"},
}

STYLE: Any = {"font.size": 9, "axes.grid": True, "grid.alpha": 0.35, "lines.linewidth": 1.4, "lines.markersize": 4.5}


def draw(document: Mapping[str, Any], kind: str, stem: Path) -> None:
    """Draw a figure's document as `stem`.png and `stem`.pdf."""
    points: Points = document["points"]
    trained = document["scale"] != "link"
    sets = list(dict.fromkeys(point["benchmark"] for point in points))
    rows = {"compression": 1, "privacy": 1 if trained else 2, "training": 2 if trained else 1}.get(kind, 1 + trained)
    columns = len(sets) * (2 if kind == "training" and trained else 1)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.4 * columns, 3.1 * rows + 0.8), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False)
        for i, title in enumerate(sets):
            mine = [point for point in points if point["benchmark"] == title]
            benchmark = BENCHMARKS[title]
            if kind == "compression" and trained:
                _accuracy_against_p(panels[0, i], mine, benchmark)
            elif kind == "compression":
                _errors_against_p(panels[0, i], mine, benchmark, document["preferred_ratio"][title])
            elif kind == "privacy" and trained:
                _accuracy_against_epsilon(panels[0, i], mine)
            elif kind == "privacy":
                _levels_against_epsilon(panels[0, i], panels[1, i], mine, benchmark)
            elif kind == "training" and trained:
                for j, axis in enumerate(("round", "subcarriers")):
                    _course(panels[:, 2 * i + j].tolist(), mine, axis)
            elif kind == "training":
                _used(panels[0, i], mine, "subcarriers", benchmark)
            elif trained:
                _course(panels[:, i].tolist(), mine, "energy")
            else:
                _used(panels[0, i], mine, "energy", benchmark)
        width = int(15 * 4.4 * columns)  # characters of this size that fit
        lines = [document["title"], document["command"]]
        figure.suptitle("\n".join(part for line in lines for part in wrap(line, width)), fontsize=8)
        for suffix in (".png", ".pdf"):
            picture = io.BytesIO()
            figure.savefig(picture, format=suffix[1:], dpi=150)
            write_atomically(stem.with_suffix(suffix), picture.getvalue())


def _name(points: Points) -> str:
    first = points[0]
    return f"{first['preset']}, for {first['benchmark']}" if "preset" in first else str(first["benchmark"])


def _of(points: Points, scheme: str) -> Points:
    return [point for point in points if point["scheme"] == scheme]


def _mean(points: Points, key: str) -> list[float]:
    return [point[key]["mean"] if isinstance(point[key], Mapping) else point[key] for point in points]


def _bars(axes: Axes, x: Sequence[float], points: Points, key: str, scheme: str) -> None:
    axes.errorbar(
        x, _mean(points, key), yerr=[point[key]["std"] or 0.0 for point in points], capsize=2, label=NAMES[scheme],
        **LOOKS[scheme],
    )  # fmt: skip


def _accuracy_against_p(axes: Axes, points: Points, benchmark: Benchmark) -> None:
    _bars(axes, [p["ratio"] for p in points], points, "accuracy", "pfels")
    axes.axvline(
        benchmark.ratio, linestyle=(0, (1, 3)), color="black", label=f"the paper's best, p = {benchmark.ratio:g}"
    )
    axes.set(
        xlabel="compression ratio p = k/d",
        ylabel="test accuracy",
        title=f"{_name(points)}, ε = {points[0]['epsilon']:g}",
    )
    axes.legend()


def _errors_against_p(axes: Axes, points: Points, benchmark: Benchmark, preferred: float) -> None:
    for part, look in ERRORS.items():
        axes.plot([p["ratio"] for p in points], [p["bounds"]["corrected"][part] for p in points], **look)
    axes.axvline(preferred, linestyle="-.", color="black", label=f"the bound prefers p = {preferred:.2f}")
    axes.axvline(
        benchmark.ratio, linestyle=(0, (1, 3)), color="black", label=f"the paper's best, p = {benchmark.ratio:g}"
    )
    axes.set(
        xlabel="compression ratio p = k/d", ylabel="corrected convergence bound", ylim=(0, None),
        title=f"{_name(points)}, ε = {points[0]['epsilon']:g}",
    )  # fmt: skip
    axes.legend()


def _accuracy_against_epsilon(axes: Axes, points: Points) -> None:
    for scheme in NAMES:
        mine = _of(points, scheme)
        _bars(axes, [p["epsilon"] for p in mine], mine, "accuracy", scheme)
    axes.set(xscale="log", xlabel="ε claimed for a round", ylabel="test accuracy, mean ± std", title=_name(points))
    grid = sorted({point["epsilon"] for point in points})
    axes.set_xticks(grid, [f"{epsilon:g}" for epsilon in grid], rotation=45)
    axes.xaxis.minorticks_off()
    axes.legend()


def _levels_against_epsilon(above: Axes, below: Axes, points: Points, benchmark: Benchmark) -> None:
    for scheme, name in NAMES.items():
        mine = _of(points, scheme)
        x = [p["epsilon"] for p in mine]
        above.plot(x, [p["noise_multiplier_median"] for p in mine], label=name, **LOOKS[scheme])
        server = [p["privacy"]["server"]["epsilon"] for p in mine]
        below.plot(x, server, label=name, **LOOKS[scheme])
    grid = sorted({point["epsilon"] for point in points})
    for axes in (above, below):
        axes.axvline(
            benchmark.same_from, linestyle=(0, (1, 3)), color="black",
            label=f"the paper: WFL-PDP = WFL-P from ε = {benchmark.same_from:g}",
        )  # fmt: skip
        axes.set(xscale="log", xlabel="ε claimed for a round")
        axes.set_xticks(grid, [f"{epsilon:g}" for epsilon in grid], rotation=45)
        axes.xaxis.minorticks_off()
    above.set(ylabel="median noise multiplier z", title=_name(points), ylim=(0, None))
    delta = points[0]["privacy"]["server"]["delta"]
    below.set(
        yscale="log",
        ylabel=f"ε of the whole training\nagainst the server, δ = {delta:g}",
        title="worst device; neighbours: its data emptied",
    )
    above.legend(fontsize=7)


def _used(axes: Axes, points: Points, key: str, benchmark: Benchmark) -> None:
    rounds = max(point["round"] for point in points)
    for scheme, name in NAMES.items():
        mine = _of(points, scheme)
        look = LOOKS[scheme] | {"markevery": 7}
        axes.plot([p["round"] for p in mine], _mean(mine, key), label=name, **look)
        printed = getattr(benchmark.printed[scheme], key)
        label = "printed in the paper" if scheme == "wfl-pdp" else None
        axes.plot(rounds, printed, marker="*", markersize=11, color="black", linestyle="none", zorder=5, label=label)
    unit = "subcarriers used, in d" if key == "subcarriers" else "energy used, Σ‖x‖²"
    axes.set(xlabel="round", ylabel=unit, title=_name(points), ylim=(0, None))
    axes.legend()


def _course(panels: Sequence[Axes], points: Points, axis: str) -> None:
    labels = {"round": "round", "subcarriers": "subcarriers used, in d", "energy": "energy used, Σ‖x‖²"}
    for axes, key, label in zip(panels, ("train_loss", "accuracy"), ("training loss", "test accuracy"), strict=True):
        for scheme, name in NAMES.items():
            mine = [point for point in _of(points, scheme) if point[key] is not None]
            look = LOOKS[scheme] | {"markevery": max(1, len(mine) // 8)}
            axes.plot(_mean(mine, axis), _mean(mine, key), label=name, **look)
        axes.set(xlabel=labels[axis], ylabel=label, title=_name(points))
        axes.legend()
