"""The tuning protocol: one grid for all, seeds of their own, edges flagged, and differences judged with their error."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from pfels.config.load import load_config, tuning_grid
from pfels.config.preset_files import presets
from pfels.errors import InputError
from pfels.privacy.accountant import at_another_delta, server_loss
from pfels.privacy.assumptions import tuned_epsilon
from pfels.report import text as words
from pfels.schemes.registry import usable_schemes
from pfels.studies import tune as tune_module
from pfels.studies.compare import compare, pairs, tuning_of
from pfels.studies.sweep import Point
from pfels.studies.tune import FINALISTS, Study, Tuning, tune
from pfels.studies.verdicts import Margin, Verdict, exactly, margin, paired

RATES = [0.02, 0.05, 0.1, 0.2]
GRID = {"training.learning_rate": RATES, "compression.ratio": [0.3, 1.0]}
TINY = {"rounds": 2, "data.devices": 30, "cohort.size": 8, "model.hidden": 8}

Runner = Callable[[Callable[[Point], float]], list[Point]]


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Trials whose accuracy is a given function of the point; gives the points that were run, in order."""

    def with_accuracy(accuracy: Callable[[Point], float]) -> list[Point]:
        seen: list[Point] = []

        def run_points(points: Sequence[Point], **_: Any) -> list[dict[str, float]]:
            seen.extend(points)
            return [{"accuracy": accuracy(point)} for point in points]

        monkeypatch.setattr(tune_module, "run_points", run_points)
        return seen

    return with_accuracy


def study(tmp_path: Path) -> Study:
    return Study("demo", tmp_path, {}, None)


def rate(point: Point) -> float:
    return point.config.training.learning_rate


def test_every_scheme_tries_every_combination_of_what_it_uses(trials: Runner, tmp_path: Path):
    trials(rate)
    found = tune(study(tmp_path), ["pfels", "wfl-pdp"], Tuning(GRID), jobs=1)
    assert {name: each["trials"] for name, each in found.items()} == {"pfels": 8, "wfl-pdp": 4}
    assert found["wfl-pdp"]["settings"] == {"training.learning_rate": 0.2}
    assert found["pfels"]["settings"]["training.learning_rate"] == 0.2


def test_the_best_on_average_over_all_tuning_seeds_wins_though_another_led_on_the_first(trials: Runner, tmp_path: Path):
    by_seed = {1000: {0.02: 0.1, 0.05: 0.8, 0.1: 0.9, 0.2: 0.2}, 1001: {0.02: 0.1, 0.05: 0.8, 0.1: 0.5, 0.2: 0.2}}
    trials(lambda point: by_seed[point.config.seed][rate(point)])
    found = tune(study(tmp_path), ["wfl-pdp"], Tuning(GRID), jobs=1)["wfl-pdp"]
    assert found["settings"] == {"training.learning_rate": 0.05}
    assert found["accuracy"] == pytest.approx(0.8)
    assert found["at_edge"] == []


def test_only_finalists_go_on_to_the_other_seeds(trials: Runner, tmp_path: Path):
    seen = trials(rate)
    tune(study(tmp_path), ["pfels"], Tuning(GRID), jobs=1)
    assert [point.config.seed for point in seen] == [1000] * 8 + [1001] * FINALISTS
    assert {rate(point) for point in seen[8:]} == {0.1, 0.2}


def test_ends_of_the_grid_are_flagged_but_nothing_lies_beyond_p_of_1(trials: Runner, tmp_path: Path):
    trials(lambda point: rate(point) + point.config.compression.ratio)
    found = tune(study(tmp_path), ["pfels"], Tuning(GRID), jobs=1)["pfels"]
    assert found["settings"] == {"training.learning_rate": 0.2, "compression.ratio": 1.0}
    assert found["at_edge"] == ["training.learning_rate"]
    trials(lambda point: -rate(point) - point.config.compression.ratio)
    found = tune(study(tmp_path), ["pfels"], Tuning(GRID), jobs=1)["pfels"]
    assert found["at_edge"] == ["training.learning_rate", "compression.ratio"]


