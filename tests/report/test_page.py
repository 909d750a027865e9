"""The report: what it says of finished, unfinished and damaged runs, and that nothing in a run can break the page."""

import base64
import hashlib
import html
import json
import os
import re
import shutil
from datetime import datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from pfels.documents.report import Report
from pfels.errors import InputError, visible
from pfels.experiment.reader import find
from pfels.privacy.calibration import Budget
from pfels.privacy.events import OWN_NOISE, Adversary
from pfels.report import text as words
from pfels.report.assumptions import assumption_table
from pfels.report.groups import Comparison, comparisons, thinned
from pfels.report.page import _embedded, write_report
from pfels.report.privacy_columns import adversary_columns
from pfels.report.settings import common
from pfels.report.standings import highlights
from pfels.report.tables import comparison_rows
from pfels.runtime.files import printable
from pfels.studies.compare import compare
from tests.conftest import SMALL
from tests.report.page import Page
from tests.report.stored_runs import MARKUP, adopt, damage, finish, folder_of_runs, generate

CARD = re.compile(r"\./[\w%./~-]*model\.privacy\.(md|json)")  # the only links that leave the page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def document(folder: Path) -> Report:
    return write_report([folder])


@pytest.fixture(scope="module")
def compared(folder: Path) -> Comparison:
    return only(folder)


def only(*paths: Path) -> Comparison:
    """The one comparison that the runs in these directories make up."""
    (comparison,), _ = comparisons(find(paths)[0])
    return comparison


@pytest.fixture(scope="module")
def page(document: Report) -> Page:
    return Page(Path(document["report"]))


def test_a_row_is_the_mean_and_spread_of_the_summaries_behind_it(folder: Path, document: Report, page: Page):
    accuracies = [
        json.loads((folder / name / "summary.json").read_text())["accuracy"]
        for name in ("scheme=wfl-pdp,seed=0", "scheme=wfl-pdp,seed=1")
    ]
    rows = {group["label"]: group["row"] for group in document["studies"][0]["groups"]}
    found, std = rows["wfl-pdp"]["accuracy"], np.std(accuracies, ddof=1)
    assert (found["mean"], found["std"]) == (pytest.approx(np.mean(accuracies)), pytest.approx(std))
    assert f"{np.mean(accuracies):.3f} ± {std / np.sqrt(2):.3f}" in page.text


def test_privacy_is_shown_in_words_that_do_not_promise_more_than_the_figure():
    none = {"epsilon": None, "valid": False}
    small, large = {"epsilon": 3.14159, "valid": True}, {"epsilon": 100.5, "valid": True}
    assert [words.epsilon(loss) for loss in (none, small, large)] == ["none", "3.15", "> 100"]
    claims = [{"epsilon": 0.5, "valid": False}, {"epsilon": 0.05, "valid": True}]
    assert [words.claimed_epsilon(claim) for claim in claims] == ["0.5*", "0.05"]
    guessed, known = small | {"valid": False}, large | {"valid": False}
    kinds = [(none, small), (none, none), (small, large), (guessed, large), (guessed, known)]
    shown = ["as server", "none", "3.15", "as server", "3.15"]
    assert [words.outsider_epsilon({"outsider": o, "server": s}) for o, s in kinds] == shown


def test_every_column_of_privacy_figures_names_its_adversary_its_neighbours_and_its_delta(compared: Comparison):
    tables = {table.key: table for table in adversary_columns(compared)}
    assert tables["outsider"].adversary == Adversary.OUTSIDER.sentence
    assert tables["server"].adversary == tables["claimed"].adversary == Adversary.SERVER.sentence
    for table in tables.values():
        for row in table.rows:
            assert row.epsilon in (words.NONE, "none") or (float(row.delta) and row.neighbours in table.relations)


def test_a_guarantee_names_what_it_assumes_and_no_noise_is_no_guarantee(compared: Comparison):
    server = next(table for table in adversary_columns(compared) if table.key == "server")
    verdicts = {row.group.label: row.guarantee for row in server.rows}
    assert verdicts == {"pfels": "yes", "wfl-pdp": "yes", "fedavg": "no", "pfels, seed=2 (unfinished)": "yes"}
    assert server.assumes == (
        "proven, assuming receiver noise ≥ σ₀, exact gains and one antenna (or as set), no eavesdropper, untuned "
        "settings and a secret seed"
    )


