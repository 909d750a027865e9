"""Figures as text, in tables and reports alike."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

NONE = "–"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def listed(labels: Sequence[str]) -> str:
    """Labels as a list in a sentence; semicolons where a label has a comma of its own."""
    if any("," in label for label in labels):
        return "; ".join(labels)
    return " and ".join(filter(None, [", ".join(labels[:-1]), *labels[-1:]]))


def scientific(mean: float, std: float | None = None) -> str:
    """A number, with its spread if given, over one power of ten: (5.3 ± 0.8) × 10⁶."""
    if mean <= 0:
        return "0"
    power = math.floor(math.log10(mean))
    if abs(power) < 3:
        return f"{mean:.3g}" if std is None else f"{mean:.3g} ± {std:.2g}"
    ten = f"× 10{str(power).translate(SUPERSCRIPTS)}"
    scale = 10.0**power
    return f"{mean / scale:.2f} {ten}" if std is None else f"({mean / scale:.2f} ± {std / scale:.2f}) {ten}"


def seconds(value: float) -> str:
    """A time."""
    return f"{value:,.1f} s" if value >= 1 else f"{value:.2g} s"


def accuracy(row: Mapping[str, Any]) -> str:
    """The accuracy of a group, with its spread where there are several seeds."""
    figure = row["accuracy"]
    return f"{figure['mean']:.3f} ± {figure['std']:.3f}" if len(row["seeds"]) > 1 else f"{figure['mean']:.3f}"


def epsilon(loss: Mapping[str, Any]) -> str:
    """ε in a narrow column."""
    value = loss["epsilon"]
    if value is None:
        return "none"
    return "> 100" if value > 100 else f"{value:.2f}"


def outsider_epsilon(privacy: Mapping[str, Any]) -> str:
    """An outsider sees less than the server, so the server's figure holds where there is none of its own."""
    alone = privacy["outsider"]["epsilon"] is None and privacy["server"]["epsilon"] is not None
    return "as server" if alone else epsilon(privacy["outsider"])


def claimed_epsilon(claim: Mapping[str, Any] | None) -> str:
    """The paper's ε for a round, with a star where its proof does not cover it."""
    return (
        NONE if claim is None or claim["epsilon"] is None else f"{claim['epsilon']:.4g}{'' if claim['valid'] else '*'}"
    )
