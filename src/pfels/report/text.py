"""Figures as text, in tables and reports alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from pfels.privacy.events import OWN_NOISE, rounded_down, rounded_up

if TYPE_CHECKING:
    from pfels.documents.privacy import Assumption, Figure, RunPrivacy
    from pfels.documents.studies import AggregateRow


NONE = "–"
AS_SERVER = "as server"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def listed(labels: Sequence[str]) -> str:
    """Labels as a list in a sentence; semicolons where a label has a comma of its own."""
    if any("," in label for label in labels):
        return "; ".join(labels)
    return " and ".join(filter(None, [", ".join(labels[:-1]), *labels[-1:]]))


def some(labels: Sequence[str], *, most: int = 6) -> str:
    """Labels as a list in a sentence; of more than `most`, the first ones and how many more there are."""
    if len(labels) <= most:
        return listed(labels)
    return f"{listed(labels[:most]).replace(' and ', ', ')} and {len(labels) - most} more"


def numbers(values: Sequence[int]) -> str:
    """Whole numbers in rising order; many in a row as a range: `0, 1, 2`, `0 to 199`."""
    if len(values) > 5 and values[-1] - values[0] == len(values) - 1:
        return f"{values[0]} to {values[-1]}"
    more = f" and {len(values) - 12} more" if len(values) > 12 else ""
    return ", ".join(map(str, values[:12])) + more


def counted(count: int, noun: str) -> str:
    """A number of things: `1 block`, `3 blocks`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def scientific(value: float) -> str:
    """A number with a power of ten, where it has a large one: 5.30 × 10⁶."""
    if value <= 0:
        return "0"
    power = math.floor(math.log10(value))
    if abs(power) < 3:
        return f"{value:.3g}"
    return f"{value / 10.0**power:.2f} × 10{str(power).translate(SUPERSCRIPTS)}"


def seconds(value: float) -> str:
    """A time in seconds."""
    return f"{value:,.1f} s" if value >= 1 else f"{value:.2g} s"


def duration(value: float) -> str:
    """A time in two units at most: `0.3 s`, `12 min 5 s`, `4 h 56 min`, `21 d 21 h`, `140,000 years`."""
    if value < 60:
        return f"{value:.3g} s" if value >= 0.1 or value == 0 else f"{value * 1000:.3g} ms"
    steps = ((3600, 60, "min", 1, "s"), (86400, 3600, "h", 60, "min"), (31_557_600, 86400, "d", 3600, "h"))
    for below, size, unit, part, small in steps:
        whole = round(value / part)
        if whole * part < below:
            return f"{whole * part // size} {unit} {whole * part % size // part} {small}"
    years = value / 31_557_600
    return f"{float(f'{years:.2g}'):,.0f} years" if years < 1e6 else f"{short(years)} years"


def joules(value: float) -> str:
    """An energy with three digits and a prefix: `6.5 mJ`, `6.13 MJ`."""
    if value == 0:
        return "0 J"
    digits = float(f"{value:.3g}")
    power = math.floor(math.log10(digits)) // 3
    if not -5 <= power <= 4:
        return f"{short(value)} J"
    return f"{digits / 1000.0**power:.4g} {'fpnµm kMGT'[power + 5].strip()}J"


def short(value: float, form: str = ".2g") -> str:
    """A number without the padding of its exponent: `5.9e9`, `3e-5`."""
    text = format(value, form)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else text


def percent(share: float) -> str:
    """A share in whole percent."""
    return f"{100 * share:.0f} %"


def accuracy(row: AggregateRow) -> str:
    """The accuracy of a group, with its standard error where there are several seeds."""
    mean, error = row["accuracy"]["mean"], row["accuracy"]["standard_error"]
    return f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}"


def epsilon(loss: Figure | Assumption) -> str:
    """ε in a narrow column; an upper bound is rounded up."""
    value = loss["epsilon"]
    if value is None:
        return "none"
    return "> 100" if value > 100 else f"{math.ceil(Decimal(repr(value)) * 100) / 100:.2f}"


def at_least(value: float | None, digits: int = 3) -> str:
    """Rounded up: an upper bound such as ε, and a minimum such as the z that a budget requires, which is met by those
    who set what is printed."""
    return NONE if value is None else f"{rounded_up(value, digits=digits):.{digits}g}"


def at_most(value: float | None, digits: int = 3) -> str:
    """Rounded down: a maximum such as the β that a budget allows, and the z that a run had, so that an ε computed
    from what is printed is no smaller than that of the run."""
    return NONE if value is None else f"{rounded_down(value, digits=digits):.{digits}g}"


def own_noise(privacy: RunPrivacy) -> str:
    """What the server's figure becomes if the other devices add no noise, where devices add some."""
    prices = [each for each in privacy.get("assumptions", []) if each["name"] == OWN_NOISE]
    return f"; server ε = {epsilon(prices[0])} if the other devices add none" if prices else ""


def outsider_epsilon(privacy: RunPrivacy) -> str:
    """ε against an outsider, who sees less than the server: without a smaller figure of its own, the server's
    applies."""
    return AS_SERVER if server_is_smaller(privacy) else epsilon(privacy["outsider"])


def server_is_smaller(privacy: RunPrivacy) -> bool:
    """Whether the server's figure is the best one known against an outsider."""
    server, outsider = privacy["server"], privacy["outsider"]
    if server["epsilon"] is None or outsider["epsilon"] is None:
        return server["epsilon"] is not None
    return server["epsilon"] < outsider["epsilon"] or (server["valid"] and not outsider["valid"])


def claimed_epsilon(claim: Figure | None) -> str:
    """The paper's ε per round, with a star where its proof does not cover it."""
    if claim is None or claim["epsilon"] is None:
        return NONE
    return f"{at_least(claim['epsilon'], 4)}{'' if claim['valid'] else '*'}"
