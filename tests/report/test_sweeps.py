"""Accuracy against the setting that was swept; and rounds as the records count them."""

import json
from pathlib import Path

import pytest

from pfels.experiment.reader import find
from pfels.report.groups import Comparison, comparisons
from pfels.report.page import write_report
from pfels.report.sweeps import sweeps
from tests.report.page import Page
from tests.report.stored_runs import finish, generate


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish(tmp_path_factory.mktemp("source") / "run")


def compared(path: Path) -> Comparison:
    (comparison,), _ = comparisons(find([path])[0])
    return comparison


def test_a_line_goes_through_the_groups_that_differ_in_the_swept_setting_alone(source: Path, tmp_path: Path):
    for ratio in (1.0, 0.1, 0.3):
        for clip in (1.0, 2.0):
            for seed, extra in ((0, 0.0), (1, 0.04)):
                settings = {"compression.ratio": ratio, "training.clip": clip, "seed": seed}
                accuracy = ratio / 2 + clip / 10 + extra
                generate(source, tmp_path / f"{ratio}-{clip}-{seed}", settings, accuracy=accuracy)
    found = {sweep.key: sweep for sweep in sweeps(compared(tmp_path))}
    assert set(found) == {"compression.ratio", "training.clip"}
    ratio = found["compression.ratio"]
    assert [line.label for line in ratio.lines] == ["pfels, clip=2", "pfels, clip=1"]  # the most accurate first
    best = ratio.lines[0]
    assert [point.value for point in best.points] == [0.1, 0.3, 1.0]
    assert [point.accuracy for point in best.points] == pytest.approx([0.27, 0.37, 0.72])
    assert [point.error for point in best.points] == pytest.approx([0.02] * 3)  # 0.04/√2/√2
    assert ratio.cells(best) == ["0.270 ± 0.020", "0.370 ± 0.020", "0.720 ± 0.020"]
    page = Page(Path(write_report(tmp_path)["report"]))
    assert "Test accuracy against compression.ratio" in page.text
    place = f"s1-sweep-{list(found).index('compression.ratio')}"
    trace = page.figures[place]["data"][0]
    assert (trace["x"], trace["y"]) == ([0.1, 0.3, 1], pytest.approx([0.27, 0.37, 0.72]))
    assert trace["error_y"]["array"] == pytest.approx([0.02] * 3, rel=1e-5)


def test_a_setting_that_is_a_word_is_swept_too(source: Path, tmp_path: Path):
    for sampling in ("poisson", "without-replacement"):
        generate(source, tmp_path / sampling, {"cohort.sampling": sampling})
    (sweep,) = sweeps(compared(tmp_path))
    assert (sweep.key, sweep.numeric, sweep.values) == ("cohort.sampling", False, ["poisson", "without-replacement"])


def test_schemes_with_a_setting_of_their_own_each_are_no_sweep(tmp_path: Path):
    finish(tmp_path / "a", scheme="pfels", training__learning_rate=0.1)
    finish(tmp_path / "b", scheme="wfl-pdp", training__learning_rate=0.2)
    assert sweeps(compared(tmp_path)) == []
    assert "Swept settings" not in Page(Path(write_report(tmp_path)["report"])).text


def test_a_wide_range_of_positive_values_has_a_logarithmic_axis(source: Path, tmp_path: Path):
    for clip in (0.01, 0.1, 1.0):
        generate(source, tmp_path / f"{clip}", {"training.clip": clip})
    write_report(tmp_path)
    figure = Page(tmp_path / "report.html").figures["s1-sweep-0"]
    assert figure["layout"]["xaxis"]["type"] == "log"
    assert figure["data"][0]["x"] == [0.01, 0.1, 1]


def test_rounds_on_the_page_are_those_of_the_records(source: Path, tmp_path: Path):
    records = [json.loads(line) for line in (source / "rounds.jsonl").read_text().splitlines()]
    page = Page(Path(write_report(source, tmp_path / "page.html")["report"]))
    (accuracy,), (loss,) = (page.figures[f"s1-{name}"]["data"] for name in ("accuracy", "train-loss"))
    assert loss["meta"]["x"]["rounds"] == [record["round"] for record in records] == list(range(6))
    evaluated = [record["round"] for record in records if record["test_accuracy"] is not None]
    assert accuracy["meta"]["x"]["rounds"] == evaluated
    for figure in page.figures.values():
        for trace in figure["data"]:
            if figure["layout"]["xaxis"]["title"]["text"].startswith("round") and "x" in trace:
                assert set(trace["x"]) <= set(range(6))
