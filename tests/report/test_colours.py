"""The report's colours: text and lines can be told from what is behind them."""

import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from pfels.report.looks import INK, OTHERS, SCHEMES, looks
from pfels.schemes.registry import _SCHEMES


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_and_lines_stand_out_from_their_background(mode: str):
    css = resources.files("pfels.report").joinpath("templates", "report.css").read_text("utf-8")
    blocks = re.findall(r":root(?::not\(\.paper\))? \{(.*?)\}", css, re.S)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[0 if mode == "light" else 1]))
    for ground in ("paper", "card"):
        for ink in ("ink", "soft", "link"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)  # WCAG AA for text
        for look in (*SCHEMES.values(), *OTHERS, *looks(["pfels"] * 3 + ["fedavg"] * 3 + ["pfels-echo"] * 3)):
            assert contrast(getattr(look, mode), colours[ground]) >= 3, (look, ground)  # and for graphics
    assert contrast(colours["ink"], colours["warn"]) >= 4.5
    assert colours["ink"] == INK[mode]


def test_a_scheme_has_the_colour_of_the_readmes_picture_in_every_report():
    pictures = Path(__file__).parents[2] / "docs" / "pictures.py"
    assert "SCHEMES[name].light" in pictures.read_text("utf-8")
    own = [name for name, entry in _SCHEMES.items() if isinstance(entry.create, str)]
    assert set(own) == set(SCHEMES)
    assert [look.light for look in looks(own)] == [SCHEMES[name].light for name in own]
    assert len({look.light for look in SCHEMES.values()}) == len({look.dark for look in SCHEMES.values()}) == len(own)


def test_lines_differ_in_dash_or_marker_however_the_groups_are_made_up():
    for schemes in (["pfels"] * 16, ["pfels", "fedavg"] * 8, [*SCHEMES, "mine", "yours", "pfels"]):
        found = looks(schemes)
        assert len({(look.dash, look.symbol) for look in found}) == len(schemes)


def test_groups_of_one_scheme_beside_others_keep_its_hue_and_can_be_told_apart():
    found = looks(["pfels", "fedavg", "pfels", "pfels"])
    assert found[0].light == SCHEMES["pfels"].light
    assert len({look.light for look in found}) == 4


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, from 1 to 21, as WCAG has it."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))
