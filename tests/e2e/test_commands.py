"""Every command and every target of `reproduce`, as a user would call it: in words and with --json."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pfels.cli import main
from pfels.documents.audit import Audit
from pfels.documents.data import DataSet, DataSets
from pfels.documents.paper import Reproduction
from pfels.documents.privacy import NoiseForBudget, PresetPrivacy, PrivacyFigures
from pfels.documents.run import Summary
from pfels.documents.studies import Comparison, Plan, Sweep
from tests.contract.misfits import misfits

ROOT = Path(__file__).parents[2]
TINY = ["-s", "rounds=4", "-s", "data.devices=30", "-s", "cohort.size=8", "-s", "model.hidden=8"]
LINK = ["--seeds", "0,1", "-s", "rounds=20"]
LAPTOP = ["--scale", "laptop", "--preset", "demo", "--learning-rates", "0.05", *TINY]
TARGETS = ["table-cifar10", "table-femnist", "fig-compression", "fig-privacy", "fig-training", "fig-energy"]
FREE = [*TARGETS, "matched-progress"]  # without training

# What a reader must find in the words, and the type of the JSON.
COMMANDS: dict[str, tuple[list[str], str, type]] = {
    "run": (["run", "demo", *TINY], r"pfels on digits, 4 rounds, seed 0", Summary),
    "compare": (["compare", "demo", *TINY, "--schemes", "pfels,fedavg", "--seeds", "0"], r"pfels +0\.\d", Comparison),
    "sweep": (["sweep", "demo", *TINY, "-g", "compression.ratio=0.1,0.3", "--shard", "1/2"], r"demo: 1 point ", Sweep),
    "plan": (["plan", "demo", *TINY, "--total-epsilon", "8"], r"Convergence of PFELS: bounds on", Plan),
    "privacy": (["privacy", "demo", *TINY], r"server +[\d.]+ +0\.0333", PresetPrivacy),
    "privacy, numbers": (["privacy", "--noise-multiplier", "2"], r"outsider +[\d.]+ +0\.001", PrivacyFigures),
    "privacy, target": (["privacy", "--target-epsilon", "2"], r"noise multiplier z +[\d.]+", NoiseForBudget),
    "audit": (["audit", "demo", *TINY, "-s", "scheme=pfels-plus", "--canaries", "60"], r"server +16\.00 +\d", Audit),
    "data list": (["data", "list"], r"digits +1,797", DataSets),
    "data get": (["data", "get", "digits"], r"digits: nothing to", DataSet),
    "data check": (["data", "check", "digits"], r"digits: nothing to check", DataSet),
    **{f"{name}, link": (["reproduce", name, *LINK], rf"{name}, link: ", Reproduction) for name in FREE},
    **{
        f"{name}, laptop": (["reproduce", name, *LAPTOP, "--seeds", seeds], rf"{name}, laptop: ", Reproduction)
        for name, seeds in zip(TARGETS, ["0", "0,1"] * 3, strict=True)
    },
}


def call(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "80", "PFELS_DATA": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=300,
        env=environment,
    )  # fmt: skip


def command(arguments: list[str], folder: Path) -> str:
    """What the command prints; it must succeed, and tell nobody of anything that went wrong."""
    done = call(["-m", "pfels", *arguments], folder)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "error" not in done.stderr
    return done.stdout


def command_here(
    arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """The same in this process, which has PyTorch loaded already."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PFELS_DATA", str(folder / "cache"))
    monkeypatch.setattr(sys, "argv", ["pfels", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert not ended.value.code, printed.err
    return printed.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_works_in_words_and_as_json(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    arguments, said, kind = COMMANDS[name]
    words = command(arguments, tmp_path)
    assert re.search(said, words), words
    assert max(map(len, words.splitlines())) <= 80, "every line fits a terminal of 80 columns"
    assert misfits(kind, json.loads(command_here([*arguments, "--json"], tmp_path, monkeypatch, capsys))) == []


def test_a_report_is_written_about_what_was_run(tmp_path: Path):
    command(["run", "demo", *TINY, "--out", "runs/one"], tmp_path)
    assert command(["report", "runs"], tmp_path).strip() == "runs/report.html"
    document = json.loads(command(["report", "runs", "--json"], tmp_path))
    assert (document["runs"], document["damaged"]) == (1, [])
    assert "<h1" in (tmp_path / "runs" / "report.html").read_text("utf-8")


def test_the_ablation_of_the_docs_runs_with_a_single_seed(tmp_path: Path):
    study = str(ROOT / "docs" / "studies" / "ablation.py")
    done = call([study, "demo", "--seeds", "0", "--rounds", "4"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"PFELS\+ \(all\) +0\.\d", done.stdout)