def test_a_comparison_is_tuned_apart_from_what_it_reports(tmp_path: Path):
    about: dict[str, Any] = {
        "schemes": ["pfels", "fedavg"],
        "seeds": [0, 1],
        "overrides": TINY,
        "tuning": Tuning({"training.learning_rate": [0.05, 0.1]}, [7]),
    }
    one = compare("demo", **about, out=tmp_path / "one")
    assert compare("demo", **about, out=tmp_path / "two", jobs=2) == one
    configs = [load_config(path) for path in tmp_path.glob("one/*/config.toml")]
    trials = [load_config(path) for path in tmp_path.glob("one-tuning/*/config.toml")]
    assert sorted(config.seed for config in configs) == [0, 0, 1, 1]
    assert [config.seed for config in trials] == [7] * 4
    for config in configs:
        tuned = one["schemes"][config.scheme]["tuned"]
        assert config.training.learning_rate == tuned["settings"]["training.learning_rate"]
        assert (tuned["trials"], tuned["seeds"]) == (2, [7])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("summary.json")}
    assert compare("demo", **about, out=tmp_path / "one") == one
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("summary.json")} == before


@pytest.mark.parametrize("preset", [name for name in presets() if tuning_grid(name)])
def test_every_scheme_can_run_every_combination_of_a_presets_grid(preset: str, tmp_path: Path):
    tuning = tuning_of(preset)
    for name in usable_schemes():
        for settings in tuning.combinations(name):
            Study(preset, tmp_path, {}, None).point(settings, 0)
    assert "training.learning_rate" in tuning.axes


