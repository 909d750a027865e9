"""How the lines of a group look: one colour, dash and marker per scheme, the same in every report and picture."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

INK = {"light": "#1d2228", "dark": "#e8e9ea"}
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "triangle-down")


@dataclass(frozen=True)
class Look:
    """Colours on a light and on a dark page, and plotly's names of a dash and a marker."""

    light: str
    dark: str
    dash: str
    symbol: str


SCHEMES = {
    "fedavg": Look("#555555", "#b4b4b4", "dot", "circle"),
    "dp-fedavg": Look("#8c6d31", "#c9a45c", "dashdot", "triangle-down"),
    "pfels-echo": Look("#b07a00", "#f0b429", "solid", "star"),
    "pfels-plus": Look("#7d3c98", "#c58be0", "solid", "cross"),
    "pfels": Look("#c0392b", "#ff7a6b", "longdash", "square"),
    "wfl-pdp": Look("#1f6fb4", "#6cb4f4", "dash", "triangle-up"),
    "wfl-p": Look("#2c8a4b", "#5fc584", "dashdot", "diamond"),
    "liu-simeone": Look("#12879a", "#4fc9dd", "dot", "triangle-left"),
    "truncated-inversion": Look("#d455ad", "#f29bd4", "dash", "triangle-right"),
    "artificial-noise": Look("#858585", "#9aa0a8", "solid", "x"),
}
# For schemes of other packages, and for the groups of a single scheme.
OTHERS = tuple(
    Look(light, dark, dash, symbol)
    for (light, dark), dash, symbol in zip(
        (
            ("#0a62ab", "#6cb4f4"), ("#bf4109", "#ff9a66"), ("#0b7a55", "#4fd0a0"), ("#8a3d9c", "#d5a3ee"),
            ("#8a6100", "#e6c04e"), ("#4a5058", "#bcc2cb"), ("#07738c", "#5dcfe2"), ("#b0184c", "#ff8fb2"),
        ),
        itertools.cycle(DASHES),
        SYMBOLS,
        strict=False,
    )
)  # fmt: skip
DARKEST = 0.45  # share of ink in the last of several groups of one scheme


def looks(schemes: Sequence[str]) -> list[Look]:
    """The looks of groups, given their schemes. No two share dash and marker while there are unused pairs of them.

    A scheme's first group has its own colour, further ones have more and more of the page's ink in it. Where there is
    one scheme with several groups, each has a colour of its own.

    >>> [look.light for look in looks(["pfels", "fedavg", "pfels"])]
    ['#c0392b', '#555555', '#772f2a']
    """
    names = list(dict.fromkeys(schemes))
    strangers = [name for name in names if name not in SCHEMES]
    own = SCHEMES | {name: OTHERS[i % len(OTHERS)] for i, name in enumerate(strangers)}
    taken: set[tuple[str, str]] = set()
    found = []
    for i, name in enumerate(schemes):
        nth, of = schemes[:i].count(name), schemes.count(name)
        alone = len(names) == 1 and of > 1
        look = OTHERS[i % len(OTHERS)] if alone else _inked(own[name], DARKEST * nth / max(of - 1, 1))
        free = next((pair for pair in _pairs(look) if pair not in taken), (look.dash, look.symbol))
        taken.add(free)
        found.append(replace(look, dash=free[0], symbol=free[1]))
    return found


def _pairs(look: Look) -> list[tuple[str, str]]:
    """The look's own dash and marker, and then all others."""
    return [(look.dash, look.symbol), *((dash, symbol) for symbol in SYMBOLS for dash in DASHES)]


def _inked(look: Look, share: float) -> Look:
    return replace(look, light=_mixed(look.light, INK["light"], share), dark=_mixed(look.dark, INK["dark"], share))


def _mixed(colour: str, ink: str, share: float) -> str:
    parts = [(int(colour[i : i + 2], 16), int(ink[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round((1 - share) * own + share * other):02x}" for own, other in parts)
