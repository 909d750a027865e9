"""The sentence on top and the tiles: only what can be compared is, and chance decides nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from pfels.experiment.reader import find
from pfels.report.findings import finding
from pfels.report.groups import Comparison, comparisons
from pfels.report.page import write_report
from pfels.report.privacy_words import delta_note, word
from pfels.report.standings import Highlight, highlights
from pfels.schemes.registry import scheme_entry, scheme_names
from tests.report.page import Page
from tests.report.stored_runs import finish, generate, interrupt


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One finished run of each scheme, to make up others from."""
    folder = tmp_path_factory.mktemp("one-each")
    return {scheme: finish(folder / scheme, scheme=scheme) for scheme in ("pfels", "wfl-pdp", "pfels-plus", "fedavg")}


@pytest.fixture
def made(runs: dict[str, Path], tmp_path: Path) -> Any:
    """Makes up runs of a scheme with these accuracies, one per seed, and other figures alike; gives the comparison."""

    def make(accuracies: dict[str, list[float]], **figures: dict[str, Any]) -> Comparison:
        for name, values in accuracies.items():
            for seed, accuracy in enumerate(values):
                own = {"chance": 0.1, "test_examples": 1000, "accuracy": accuracy, **figures.get(name, {})}
                settings = {"seed": seed, "rounds": own.pop("rounds", 6)}
                generate(runs[name], tmp_path / f"{name}-{seed}", settings, **own)
        (comparison,), _ = comparisons(find([tmp_path])[0])
        return comparison

    return make


def tiles(comparison: Comparison) -> dict[str, Highlight]:
    return {card.title: card for card in highlights(comparison)}


def test_the_best_is_named_with_its_cost_where_the_difference_is_beyond_two_standard_errors(made: Any):
    found = made({"pfels": [0.90, 0.91, 0.92], "wfl-pdp": [0.80, 0.81, 0.83]}, pfels={"subcarriers": 4321})
    said = finding(found)
    assert said.startswith("pfels has the highest test accuracy of the 2 schemes with a privacy guarantee")
    assert "0.910 ± 0.006, by more than two standard errors" in said
    assert "J radiated and 4,321 channel uses" in said
    assert tiles(found)["Highest test accuracy"].who == "pfels"
    assert not any("undecided" in note for note in tiles(found)["Highest test accuracy"].notes)


def test_a_difference_within_two_standard_errors_is_undecided_in_sentence_and_tile(made: Any):
    found = made({"pfels": [0.90, 0.80, 0.91], "wfl-pdp": [0.80, 0.90, 0.80]})
    assert finding(found).startswith("Undecided: all of the 2 schemes")
    assert "undecided against wfl-pdp" in tiles(found)["Highest test accuracy"].notes


def test_of_several_leaders_the_cheapest_are_named(made: Any):
    accuracies = {"pfels": [0.90, 0.80, 0.91], "pfels-plus": [0.80, 0.90, 0.80], "wfl-pdp": [0.5, 0.5, 0.5]}
    found = made(accuracies, pfels={"energy": 100.0, "subcarriers": 10}, **{"pfels-plus": {"energy": 5.0}})
    said = finding(found)
    assert "are those of pfels (0.870 ± 0.035) and pfels-plus (0.833 ± 0.033), undecided between them" in said
    assert "of these pfels-plus radiates the least energy" in said
    assert "pfels has the fewest channel uses, 10" in said
    assert "wfl-pdp" not in said


def test_of_many_leaders_only_the_best_is_named(runs: dict[str, Path], tmp_path: Path):
    for i in range(7):
        for seed in (0, 1):
            accuracy = 0.2 if i == 6 else 0.8 + (-0.01 if seed else 0.012) * i  # the means rise by 0.001
            own = {"chance": 0.1, "test_examples": 1000, "accuracy": accuracy}
            generate(runs["pfels"], tmp_path / f"{i}-{seed}", {"training.clip": 1.0 + i, "seed": seed}, **own)
    (found,), _ = comparisons(find([tmp_path])[0])
    said = finding(found)
    assert "of the 7 configurations with a privacy guarantee against the server, undecided against 5 others, is" in said
    assert "is that of pfels, clip=6 (0.805 ± 0.055); it took " in said


def test_one_seed_decides_nothing(made: Any):
    found = made({"pfels": [0.95], "wfl-pdp": [0.35]})
    assert finding(found).startswith("Undecided, since one seed cannot tell a difference from chance")
    assert "undecided against wfl-pdp" in tiles(found)["Highest test accuracy"].notes


def test_schemes_without_a_guarantee_stand_apart(made: Any):
    found = made({"pfels": [0.8, 0.8], "wfl-pdp": [0.7, 0.71], "fedavg": [0.97, 0.98]})
    said = finding(found)
    assert said.startswith("pfels has the highest test accuracy of the 2 schemes with a privacy guarantee")
    assert said.endswith("without such a guarantee fedavg reaches 0.975 ± 0.005.")
    assert tiles(found)["Highest test accuracy"].who == "fedavg"
    assert tiles(found)["Highest test accuracy over the air"].who == "pfels"