def test_what_is_set_by_hand_leaves_the_presets_grid():
    assert "compression.ratio" in tuning_of("demo").axes
    assert "compression.ratio" not in tuning_of("demo", overrides={"compression.ratio": 0.2}).axes
    assert "compression.ratio" not in tuning_of("demo", schemes=["fedavg", "wfl-p"]).axes
    with pytest.raises(InputError, match="set by hand as well"):
        tuning_of("demo", grid={"compression.ratio": [0.1]}, overrides={"compression.ratio": 0.2})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tune", "--seeds", "0,1000"], "--seeds: 1000 is a tuning seed"),
        (["--tune", "--tuning-seeds", "a"], "--tuning-seeds = 'a': must be whole numbers"),
        (
            ["--tune", "--grid", "compression.ratio=0.1,0.3", "--schemes", "wfl-p,fedavg"],
            "none of wfl-p, fedavg uses it",
        ),
        (["--tune", "--grid", "training.rate=0.1,0.3"], "unknown key; did you mean training."),
        (["--tune", "--grid", "training.learning_rate=-1,0.3"], "training.learning_rate"),
        (["--tune", "--grid", "scheme=pfels,wfl-p"], "use --schemes"),
        (["--grid", "training.learning_rate=0.1,0.3"], "--grid: is for --tune"),
    ],
)
def test_bad_input_is_one_line_and_touches_nothing(
    pfels: Callable[..., CompletedProcess[str]], tmp_path: Path, options: list[str], message: str
):
    done = pfels("compare", "demo", *options, "--out", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def price(tuned: dict[str, Any]) -> Any:
    return {"name": "", "epsilon": tuned["epsilon_on_same_data"]}


def test_a_tuned_table_fits_a_terminal_and_its_files_hold_it(
    pfels: Callable[..., CompletedProcess[str]], tmp_path: Path
):
    tiny = [option for key, value in TINY.items() for option in ("-s", f"{key}={value}")]
    options = [
        "--schemes",
        "fedavg,truncated-inversion",
        "--seeds",
        "0,1",
        "--total-epsilon",
        "8",
        "--tuning-seeds",
        "9",
    ]
    done = pfels("compare", "demo", "--tune", *tiny, *options, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines() if line.startswith(" ")) <= 80
    assert re.search(r"^ scheme +η .*trials", done.stdout, re.MULTILINE)
    assert "NOT brought to the budget: fedavg" in done.stdout
    table = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert set(table["schemes"]) == {"fedavg", "truncated-inversion"}
    assert len((tmp_path / "out" / "comparison.csv").read_text().splitlines()) == 3
    assert re.search(r"^ scheme +η .*trials +ε if private", done.stdout, re.MULTILINE)
    told = " ".join(done.stdout.split())
    assert "by a random number of trials with this mean, one run each, the best of which is released" in told
    assert (
        "A fixed grid has no such bound. Settings chosen on public data, or on other users' data, cost nothing." in told
    )
    figure, tuned = (table["schemes"]["truncated-inversion"][key] for key in ("privacy", "tuned"))
    assert tuned["epsilon_on_same_data"] == tuned_epsilon(figure["server"], trials=tuned["trials"])
    assert tuned["epsilon_on_same_data"] > 2 * figure["server"]["epsilon"]
    assert re.search(rf"^ truncated-inversion .* {words.epsilon(price(tuned))} *$", done.stdout, re.MULTILINE)
    assert table["schemes"]["fedavg"]["tuned"]["epsilon_on_same_data"] is None
    figure = table["schemes"]["truncated-inversion"]
    assert figure["privacy"]["server"]["epsilon"] <= 8
    assert figure["privacy"]["server"]["epsilon"] < figure["server_small_delta"]["epsilon"]


def test_a_verdict_needs_two_standard_errors_and_two_seeds():
    assert paired([3.0, 5.0], [2.0, 2.0]) == Margin(2.0, 1.0)
    assert paired([3.0, 5.0], [2.0, 2.0]).verdict is Verdict.UNDECIDED  # exactly two standard errors
    assert margin([1.0, 1.1, 0.9]).verdict is Verdict.HOLDS
    assert margin([-1.0, -1.1, -0.9]).verdict is Verdict.FAILS
    assert margin([5.0]).verdict is Verdict.UNDECIDED
    assert exactly(0.1).verdict is Verdict.HOLDS


def test_pairs_use_what_seeds_share():
    """Seeds move both schemes alike: unpaired, the difference would drown in the spread of the seeds."""
    base = [0.5, 0.6, 0.7, 0.8]
    found = pairs({"a": base, "b": [x + 0.01 + 0.001 * (-1) ** i for i, x in enumerate(base)], "c": base[::-1]})
    verdicts = {(pair["better"], pair["other"]): pair["verdict"] for pair in found}
    assert verdicts["b", "a"] == "holds"
    assert verdicts["b", "c"] == "undecided"
    assert len(found) == 3
    assert [pair["verdict"] for pair in pairs({"a": [0.9], "b": [0.1]})] == ["undecided"]


def test_a_figure_at_another_delta_is_that_of_the_same_noise():
    for mu_squared in (0.01, 1.0, 25.0, 900.0):
        here, there = (
            server_loss(mu_squared=mu_squared, participations=3, delta=delta).as_dict() for delta in (1e-3, 1e-5)
        )
        found = at_another_delta(here, delta=1e-5)
        assert found["epsilon"] == pytest.approx(there["epsilon"], rel=1e-9)
        assert found["epsilon"] >= there["epsilon"]
        assert (found["delta"], found["participations"]) == (1e-5, 3)
    nothing = server_loss(mu_squared=1e-6, participations=3, delta=1e-3).as_dict()
    assert nothing["epsilon"] == 0
    assert (
        at_another_delta(nothing, delta=1e-5)["epsilon"]
        >= server_loss(mu_squared=1e-6, participations=3, delta=1e-5).epsilon
    )
    none = server_loss(mu_squared=float("inf"), participations=3, delta=1e-3).as_dict()
    assert at_another_delta(none, delta=1e-5)["epsilon"] is None
