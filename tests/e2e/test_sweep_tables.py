"""`pfels sweep` prints all that its JSON has, within 80 columns."""

import json
import re
from pathlib import Path

import pytest

from pfels.cli.sweep_tables import show
from pfels.documents.privacy import Distribution, RunPrivacy, ServerFigure
from pfels.documents.studies import SweepRow
from pfels.privacy.events import rounded_down
from pfels.report.text import claimed_epsilon, epsilon
from pfels.studies.sweep import sweep
from tests.conftest import SMALL

AXES = {"scheme": ["pfels", "wfl-p", "fedavg", "pfels-plus"], "privacy.delta": [0.01, 0.001]}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[SweepRow]:
    return sweep("demo", AXES, seeds=(0, 1), overrides=SMALL, out=tmp_path_factory.mktemp("sweep"))["points"]


def printed(rows: list[SweepRow], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    show(rows, "demo")
    return capsys.readouterr().out


def table(text: str, head: str) -> dict[str, list[str]]:
    """The rows of the table whose header reads so, by their first cell."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if re.fullmatch(rf" *{head} *", re.sub(" +", " ", line)))
    found = {}
    for line in lines[start + 2 :]:
        if not line.strip():
            break
        name, *cells = re.split(r" {1,}(?!100)", line.strip())
        found[name] = cells
    return found


def test_every_figure_of_the_json_is_in_a_table(rows: list[SweepRow], monkeypatch, capsys):
    text = printed(rows, monkeypatch, capsys)
    assert max(map(len, text.splitlines())) <= 80
    results = table(text, "# scheme privacy.delta accuracy test loss")
    used = table(text, "# energy channel uses airtime d rounds")
    private = table(text, "# claimed exact server at 1e-5 blind outsider min z")
    devices = table(text, "# min median 90 % max rounds never")
    for i, row in enumerate(rows, start=1):
        scheme, noise, accuracy, loss = results[str(i)]
        assert (scheme, noise) == (row["settings"]["scheme"], str(row["settings"]["privacy.delta"]))
        assert accuracy == f"{row['accuracy']['mean']:.4f}±{row['accuracy']['standard_error']:.4f}"
        assert float(loss.partition("±")[0]) == pytest.approx(row["loss"]["mean"], abs=5e-4)
        assert used[str(i)][-2:] == [f"{row['dimension']:,}", str(row["rounds"])]
        assert (used[str(i)][0] == "–") == (row["energy"] is None)
        assert float(used[str(i)][1]) == pytest.approx(row["subcarriers"], rel=5e-3)
        privacy = row["privacy"]
        claimed, exact, server, small, blind, outsider, z = private[str(i)]
        assert claimed == claimed_epsilon(privacy["claimed"])
        assert server == epsilon(privacy["server"])
        assert small == epsilon({"name": "", "epsilon": privacy["server"]["epsilon_at_1e-5"]})
        assert exact.strip("†") == ("–" if privacy["exact_per_round"] is None else epsilon(privacy["exact_per_round"]))
        assert blind.strip("†") == (epsilon(privacy["blind_server"]) if "blind_server" in privacy else "–")
        assert outsider.strip("†") == epsilon(privacy["outsider"])
        assert z == f"{rounded_down(privacy['noise_multiplier_min'], digits=3):.3g}"
        spent = privacy["server"]["distribution"]
        assert devices[str(i)][3] == epsilon({"name": "", "epsilon": spent["max"]})
        assert devices[str(i)][-2] == f"{100 * spent['never_took_part']:.0f}"
        for figure in ("claimed", "exact_per_round", "server", "outsider", "blind_server"):
            if privacy.get(figure) is not None:
                assert privacy[figure]["why"] in " ".join(text.split())


def test_every_assumption_of_every_point_has_its_price(rows: list[SweepRow], monkeypatch, capsys):
    text = printed(rows, monkeypatch, capsys)
    for i, row in enumerate(rows, start=1):
        for each in row["privacy"].get("assumptions", []):
            price = epsilon(each)
            blocks = [block for block in text.split("\n … (#)")[1:] if str(i) in block.splitlines()[0].split()]
            (line,) = [line for line in blocks[0].splitlines() if line.strip().startswith(each["name"])]
            assert price in line, (i, each)


def test_the_tables_know_every_field():
    """A new field of a sweep's JSON must get a place in the tables, and then in this list."""
    assert set(SweepRow.__annotations__) == {
        "settings", "seeds", "rounds", "dimension", "accuracy", "loss", "energy", "subcarriers", "airtime_s", "privacy",
        "by_seed",  # in the JSON alone
        "on_budget", "server_small_delta", "tuned",  # the last three are of compare alone
    }  # fmt: skip
    assert set(RunPrivacy.__annotations__) == {
        "noise_multiplier_min", "claimed_epsilon", "claimed_valid", "claimed", "exact_per_round", "server",
        "outsider", "blind_server", "assumptions", "server_by_antennas", "audited", "data_notes",
    }  # fmt: skip
    assert set(Distribution.__annotations__) == {"min", "median", "p90", "max", "never_took_part"}
    assert {"distribution", "epsilon_at_1e-5", "participations", "why", "valid"} <= set(ServerFigure.__annotations__)


def test_the_only_axis_names_the_rows_and_no_point_is_no_error(pfels, tmp_path: Path):
    fast = [word for key, value in SMALL.items() for word in ("-s", f"{key}={value}")]
    done = pfels("sweep", "demo", *fast, "-g", "compression.ratio=0.1,1.0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("demo: 2 points, seed 0\n")
    assert table(done.stdout, "compression.ratio accuracy test loss").keys() == {"0.1", "1.0"}
    done = pfels("sweep", "demo", *fast, "-g", "compression.ratio=0.1,1.0", "--shard", "3/3")
    assert (done.returncode, "0 points" in done.stdout) == (0, True), done.stderr
    again = pfels("sweep", "demo", *fast, "-g", "compression.ratio=0.1,1.0", "--json")
    assert len(json.loads(again.stdout)["points"]) == 2
