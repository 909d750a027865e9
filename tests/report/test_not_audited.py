"""A scheme from outside the package is called not audited wherever its figures stand; those of the package are not."""

import json
from pathlib import Path
from typing import Any

import pytest

from pfels.schemes import registry

TINY = [word for each in ("rounds=4", "data.devices=30", "cohort.size=8", "model.hidden=8") for word in ("-s", each)]
MINE, OWN = [*TINY, "-s", "scheme=mine"], [*TINY, "-s", "scheme=wfl-pdp"]
WHY = "from outside pfels"


@pytest.fixture(autouse=True)
def _foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """wfl-pdp under a name of its own, as a user's module would register it."""
    monkeypatch.setitem(registry._SCHEMES, "mine", registry._SCHEMES["wfl-pdp"])


def told(done: tuple[Any, str, str]) -> str:
    code, out, _ = done
    assert code == 0, done
    return " ".join(out.split())


def test_it_is_said_by_every_command(here: Any):
    assert f"NOT AUDITED: mine, {WHY}" in told(here("run", "demo", *MINE, "--out", "run"))
    assert f"NOT AUDITED: mine, {WHY}" in told(here("run", "demo", *MINE, "--out", "run"))  # read
    assert f"NOT AUDITED: the scheme is {WHY}" in told(here("privacy", "demo", *MINE))
    assert f"NOT AUDITED: the scheme is {WHY}" in told(here("privacy", "run"))
    assert f"NOT AUDITED: mine, {WHY}" in told(here("plan", "demo", *TINY, "--schemes", "mine,wfl-pdp"))
    schemes = ["--schemes", "mine,wfl-pdp", "--seeds", "0", "--out", "c"]
    assert f"NOT AUDITED: mine, {WHY}" in told(here("compare", "demo", *TINY, *schemes))
    grid = ["-g", "scheme=mine,wfl-pdp", "--out", "s"]
    assert f"NOT AUDITED (mine): the scheme is {WHY}" in told(here("sweep", "demo", *TINY, *grid))
    for words in (["run", "demo", *MINE, "--out", "run"], ["privacy", "demo", *MINE], ["privacy", "run"]):
        document = json.loads(told(here(*words, "--json")))
        assert document.get("privacy", document)["audited"] is False


def test_no_line_calls_its_figures_proven_or_valid(here: Any):
    _, out, err = here("run", "demo", *MINE, "--out", "run")
    assert "proven" not in out
    assert "for schemes of pfels proven" in err
    assert " yes" not in told(here("privacy", "run")).partition("claimed per round:")[0]


def test_nothing_is_said_of_a_scheme_of_the_package(here: Any):
    for words in (["run", "demo", *OWN, "--out", "own"], ["privacy", "demo", *OWN], ["privacy", "own"]):
        assert "audited" not in told(here(*words)).lower()
    assert "audited" not in json.loads(told(here("run", "demo", *OWN, "--out", "own", "--json")))["privacy"]


def test_the_report_says_it_in_the_finding_the_tile_and_the_table(here: Any):
    more = ["-s", "rounds=60", "-s", "model.hidden=32", "-s", "training.learning_rate=0.2"]
    told(here("run", "demo", *MINE, *more, "--out", "runs/a"))
    told(here("run", "demo", *OWN, *more, "--out", "runs/b"))
    told(here("report", "runs", "--json"))
    page = Path("runs/report.html").read_text("utf-8")
    assert "not audited, so that nothing vouches for its figures: mine" in page
    assert page.count('<span class="note">not audited</span>') >= 1
    told(here("report", "runs/b", "--out", "b.html"))
    assert "not audited" not in Path("b.html").read_text("utf-8")


def test_a_run_from_before_the_field_is_called_so_too(here: Any):
    told(here("run", "demo", *MINE, "--out", "run"))
    kept = json.loads(Path("run/summary.json").read_text())
    del kept["privacy"]["audited"]
    Path("run/summary.json").write_text(json.dumps(kept))
    assert "NOT AUDITED" in told(here("run", "demo", *MINE, "--out", "run"))
    assert "NOT AUDITED" in told(here("privacy", "run"))