def test_noise_added_on_the_devices_rests_on_the_devices(tmp_path: Path):
    server, *_ = adversary_columns(only(finish(tmp_path / "run", scheme="dp-fedavg")))
    assert server.assumes == "proven, assuming every device's share of the noise, untuned settings and a secret seed"


def test_noise_that_other_devices_add_over_the_air_is_named_and_priced(tmp_path: Path):
    compared = only(finish(tmp_path / "run", scheme="artificial-noise"))
    server, *_ = adversary_columns(compared)
    assert server.assumes.endswith("; artificial-noise also assumes that all devices of a round add their noise")
    table = assumption_table(compared.groups)
    assert table is not None
    prices = dict(table.rows)
    assert float(prices[OWN_NOISE][0]) > float(prices["as assumed"][0])


def test_where_only_the_servers_figure_is_known_the_outsiders_tables_agree(compared: Comparison):
    outsider = next(table for table in adversary_columns(compared) if table.key == "outsider")
    shown = {row.group.label: row.epsilon for row in outsider.rows}
    assert shown == {row.group.label: row.outsider for row in comparison_rows(compared)}
    assert shown["pfels"] == words.AS_SERVER


def test_every_column_of_epsilon_is_explained_below_its_table(page: Page):
    delta = "at δ = 0.0333333; neighbours: one device"
    assert f"ε, server: against the server, whole training, worst device of the worst seed, {delta}'s data" in page.text
    assert f"Claimed ε: the paper's own figure, against the server, per round, {delta} is added or removed" in page.text
    assert "Strong: ε ≤ 1; reasonable: ε ≤ 10; weak: above" in page.text
    assert "This is a convention, not a theorem." in page.text
    assert "The convention presumes δ well below 1/N = 0.0333, which δ = 0.0333333 is not" in page.text


def test_epsilons_at_different_deltas_are_not_ranked_and_each_has_its_delta(tmp_path: Path):
    for delta in (1e-5, None):
        finish(tmp_path / f"{delta}", **({} if delta is None else {"privacy__delta": delta}))
    found = only(tmp_path)
    assert [group.label for group in found.groups] == ["pfels, delta=1e-05", "pfels, delta=0.0333333"]
    assert not [card.title for card in highlights(found) if "ε" in card.title]
    server, *_ = adversary_columns(found)
    assert (server.delta, [row.delta for row in server.rows]) == (None, ["1e-05", "0.0333333"])
    page = Page(Path(write_report(tmp_path)["report"]))
    assert (
        "ε, server: against the server, whole training, worst device of the worst seed, at the δ in each" in page.text
    )


def test_seeds_on_one_budget_are_one_row_though_each_has_a_claim_of_its_own(tmp_path: Path):
    budget = Budget(4.0, Adversary.SERVER)
    compare("demo", schemes=["pfels", "pfels-plus"], seeds=[0, 1], overrides=SMALL, out=tmp_path, budget=budget)
    found = only(tmp_path)
    assert {group.label: len(group.runs) for group in found.groups} == {"pfels": 2, "pfels-plus": 2}
    shared = common(found)
    assert shared.tables["privacy"]["epsilon"] == "for a total of 4"
    users = {key: shared.notes[mark - 1] for key, mark in shared.marks.items()}
    assert users["privacy.epsilon"] == users["cohort.sampling"] == "pfels"
    assert users["privacy.total_epsilon"] == "pfels-plus"
    assert "training.clip" not in users


def test_settings_that_a_scheme_does_not_use_set_no_runs_apart(tmp_path: Path):
    for ratio in (0.1, 0.5):
        toml = finish(tmp_path / f"{ratio}", scheme="fedavg") / "config.toml"
        toml.write_text(toml.read_text().replace("ratio = 0.3", f"ratio = {ratio}"))
        adopt(tmp_path / f"{ratio}")
    assert "ratio = 0.1" in (tmp_path / "0.1" / "config.toml").read_text()
    document = write_report(tmp_path)
    assert [group["label"] for group in document["studies"][0]["groups"]] == ["fedavg"]
    assert [copy["run"] for copy in document["copies"]] == [str(tmp_path / "0.5")]


