"""`pfels privacy RUN_DIR`: the figures of a run directory are those of the rounds in it."""

import json
import math
import shutil
from functools import partial
from pathlib import Path

import pytest

from pfels.documents.privacy import StoredPrivacy
from pfels.errors import InputError
from pfels.experiment.deployment import KNOWN_NOISE, Deployment
from pfels.experiment.directory import RunDirectory
from pfels.experiment.ledger import Ledger
from pfels.experiment.link import link_of
from pfels.experiment.loop import run, simulate
from pfels.studies.privacy import privacy_figures
from pfels.studies.stored_privacy import stored_privacy
from tests.conftest import small
from tests.contract.misfits import misfits

ROUNDS = 6


def interrupted(config, out: Path, *, after: int, keep: Path | None = None, **options) -> None:
    """A run that is stopped after some rounds; `keep` takes a copy of the checkpoint one round earlier."""

    def stop(record: dict) -> None:
        if record["round"] + 1 == after - 1 and keep is not None:
            shutil.copyfile(out / "checkpoint.safetensors", keep)
        if record["round"] + 1 == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config, out, progress=stop, **options)


def test_a_finished_run_has_the_figures_that_were_forecast_for_it(scheme: str, tmp_path: Path):
    config = small(scheme=scheme)
    ended = run(config, tmp_path / "run").summary["privacy"]
    found = stored_privacy(tmp_path / "run")
    assert misfits(StoredPrivacy, found) == []
    assert {key: found[key] for key in ended} == ended
    assert (found["rounds_done"], found["rounds"], found["finished"]) == (ROUNDS, ROUNDS, True)
    forecast = privacy_figures(config)
    assert found["server"]["epsilon"] == pytest.approx(forecast["server"]["epsilon"])
    assert found["assumptions"] == forecast["assumptions"]


def test_an_unfinished_run_has_the_figures_of_its_checkpoint(scheme: str, tmp_path: Path):
    """The rounds are planned again there, and here the ledger is read that the training kept."""
    config, out = small(scheme=scheme), tmp_path / "run"
    interrupted(config, out, after=4)
    found = stored_privacy(out)
    assert misfits(StoredPrivacy, found) == []
    assert (found["rounds_done"], found["rounds"], found["finished"]) == (4, ROUNDS, False)
    last = RunDirectory(out, config).checkpoint()
    assert last is not None
    kept = Ledger.restore(last.tensors, last.totals, devices=config.data.devices)
    expected = kept.privacy(link_of(config).setting)
    for kind in ("server", "outsider", "exact_per_round", "claimed"):
        ours, theirs = found[kind], expected[kind]
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours["epsilon"] == (None if theirs["epsilon"] is None else pytest.approx(theirs["epsilon"]))
            assert (ours["why"], ours["valid"]) == (theirs["why"], theirs["valid"])


def test_rounds_behind_the_last_checkpoint_count_too(tmp_path: Path):
    """A kill leaves a log that goes on: those rounds were sent."""
    config, out = small(run__checkpoint_every=1), tmp_path / "run"
    interrupted(config, out, after=4, keep=tmp_path / "earlier")
    expected = stored_privacy(out)
    shutil.copyfile(tmp_path / "earlier", out / "checkpoint.safetensors")
    assert stored_privacy(out) == expected
    assert expected["rounds_done"] == 4


def test_a_log_of_another_config_has_no_figures(tmp_path: Path):
    out = tmp_path / "run"
    interrupted(small(), out, after=4)
    (out / "checkpoint.safetensors").unlink()
    lines = (out / "rounds.jsonl").read_text().splitlines()
    record = json.loads(lines[-1])
    record["privacy"]["server"]["epsilon"] *= 0.5
    (out / "rounds.jsonl").write_text("\n".join([*lines[:-1], json.dumps(record)]) + "\n")
    with pytest.raises(InputError, match=r"ends with ε = .* against the server, and its config gives"):
        stored_privacy(out)


def test_an_unfinished_deployment_with_known_noise_has_no_valid_figure(tmp_path: Path):
    config, out = small(scheme="pfels-plus"), tmp_path / "run"
    interrupted(config, out, after=4, play_round=partial(simulate), deployment=Deployment("a test", "seed"))
    found = stored_privacy(out)
    assert (found["server"]["valid"], found["server"]["why"]) == (False, KNOWN_NOISE)
    assert found["rounds_done"] == 4
    assert math.isfinite(found["server"]["epsilon"] or math.inf)


def test_what_is_no_run_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="no run directory, for it has no config"):
        stored_privacy(tmp_path)
    config = small()
    (tmp_path / "config.toml").write_text(config.to_toml())
    with pytest.raises(InputError, match="no round is done yet"):
        stored_privacy(tmp_path)
    (tmp_path / "rounds.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"rounds\.jsonl, line 1"):
        stored_privacy(tmp_path)
