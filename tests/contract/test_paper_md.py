"""paper.md has the figures of docs/results, and cites only what paper.bib has."""

import csv
import math
import re
from pathlib import Path

import pytest

from pfels.studies.published import published

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "paper.md").read_text("utf-8")
COLUMNS = ("tuned-fashion-server-8", "tuned-mnist-writers-server-8", "tuned-cifar10-features-server-8")
ROWS = re.findall(r"^\| ([\w-]+)(?: \(no privacy\))? \| (.+?) \| (.+?) \| (.+?) \|$", TEXT, re.M)


@pytest.mark.parametrize("column", range(3))
def test_its_accuracies_are_those_of_the_results(column: int):
    with (ROOT / "docs" / "results" / f"{COLUMNS[column]}.csv").open(encoding="utf-8") as file:
        found = {row["scheme"]: row for row in csv.DictReader(file)}
    assert [row[0] for row in ROWS[1:]] == ["pfels", "wfl-pdp", "pfels-plus", "pfels-echo", "fedavg"]
    for scheme, *cells in ROWS[1:]:
        mean, std = float(found[scheme]["accuracy.mean"]), float(found[scheme]["accuracy.std"])
        assert cells[column] == f"{mean:.3f} ± {std / math.sqrt(5):.3f}"
        if scheme != "fedavg":
            assert float(found[scheme]["privacy.server.epsilon"]) <= 8


def test_its_privacy_figure_is_the_published_one():
    (exact,) = [each["value"] for each in published()["figures"] if each["name"] == "exact ε of a claimed ε = 1.5"]
    assert f"is\n{math.ceil(exact * 100) / 100:.2f} for one round" in TEXT


def test_it_cites_what_the_bibliography_has_and_nothing_else():
    cited = set(re.findall(r"@([a-z]+\d*[a-z]+)\b", TEXT.split("# Summary")[1]))
    known = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "paper.bib").read_text("utf-8"), re.M))
    assert cited == known
