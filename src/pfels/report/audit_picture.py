"""An audit as a picture: the scores of both coins, and the errors of the best guesses beside those that are claimed."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from pfels.arrays import Reals
from pfels.documents.audit import Audit, AuditView
from pfels.privacy.gaussian import gaussian_mu
from pfels.report.text import at_least
from pfels.runtime.files import write_atomically
from pfels.studies.audit_verdict import Evidence, pooled
from pfels.studies.canary_scores import Scores

IN, OUT, CLAIM = "#0072b2", "#d55e00", "#000000"
STYLE: Any = {"font.size": 9, "axes.grid": True, "grid.alpha": 0.35, "lines.linewidth": 1.4}


def draw(document: Audit, evidence: Evidence, path: Path, *, heading: str) -> None:
    """Draw both views of an audit into a PNG."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 6.4), layout="constrained")
        panels = figure.subplots(2, 2)
        views = (("server", evidence.server), ("models", evidence.models))
        for column, (name, parts) in enumerate(views):
            view = document["views"]["server" if name == "server" else "models"]
            _draw_view(panels[:, column].tolist(), name, view, pooled(parts))
        figure.suptitle(heading, fontsize=10)
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=150)
        write_atomically(path, picture.getvalue())


def _draw_view(panels: Sequence[Axes], name: str, view: AuditView, scores: Scores) -> None:
    claimed = view["claimed"]["epsilon"]
    mu = 0.0 if not claimed else gaussian_mu(epsilon=claimed, delta=view["claimed"]["delta"])
    above, below = panels
    _draw_scores(above, scores, mu)
    verdict = "rejected" if view["rejected"] else "not rejected"
    above.set(title=f"{name}: {verdict}", xlabel="score", ylabel="density", yticks=[])
    _draw_errors(below, scores, mu, claimed or 0.0)


def _draw_scores(axes: Axes, scores: Scores, mu: float) -> None:
    """Histograms with fitted Gaussians of one width, and two that are as far apart as the claim allows."""
    values, coins = scores.values, scores.included
    sides = [values[coins], values[~coins]]
    if min(map(len, sides)) < 2:
        axes.hist(values, bins=20, density=True, color=IN, alpha=0.35)
        return
    width = math.sqrt(sum(float(((side - side.mean()) ** 2).sum()) for side in sides) / (len(values) - 2))
    centre = (sides[0].mean() + sides[1].mean()) / 2
    reach = max(float(np.abs(values - centre).max()), width * (mu / 2 + 3))
    x = np.linspace(centre - reach, centre + reach, 400)
    bins = np.linspace(centre - reach, centre + reach, 61)
    for side, label, colour, line in ((sides[1], "emptied", OUT, "--"), (sides[0], "included", IN, "-")):
        axes.hist(side, bins=bins.tolist(), density=True, color=colour, alpha=0.35)
        density = norm.pdf(x, side.mean(), width)
        axes.plot(x, density, line, color=colour, label=f"{label} ({len(side)})")
    for sign, label in ((-1, "as far apart as claimed"), (1, "_")):  # matplotlib leaves the latter out of the legend
        axes.plot(x, norm.pdf(x, centre + sign * mu * width / 2, width), ":", color=CLAIM, label=label)
    axes.set(ylim=(0, 1.3 * axes.get_ylim()[1]))
    axes.legend(fontsize=8, loc="upper left")


def _draw_errors(axes: Axes, scores: Scores, mu: float, claimed: float) -> None:
    """Both error rates of every threshold; an attack below the claim's curve would refute it."""
    false_alarms, misses = error_rates(scores)
    axes.step(false_alarms, misses, where="post", color=IN, label="guesses from these scores")
    x = np.geomspace(0.1 / len(scores.values), 1, 400)
    label = f"claimed: ε = {at_least(claimed, 3)}, μ = {mu:.2f}"
    axes.plot(x, norm.cdf(norm.isf(x) - mu), ":", color=CLAIM, label=label)
    least = 1 / len(scores.values)
    axes.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1))
    axes.set(xlabel="emptied canaries taken for included", ylabel="included canaries missed")
    axes.legend(fontsize=8, loc="lower left")


def error_rates(scores: Scores) -> tuple[Reals, Reals]:
    """For every threshold: the share of emptied canaries above it, and the share of included ones not above it."""
    order = np.argsort(-scores.values, kind="stable")
    coins = scores.included[order]
    inside, outside = max(int(coins.sum()), 1), max(int((~coins).sum()), 1)
    false_alarms = np.concatenate([[0.0], np.cumsum(~coins) / outside])
    misses = np.concatenate([[1.0], 1 - np.cumsum(coins) / inside])
    return false_alarms, misses