def test_a_mean_of_channel_uses_is_shown_as_a_whole_number(tmp_path: Path):
    for seed in (0, 1, 2):
        finish(tmp_path / f"{seed}", scheme="fedavg", seed=seed, cohort__sampling="poisson")
    found = only(tmp_path)
    (row,) = comparison_rows(found)
    assert found.groups[0].row is not None
    assert float(found.groups[0].row["subcarriers"]) % 1, "the mean happens to be whole; choose other seeds"
    assert re.fullmatch("[0-9,]+", row.channel_uses)
    assert re.fullmatch("[0-9,]+", next(card.value for card in highlights(found) if card.title == "Channel uses"))


def test_an_unfinished_run_is_shown_with_what_it_has(compared: Comparison, document: Report, page: Page):
    unfinished = [group for group in document["studies"][0]["groups"] if not group["finished"]]
    assert [(group["label"], group["rounds"]) for group in unfinished] == [("pfels, seed=2 (unfinished)", 4)]
    assert "unfinished: 4 of 6 rounds" in page.text
    assert any("cut-short" in command and "--resume" in command for command in _commands(document))
    airtime = next(row.airtime for row in comparison_rows(compared) if row.note)
    assert airtime == words.seconds(4 * 0.001)  # a slot of 1 ms per round, however few of its subcarriers are used
    drawn = [trace for trace in page.figures["s1-train-loss"]["data"] if "unfinished" in trace.get("name", "")]
    assert [len(trace["y"]) for trace in drawn] == [4]


def test_a_run_that_has_only_begun_is_still_reported(tmp_path: Path):
    path = finish(tmp_path / "run")
    for name in ("summary.json", "checkpoint.safetensors", "rounds.jsonl"):
        (path / name).unlink()
    document = write_report([path])
    assert document["unfinished"] == [str(path)]
    assert "unfinished: 0 of 6 rounds" in Page(Path(document["report"])).text


def test_a_damaged_run_is_named_with_its_reason_and_the_rest_is_reported(document: Report, page: Page):
    assert document["runs"] == 7
    (damaged,) = document["damaged"]
    assert damaged["run"].endswith("damaged")
    assert "summary.json: not readable as JSON" in damaged["reason"]
    assert damaged["run"] in page.text
    assert damaged["reason"] in page.text


def test_a_directory_name_that_is_markup_is_shown_as_text(page: Page):
    assert MARKUP in page.text
    assert len(page.scripts) == 3
    assert MARKUP not in page.source


def test_settings_that_are_markup_are_shown_as_text(folder: Path, tmp_path: Path):
    evil = "</script><script>window.broken = 1</script>\u2028<!-- \\ ' \" &lt;"
    good = folder / "scheme=pfels,seed=0"
    toml = (good / "config.toml").read_text().replace('name = "digits"', f'name = "file"\npath = {json.dumps(evil)}')
    path = adopt(damage(good, tmp_path / "run", "config.toml", toml.encode()))
    page = Page(Path(write_report([path])["report"]))
    assert len(page.scripts) == 3
    assert evil.replace("\u2028", "\\u2028") in "".join(page.seen)


@pytest.mark.parametrize(
    "text", ["</script>", "<!--<script>", "</SCRIPT\n>", "]]>", "&lt;/script&gt;", "a\u2028b", "\x1b"]
)
def test_no_text_in_the_json_of_the_figures_can_end_its_script_or_begin_another(text: str, tmp_path: Path):
    embedded = _embedded({text: {"data": [{"name": text, "text": [text, 1.5]}], "layout": {"title": {"text": text}}}})
    assert not set("<>&\u2028\u2029\x1b") & set(embedded)
    (tmp_path / "page.html").write_text(f'<script type="application/json">{embedded}</script>')
    shown = visible(text)
    assert Page(tmp_path / "page.html").figures == {
        shown: {"data": [{"name": shown, "text": [shown, 1.5]}], "layout": {"title": {"text": shown}}}
    }


CONTROLS = "\x1b]0;x\x07\x1b[31m\x9b1m\u202eevil\u2066\u2069\u200e\u200f\x7f"


