"""A run that its caller ends early is a result: stored, read, reported, and never taken for a whole run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pfels
from pfels.experiment import loop
from pfels.experiment.directory import RunDirectory
from pfels.experiment.forecast import forecast_run
from pfels.report.page import write_report
from pfels.studies.stored_privacy import stored_privacy
from tests.conftest import small


def stop_after(rounds: int) -> Callable[[Any], None]:
    def progress(record: Any) -> None:
        if record["round"] + 1 == rounds:
            raise pfels.Stop("enough\nfor now")

    return progress


def test_a_stopped_run_is_the_first_rounds_of_the_whole_one(tmp_path: Path, scheme: str):
    whole = loop.run(small(scheme=scheme, run__eval_every=1))
    stopped = loop.run(small(scheme=scheme, run__eval_every=1), tmp_path / "a", progress=stop_after(3))
    assert stopped.records == whole.records[:3]
    assert stopped.summary["rounds"] == 3
    assert stopped.summary["stopped"] == {"planned_rounds": 6, "reason": "enough\\nfor now"}
    assert stopped.summary["accuracy"] == whole.records[2]["test_accuracy"]
    done, last = stopped.summary["privacy"], whole.records[2]["privacy"]
    assert done["server"]["epsilon"] == last["server"]["epsilon"], "ε of the rounds done"
    assert repr(stopped).startswith(f"Result({scheme}, seed 0, 3 of 6 rounds, accuracy")
    free = loop.run(small(scheme=scheme, run__eval_every=1), progress=stop_after(3))
    assert {**free.summary, "seconds": 0} == {**stopped.summary, "seconds": 0}


def test_to_stop_after_the_last_round_is_to_finish():
    assert loop.run(small(), progress=stop_after(6)).summary.keys() == loop.run(small()).summary.keys()


def test_a_stopped_run_says_what_it_costs_if_the_choice_was_no_public_one():
    config = small(rounds=20)
    privacy = loop.run(config, progress=stop_after(3)).summary["privacy"]
    prices = {each["name"]: each["epsilon"] for each in privacy["assumptions"]}
    setting, ledger = forecast_run(config)
    planned = ledger.server.worst(delta=setting.delta).epsilon
    assert prices["when to stop follows from the models, so ε of 20 rounds"] == planned
    assert planned > privacy["server"]["epsilon"]
    assert prices["when to stop follows from devices' data, as train_loss does"] is None
    assert not any("stop" in each["name"] for each in loop.run(config).summary["privacy"]["assumptions"])


def test_it_is_read_as_it_ended_and_is_no_point_of_a_sweep(tmp_path: Path):
    path = tmp_path / "s" / "compression.ratio=0.3,seed=0"
    config = small(compression__ratio=0.3)
    stopped = loop.run(config, path, progress=stop_after(3))
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    for again in (loop.run(config, path), loop.run(config, path, resume=True), pfels.load_run(path)):
        assert (again.summary, again.records) == (stopped.summary, stopped.records)
        assert torch.equal(again.parameters, stopped.parameters)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert stored_privacy(path)["rounds_done"] == 3
    with pytest.raises(pfels.InputError, match="stopped after 3 of 6 rounds; choose another --out, or make it anew"):
        pfels.sweep(small(), {"compression.ratio": [0.3]}, out=tmp_path / "s")
    found = pfels.sweep(small(), {"compression.ratio": [0.3]}, out=tmp_path / "s", fresh=True)
    assert found["points"][0]["rounds"] == 6
    assert "stopped" not in pfels.load_run(path).summary


def test_a_report_shows_it_apart_from_whole_runs(tmp_path: Path):
    for seed, rounds in ((0, 6), (1, 3), (2, 3), (3, 4)):
        loop.run(small(seed=seed), tmp_path / str(seed), progress=stop_after(rounds))
    groups = write_report(tmp_path)["studies"][0]["groups"]
    assert [(group["label"], group["seeds"], group["rounds"]) for group in groups] == [
        ("pfels", [0], 6),
        ("pfels, stopped after 3 of 6 rounds", [1, 2], 3),
        ("pfels, stopped after 4 of 6 rounds", [3], 4),
    ]


@pytest.mark.parametrize("scheme", ["pfels-echo", "pfels"])
def test_a_kill_before_the_summary_leaves_a_run_that_ends_where_it_was_stopped(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What devices kept is gone by then, so that its rounds could not go on."""
    config = small(scheme=scheme)
    whole = loop.run(config, tmp_path / "a", progress=stop_after(3))

    def killed(self: RunDirectory, *about: object) -> None:
        raise SystemExit

    finish = RunDirectory.finish
    monkeypatch.setattr(RunDirectory, "finish", killed)
    with pytest.raises(SystemExit):
        loop.run(config, tmp_path / "b", progress=stop_after(3))
    monkeypatch.setattr(RunDirectory, "finish", finish)
    again = loop.run(config, tmp_path / "b", resume=True)
    assert {**again.summary, "seconds": 0} == {**whole.summary, "seconds": 0}
    assert torch.equal(again.parameters, whole.parameters)