def test_a_run_at_chance_level_wins_nothing(made: Any):
    cheap = {"energy": 1e-9, "subcarriers": 1}
    found = made({"pfels": [0.9, 0.91], "wfl-pdp": [0.8, 0.8], "pfels-plus": [0.11, 0.1]}, **{"pfels-plus": cheap})
    assert {card.who for card in tiles(found).values()} <= {"pfels", "wfl-pdp", "pfels and wfl-pdp"}
    assert "pfels-plus" not in finding(found)


def test_chance_is_the_most_frequent_class_and_two_standard_errors_of_the_test_examples(made: Any, tmp_path: Path):
    error = (0.3 * 0.7 / 1000) ** 0.5
    at, above = 0.328, 0.329  # accuracies of 1,000 examples
    assert at < 0.3 + 2 * error < above
    found = made({"pfels": [at], "wfl-pdp": [above]}, pfels={"chance": 0.3}, **{"wfl-pdp": {"chance": 0.3}})
    assert finding(found).startswith("wfl-pdp reached")
    summary = json.loads((finish(tmp_path / "real") / "summary.json").read_text())
    assert (summary["chance"], summary["test_examples"]) == (pytest.approx(44 / 360), 360)  # of 36 to 44 of each digit


def test_runs_of_earlier_versions_are_held_against_one_over_the_classes(runs: dict[str, Path], tmp_path: Path):
    for name, accuracy in (("pfels", 0.1), ("wfl-pdp", 0.11)):
        summary = generate(runs[name], tmp_path / name, {}, accuracy=accuracy) / "summary.json"
        content = json.loads(summary.read_text())
        del content["chance"], content["test_examples"]
        summary.write_text(json.dumps(content))
    (found,), _ = comparisons(find([tmp_path])[0])
    assert finding(found).startswith("wfl-pdp reached")


def test_runs_of_other_lengths_are_not_compared_and_named(made: Any, tmp_path: Path):
    accuracies = {"pfels": [0.7, 0.72], "wfl-pdp": [0.6, 0.6], "pfels-plus": [0.99, 0.99]}
    found = made(accuracies, **{"pfels-plus": {"rounds": 60}})
    assert tiles(found)["Highest test accuracy"].who == "pfels"
    assert "pfels-plus" not in finding(found)
    page = Page(Path(write_report(tmp_path, tmp_path / "page.html")["report"]))
    assert "pfels-plus (60 rounds, not 6)" in page.text


def test_a_single_run_has_a_sentence_and_tiles_without_superlatives(made: Any):
    found = made({"pfels": [0.8]})
    assert finding(found).startswith("pfels reached a test accuracy of 0.800 in 6 rounds, for ")
    assert "at δ = 0.0333333 (neighbours: device-emptied), is" in finding(found)
    assert list(tiles(found)) == ["Test accuracy", "ε against the server", "Energy radiated", "Channel uses"]


def test_where_nothing_was_learned_or_finished_the_sentence_says_so(made: Any, tmp_path: Path):
    assert finding(made({"pfels": [0.1], "wfl-pdp": [0.09]})).startswith("No run has learned anything: pfels and wfl-")
    (cut,), _ = comparisons(find([interrupt(tmp_path / "elsewhere", after=2)])[0])
    assert finding(cut) == "No run is finished, so there is nothing to compare yet."


def test_the_finding_is_on_the_page_and_in_the_document(made: Any, tmp_path: Path):
    made({"pfels": [0.9, 0.91], "wfl-pdp": [0.8, 0.81]})
    document = write_report(tmp_path)
    page = Page(Path(document["report"]))
    assert document["studies"][0]["finding"] in page.text
    assert "Every difference in accuracy is above two standard errors of the paired differences" in page.text


def test_energy_is_shown_in_joules_by_the_units_of_the_run(runs: dict[str, Path], tmp_path: Path):
    summary = json.loads((runs["pfels"] / "summary.json").read_text())
    (found,), _ = comparisons(find([runs["pfels"]])[0])
    joules = summary["energy"] * found.groups[0].joules_per_energy
    assert joules == pytest.approx(summary["radiated_j"], rel=1e-12)


def test_words_for_epsilon_name_delta_and_change_only_at_the_steps():
    words = [word(epsilon) for epsilon in (0.99, 1.0, 1.01, 10.0, 10.01, 100.0, 100.1, None)]
    assert words == ["strong"] * 2 + ["reasonable"] * 2 + ["weak"] * 2 + ["too large to be useful", "no guarantee"]
    assert delta_note(delta=1e-5, devices=100) == ""
    assert "δ = 0.01 is not" in delta_note(delta=0.01, devices=100)


def test_every_scheme_of_the_package_says_in_a_line_what_it_is(runs: dict[str, Path], tmp_path: Path):
    lines = {name: scheme_entry(name).about for name in scheme_names()}
    own = {name: line for name, line in lines.items() if isinstance(scheme_entry(name).create, str)}
    assert len(own) >= 10
    assert all(20 <= len(line) <= 120 and line.endswith(".") for line in own.values())
    page = Page(Path(write_report([runs["pfels"], runs["fedavg"]], tmp_path / "page.html")["report"]))
    assert lines["pfels"] in page.text
    assert lines["fedavg"] in page.text
    assert lines["wfl-p"] not in page.text