def test_no_control_character_reaches_the_page_the_terminal_or_the_json(tmp_path: Path, pfels: Any):
    """From the name of a directory, a setting, the environment, a reason, and what the log says set β."""
    finish(tmp_path / "source")
    path = generate(tmp_path / "source", tmp_path / "runs" / f"a{CONTROLS}", {})
    toml = (
        (path / "config.toml").read_text().replace('name = "digits"', f'name = "file"\npath = {json.dumps(CONTROLS)}')
    )
    (path / "config.toml").write_text(toml)
    for file, old, new in (
        ("environment.json", '"platform": "', f'"platform": "{json.dumps(CONTROLS)[1:-1]}'),
        ("rounds.jsonl", '"limit": "power"', f'"limit": {json.dumps(CONTROLS)}'),
    ):
        assert old in (path / file).read_text()
        (path / file).write_text((path / file).read_text().replace(old, new))
    adopt(path)
    damage(path, tmp_path / "runs" / f"b{CONTROLS}", "config.toml", f"{json.dumps(CONTROLS)} = 1".encode())
    for form in ((), ("--json",)):
        done = pfels("report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html"), *form)
        assert done.returncode == 0, done.stderr
        assert (done.stdout + done.stderr).replace("\n", "").isprintable()
    assert [run["run"] for run in json.loads(done.stdout)["damaged"]] == [printable(tmp_path / "runs" / f"b{CONTROLS}")]
    shown = (tmp_path / "page.html").read_text()
    without_scripts = re.sub(r"<script>.*?</script>", "", shown, flags=re.DOTALL)
    assert not set(CONTROLS) & set(without_scripts) - set("evilx[]0;31m")
    page = Page(tmp_path / "page.html")
    assert "\\u202eevil" in page.text
    figures = json.dumps(page.figures, ensure_ascii=False)
    assert not set(CONTROLS) & set(figures) - set("evilx[]0;31m")
    for arguments in (("privacy", str(path)), ("privacy", str(path), "--json")):
        done = pfels(*arguments)
        assert (done.stdout + done.stderr).replace("\n", "").isprintable()


def test_a_name_that_is_not_unicode_is_still_reported(tmp_path: Path):
    path = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9"))
    finish(tmp_path / "run").rename(path)
    document = write_report([path], tmp_path / "out.html")
    assert document["runs"] == 1
    assert "caf�" in Page(tmp_path / "out.html").text


def test_the_page_needs_nothing_from_outside(page: Page):
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "data", "poster"} & attributes.keys(), tag
        assert tag != "link"
        assert (attributes.get("href") or "#").startswith("#") or CARD.fullmatch(str(attributes["href"]))


