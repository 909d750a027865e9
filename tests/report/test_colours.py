"""The report's colours: text and lines can be told from what is behind them."""

import re
from importlib import resources

import numpy as np
import pytest


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_and_lines_stand_out_from_their_background(mode: str):
    css = resources.files("pfels.report").joinpath("templates", "report.css").read_text("utf-8")
    blocks = re.findall(r":root \{(.*?)\}", css, re.S)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[0 if mode == "light" else 1]))
    for ground in ("paper", "card"):
        for ink in ("ink", "soft", "link"):
            assert _contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)  # WCAG AA for text
        for line in range(8):
            assert _contrast(colours[f"c{line}"], colours[ground]) >= 3, (line, ground)  # and for graphics
    assert _contrast(colours["ink"], colours["warn"]) >= 4.5


def _contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))