def test_a_summary_that_lies_about_where_it_was_stopped_is_refused(tmp_path: Path):
    path = tmp_path / "a"
    loop.run(small(), path, progress=stop_after(3))
    summary = json.loads((path / "summary.json").read_text())
    for changed in ({"rounds": 4}, {"rounds": 6}, {"stopped": {"planned_rounds": 5, "reason": ""}}):
        (path / "summary.json").write_text(json.dumps(summary | changed))
        with pytest.raises(pfels.InputError, match=r"summary\.json|rounds\.jsonl"):
            pfels.load_run(path)
        assert write_report([path, _other(tmp_path)], tmp_path / "page.html")["damaged"]


def _other(folder: Path) -> Path:
    loop.run(small(), folder / "other")
    return folder / "other"


def test_a_finished_run_is_loaded_without_the_code_that_made_it(tmp_path: Path):
    """Its scheme is not installed, and its data are gone."""
    result = loop.run(small(), tmp_path / "run")
    config = tmp_path / "run" / "config.toml"
    for name in ("config.toml", "summary.json"):
        text = (tmp_path / "run" / name).read_text()
        (tmp_path / "run" / name).write_text(text.replace('"pfels"', '"elsewhere"', 1))
    with pytest.raises(pfels.InputError, match="belongs to another config"):
        pfels.load_run(tmp_path / "run")  # the checkpoint knows its config
    config.write_text(config.read_text().replace('"elsewhere"', '"pfels"'))
    with pytest.raises(pfels.InputError, match=r"altered: scheme = 'elsewhere' is not what the log and the checkpoint"):
        pfels.load_run(tmp_path / "run")
    (tmp_path / "run" / "summary.json").write_text(json.dumps(result.summary))
    loaded = pfels.load_run(str(tmp_path / "run"))
    assert (loaded.summary, loaded.records) == (result.summary, result.records)
    assert np.array_equal(loaded.parameters.numpy(), result.parameters.numpy())


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"summary.json": None}, "the run is not finished"),
        ({"config.toml": None}, "no run directory"),
        ({"config.toml": "scheme = 3"}, r"scheme = 3: not the config of a run"),
        ({"config.toml": "scheme = 'pfels'\nseed = 0\nrounds = 1.5"}, r"rounds = 1\.5: not the config of a run"),
        ({"config.toml": "["}, "not valid TOML"),
        ({"checkpoint.safetensors": None}, "its checkpoint is gone"),
        ({"checkpoint.safetensors": "x"}, "truncated or altered"),
        ({"rounds.jsonl": "x"}, "truncated or altered"),
        ({"summary.json": "{}"}, r"summary\.json"),
    ],
)
def test_what_is_no_finished_run_is_not_loaded(damage: dict[str, str | None], said: str, tmp_path: Path):
    loop.run(small(), tmp_path / "run")
    for name, content in damage.items():
        (tmp_path / "run" / name).unlink()
        if content is not None:
            (tmp_path / "run" / name).write_text(content)
    with pytest.raises(pfels.InputError, match=said):
        pfels.load_run(tmp_path / "run")