def test_only_the_scripts_of_the_page_may_run(page: Page):
    (policy,) = (str(a["content"]) for a in page.attributes("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    for script in page.scripts[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]


def test_headings_go_down_one_level_at_a_time_and_every_part_is_labelled(page: Page):
    _check_structure(page)


def _check_structure(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        assert (attributes.get("aria-labelledby") or ids[0]) in ids
        assert (address := attributes.get("href") or f"#{ids[0]}")[1:] in ids or CARD.fullmatch(address)
    assert len(page.attributes("caption")) == len(page.attributes("table"))
    assert all(header.get("scope") in ("col", "colgroup", "row") for header in page.attributes("th"))
    plots = [attributes for attributes in page.attributes("div") if attributes.get("class") == "plot"]
    assert {plot["data-figure"] for plot in plots} == page.figures.keys()
    assert all(plot.get("aria-label") for plot in plots)
    assert page.attributes("html") == [{"lang": "en"}]


def test_every_figure_is_one_that_plotly_accepts(page: Page):
    from plotly import graph_objects

    for figure in page.figures.values():
        graph_objects.Figure(data=figure["data"], layout=figure["layout"])


def test_no_two_lines_are_told_apart_by_colour_alone(page: Page):
    lines = page.figures["s1-accuracy"]["data"]
    shapes = {(trace["line"]["dash"], trace["marker"]["symbol"]) for trace in lines}
    assert len(shapes) == len(lines) == 4


def test_schemes_without_energy_are_left_off_the_energy_axis_and_named(page: Page):
    lines = {trace["name"]: trace for trace in page.figures["s1-accuracy"]["data"] if "name" in trace}
    assert "energy" in lines["pfels"]["meta"]["x"]
    assert "energy" not in lines["fedavg"]["meta"]["x"]
    assert "Not drawn against energy, because ideal links have no energy figure: fedavg." in page.text


def test_without_any_energy_there_is_no_energy_axis(folder: Path, tmp_path: Path):
    page = Page(Path(write_report([folder / "scheme=fedavg,seed=0"], tmp_path / "out.html")["report"]))
    assert "There is no energy axis" in page.text
    assert [a["value"] for a in page.attributes("input")] == ["rounds", "subcarriers"]


def test_a_band_contains_the_line_and_every_seed(compared: Comparison):
    group = compared.groups[0]
    curve = group.curve("train_loss")
    assert curve is not None
    for run in group.runs:
        assert np.all((curve.minimum <= run.columns["train_loss"]) & (run.columns["train_loss"] <= curve.maximum))
    assert np.all((curve.minimum <= curve.mean) & (curve.mean <= curve.maximum))
    assert curve.spent["energy"][-1] == pytest.approx(np.mean([run.summary["energy"] for run in group.runs]))


@pytest.mark.parametrize("count", [1, 2, 399, 400, 401, 5000])
def test_long_series_are_thinned_to_their_limit_and_keep_both_ends(count: int):
    at = thinned(count, limit=400)
    assert len(at) == len(set(at.tolist())) == min(count, 400)
    assert (at[0], at[-1]) == (0, count - 1)


def test_the_same_runs_give_the_same_page_to_the_byte(folder: Path, tmp_path: Path):
    """Also if one of them is named twice, except for the line that says which directories the page is about."""
    pages = [tmp_path / f"{name}.html" for name in "abc"]
    for page, more in zip(pages, ([], [], [folder / "scheme=pfels,seed=0"]), strict=True):
        write_report([folder, *more], page)
    first, second, third = (page.read_text("utf-8") for page in pages)
    assert first == second
    about = re.compile('<meta name="pfels-runs" content="[^"]*">')
    assert about.sub("", first) == about.sub("", third)
    assert not list(tmp_path.glob(".*"))


def test_the_page_has_the_dates_of_its_files_and_the_versions_behind_it(tmp_path: Path):
    for name, day in (("a", "2024-02-29"), ("b", "2025-12-31")):
        path = finish(tmp_path / name, seed=0 if name == "a" else 1)
        noon = datetime.fromisoformat(f"{day}T12:00+00:00").timestamp()
        os.utime(path / "summary.json", (noon, noon))
        environment = json.loads((path / "environment.json").read_text())
        environment["versions"]["pfels"] = "0.0.7"
        (path / "environment.json").write_text(json.dumps(environment))
    page = Page(Path(write_report(tmp_path)["report"]))
    assert "Files of 2024-02-29 to 2025-12-31 (UTC), made with pfels 0.0.7." in page.text
    assert f"Written by pfels {version('pfels')}." in page.text


def test_a_copy_of_a_run_is_counted_once_and_named(folder: Path, tmp_path: Path):
    shutil.copytree(folder / "scheme=pfels,seed=0", tmp_path / "copy")
    document = write_report([folder / "scheme=pfels,seed=0", tmp_path / "copy"], tmp_path / "out.html")
    assert document["runs"] == 1
    assert [copy["run"] for copy in document["copies"]] == [str(tmp_path / "copy")]


def test_runs_on_other_data_or_networks_have_a_table_of_their_own(folder: Path, tmp_path: Path):
    other = finish(tmp_path / "other", model__hidden=4)
    document = write_report([folder / "scheme=pfels,seed=0", other], tmp_path / "out.html")
    assert [len(study["groups"]) for study in document["studies"]] == [1, 1]
    _check_structure(Page(tmp_path / "out.html"))


def test_the_command_prints_the_page_and_names_what_it_left_out(pfels: Any, folder: Path, tmp_path: Path):
    done = pfels("report", str(folder), "--out", "deep/page.html")
    assert (done.returncode, done.stdout) == (0, "deep/page.html\n")
    assert re.fullmatch(r"left out: \S*damaged: summary.json: not readable as JSON .*\n", done.stderr)
    assert (tmp_path / "deep" / "page.html").stat().st_size < 8e6


@pytest.mark.parametrize(
    "arguments", [["nowhere"], ["."], ["damaged"], ["good", "--out", "good"], ["good", "--out", "good/log"]]
)
def test_nothing_to_report_is_one_line_and_exit_code_2(here: Any, folder: Path, tmp_path: Path, arguments: list[str]):
    if arguments == ["damaged"]:
        shutil.copytree(folder / "damaged", tmp_path / "damaged")
    if arguments[0] == "good":
        shutil.copytree(folder / "scheme=pfels,seed=0", tmp_path / "good")
    code, out, err = here("report", *arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: .+\n", err)
    assert not list(tmp_path.rglob("report.html"))


def test_a_page_that_cannot_be_written_leaves_the_old_one_alone(folder: Path, tmp_path: Path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(InputError, match="cannot be written"):
        write_report([folder], tmp_path / "file" / "report.html")
    assert (tmp_path / "file").read_text() == "here"


def _commands(document: Report) -> list[str]:
    return [command for study in document["studies"] for command in study["run_commands"]]


def test_every_scheme_can_be_reported(scheme: str, tmp_path: Path):
    document = write_report([finish(tmp_path / "run", scheme=scheme)])
    _check_structure(Page(Path(document["report"])))


def test_the_cards_of_finished_runs_are_linked_where_they_are(folder: Path, document: Report, page: Page):
    cards = document["studies"][0]["cards"]
    assert len(cards) == 2 * 6
    assert all(Path(card).is_file() for card in cards)
    addresses = re.findall(r'href="(\./[^"]*model\.privacy\.(?:md|json))"', page.source)
    assert len(addresses) == len(cards)
    assert {(folder / unquote(html.unescape(each))).resolve() for each in addresses} == {
        Path(card).resolve() for card in cards
    }


@pytest.mark.parametrize(
    ("name", "edit", "reason"),
    [
        ("model.privacy.json", lambda text: re.sub('"epsilon": [0-9.]+', '"epsilon": 0.5', text), "not of this run"),
        ("model.privacy.json", lambda text: re.sub('"accuracy": [0-9.]+', '"accuracy": 0.99', text), "not of this run"),
        ("model.privacy.json", lambda text: re.sub("sha256:[0-9a-f]", "sha256:x", text), "not of this run"),
        ("model.privacy.json", lambda text: text.replace("checkpoint.safetensors", "../x"), "must be checkpoint"),
        ("model.privacy.json", lambda text: "[" * 100_000, "not readable as JSON"),
        ("model.privacy.json", lambda text: text.replace('"format": 1', '"format": "1"'), "format"),
        ("model.privacy.md", lambda text: text.replace("ε = ", "ε = 0."), "is not the page of"),
        ("model.privacy.md", lambda text: text + "<script>x</script>", "is not the page of"),
    ],
)
def test_a_card_that_is_not_of_its_run_is_not_linked(folder: Path, tmp_path: Path, name: str, edit: Any, reason: str):
    run = tmp_path / "runs" / "a"
    shutil.copytree(folder / "scheme=wfl-pdp,seed=0", run)
    (run / name).write_text(edit((run / name).read_text("utf-8")), "utf-8")
    found = write_report(tmp_path / "runs")
    (line,) = re.findall(r"<strong>not linked: (.*?)</strong>", Path(found["report"]).read_text("utf-8"))
    assert reason in line
    assert f"runs/a/{name}" not in str(found["studies"][0]["cards"])


def test_a_run_without_a_card_and_one_with_an_audit_since_are_no_fault(folder: Path, tmp_path: Path):
    run = tmp_path / "a"
    shutil.copytree(folder / "scheme=wfl-pdp,seed=0", run)
    found = write_report(run)
    cards = found["studies"][0]["cards"]
    claimed = {"epsilon": 1.0, "delta": 0.1, "adversary": "server", "neighbours": "device-emptied"}
    audit = {"scheme": "wfl-pdp", "seeds": [0], "rounds": 6, "devices": 30, "canaries": 20, "claimed": claimed}
    (run / "audit.json").write_text(json.dumps(audit | {"rejected": False, "rejected_by": []}))
    assert write_report(run)["studies"][0]["cards"] == cards
    for card in cards:
        Path(card).unlink()
    found = write_report(run)
    assert found["studies"][0]["cards"] == []
    assert "Privacy cards" not in Path(found["report"]).read_text("utf-8")
