"""Many runs and long runs: the page stays small and quick to make, and says what it does not draw."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfels.report.page import write_report
from pfels.report.plots import POINTS
from pfels.report.sections import MAX_DRAWN, MAX_ROWS
from tests.report.page import Page
from tests.report.stored_runs import finish, generate, many_runs

LIBRARY = 5e6  # plotly.js alone has 4.8 MB
SECONDS = 8.0  # of processor time; it takes 2 s


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Page, float]:
    """200 runs, each with settings of its own, and how long their report took."""
    folder = many_runs(tmp_path_factory.mktemp("many"), count=200, rounds=100)
    began = time.process_time()
    report = write_report(folder)
    return Page(Path(report["report"])), time.process_time() - began


def test_a_page_of_200_runs_is_small_and_quick_to_make(many: tuple[Page, float]):
    page, seconds = many
    assert len(page.source.encode()) < LIBRARY + 1.5e6
    assert len(page.elements) < 20_000
    assert seconds < SECONDS


def test_of_many_groups_the_most_accurate_are_drawn_and_the_page_says_so(many: tuple[Page, float]):
    page, _ = many
    names = [trace["name"] for trace in page.figures["s1-accuracy"]["data"]]
    assert len(names) == MAX_DRAWN
    assert set(names) == {f"pfels, clip={1 + i / 100:g}" for i in range(200 - MAX_DRAWN, 200)}
    assert f"Drawn are the {MAX_DRAWN} most accurate; {200 - MAX_DRAWN} more are in the tables only." in page.text
    points = sum(len(trace["y"]) for trace in page.figures["s1-train-loss"]["data"])
    assert points <= POINTS


def test_long_tables_are_folded_with_the_most_accurate_in_sight(many: tuple[Page, float]):
    page, _ = many
    assert f"What the {MAX_ROWS} most accurate of 200 reached and used" in page.text
    assert f"The other {200 - MAX_ROWS}" in page.text
    for words in ("ε by adversary", "β by scheme", "How the energy is spread", "Settings that differ"):
        assert f"{words} (200 rows)" in page.text
    assert all(f"clip={1 + i / 100:g}" in page.text for i in range(200))


def test_20_000_rounds_are_thinned_to_the_same_points_every_time(tmp_path: Path):
    source = finish(tmp_path / "source")
    for seed in (0, 1):
        generate(source, tmp_path / "runs" / f"{seed}", {"rounds": 20_000, "seed": seed, "run.eval_every": 3})
    began = time.process_time()
    page = Page(Path(write_report(tmp_path / "runs")["report"]))
    assert time.process_time() - began < SECONDS
    assert len(page.source.encode()) < LIBRARY + 0.3e6
    (trace,) = page.figures["s1-train-loss"]["data"]
    rounds = trace["meta"]["x"]["rounds"]
    assert len(rounds) == 400
    assert (rounds[0], rounds[-1]) == (0, 19_999)
    steps = np.diff(rounds)
    assert set(steps.tolist()) <= {50, 51}
    again = Page(Path(write_report(tmp_path / "runs", tmp_path / "again.html")["report"]))
    assert again.figures == page.figures


def test_200_seeds_are_one_row_and_named_as_a_range(tmp_path: Path):
    source = finish(tmp_path / "source")
    for seed in range(200):
        generate(source, tmp_path / "runs" / f"{seed}", {"seed": seed})
    document: Any = write_report(tmp_path / "runs")
    page = Page(Path(document["report"]))
    assert [len(group["seeds"]) for group in document["studies"][0]["groups"]] == [200]
    assert "200 runs, seeds 0 to 199." in page.text
    assert len(page.source.encode()) < LIBRARY + 0.3e6
