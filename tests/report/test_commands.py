"""The commands on a page: they make the very runs again, here and on another machine."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

from pfels.config.load import load_config
from pfels.experiment.reader import find
from pfels.privacy.calibration import Budget
from pfels.privacy.events import Adversary
from pfels.report.commands import one_command, recipes
from pfels.report.groups import Comparison, comparisons, used_settings
from pfels.report.page import write_report
from pfels.studies.compare import compare
from tests.conftest import SMALL
from tests.report.stored_runs import finish


def only(path: Path) -> Comparison:
    (comparison,), _ = comparisons(find([path])[0])
    return comparison


def test_a_full_grid_is_repeated_by_one_command_and_a_part_of_one_by_none(tmp_path: Path):
    for scheme in ("pfels", "wfl-pdp"):
        for epsilon in (0.1, 0.5):
            finish(tmp_path / f"{scheme},{epsilon}", scheme=scheme, privacy__epsilon=epsilon)
    (study,) = write_report([tmp_path])["studies"]
    assert study["command"] is not None
    assert study["command"].startswith("pfels sweep ")
    assert "--grid privacy.epsilon=0.1,0.5" in study["command"]
    assert [group["label"] for group in study["groups"]][:2] == ["pfels, epsilon=0.1", "pfels, epsilon=0.5"]
    shutil.rmtree(tmp_path / "pfels,0.1")
    assert write_report([tmp_path])["studies"][0]["command"] is None


def test_the_one_command_has_every_setting_in_use_and_names_no_file_of_this_machine(tmp_path: Path):
    for scheme in ("wfl-p", "wfl-pdp"):  # the claim is wfl-pdp's alone: wfl-p's config has the default
        finish(tmp_path / scheme, scheme=scheme, privacy__epsilon=0.7)
    (study,) = write_report([tmp_path])["studies"]
    assert study["command"] is not None
    words = shlex.split(study["command"])
    assert words[:5] == ["pfels", "compare", "demo", "--schemes", "wfl-p,wfl-pdp"]
    assert "privacy.epsilon=0.7" in words
    assert str(tmp_path) not in study["command"]


def test_from_stored_configs_the_one_command_has_every_setting_in_use(tmp_path: Path):
    for scheme in ("wfl-p", "wfl-pdp"):
        finish(tmp_path / scheme, scheme=scheme, privacy__epsilon=0.7)
    files = [str(tmp_path / scheme / "config.toml") for scheme in ("wfl-p", "wfl-pdp")]
    words = shlex.split(str(one_command(recipes(only(tmp_path), files))))
    assert words[:5] == ["pfels", "compare", files[0], "--schemes", "wfl-p,wfl-pdp"]
    assert "privacy.epsilon=0.7" in words  # wfl-p's own config has the default


def test_the_printed_commands_repeat_the_runs_to_the_bit(here: Any, tmp_path: Path):
    for scheme in ("pfels", "fedavg"):
        finish(tmp_path / "it's" / scheme, scheme=scheme)
    code, out, _ = here("report", "it's", "--json")
    assert code == 0
    (study,) = json.loads(out)["studies"]
    for command in (study["command"], study["run_commands"][0], study["groups"][0]["command"]):
        assert here(*shlex.split(command)[1:])[0] == 0
    for again in ("again/scheme=pfels,seed=0", "it's/pfels-again", "again/1"):
        assert (tmp_path / again / "rounds.jsonl").read_bytes() == (
            tmp_path / "it's" / "pfels" / "rounds.jsonl"
        ).read_bytes()


def test_runs_on_a_budget_are_repeated_to_the_bit_by_the_command_with_that_budget(here: Any, tmp_path: Path):
    budget = Budget(4.0, Adversary.SERVER)
    schemes = ["pfels", "dp-fedavg", "pfels-plus", "fedavg"]
    compare("demo", schemes=schemes, seeds=[0, 1], overrides=SMALL, out=tmp_path / "runs", budget=budget)
    (study,) = write_report(tmp_path / "runs")["studies"]
    assert study["command"] is not None
    assert "--total-epsilon 4 --adversary server" in study["command"]
    assert here(*shlex.split(study["command"])[1:])[0] == 0
    made = sorted(path.parent.name for path in (tmp_path / "again").glob("*/rounds.jsonl"))
    assert len(made) == 8
    for name in made:
        again, first = (tmp_path / folder / name / "rounds.jsonl" for folder in ("again", "runs"))
        assert again.read_bytes() == first.read_bytes()


def test_groups_that_no_single_command_makes_have_a_command_each_with_a_place_of_its_own(tmp_path: Path):
    for rounds, clip in ((3, 1.0), (4, 0.5), (5, 0.5)):
        finish(tmp_path / f"{rounds}", rounds=rounds, training__clip=clip)
    (study,) = write_report(tmp_path)["studies"]
    assert study["command"] is None
    commands = [shlex.split(str(group["command"])) for group in study["groups"]]
    assert [words[-2:] for words in commands] == [["--out", f"again/{i}"] for i in (1, 2, 3)]
    for words, rounds in zip(commands, (3, 4, 5), strict=True):
        changes = [words[i + 1] for i, word in enumerate(words) if word == "-s"]
        made, stored = load_config(words[2], changes), find([tmp_path / f"{rounds}"])[0][0].config
        assert words[1] == "run"
        assert used_settings(made) == used_settings(stored)
