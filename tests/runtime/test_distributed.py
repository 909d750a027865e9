import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pfels.config.load import load_config
from pfels.experiment import loop
from pfels.experiment.directory import RunDirectory
from pfels.runtime.distributed import Ranks, Start
from tests.conftest import SMALL, small

SETTINGS = {**SMALL, "rounds": 4, "cohort.size": 7, "run.workers": 1}
WITH_MEMORY = {**SETTINGS, "scheme": "pfels-plus", "compression.error_feedback": True, "server.momentum": 0.5}
WITH_ECHO = {**SETTINGS, "scheme": "pfels-echo", "compression.ratio": 1.0, "server.average": 0.5}


def torchrun(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in two processes that share a run."""
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", *arguments],
        cwd=cwd, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def command(settings: dict[str, object]) -> list[str]:
    """The command that runs in the directory `two`."""
    changes = [text for key, value in settings.items() for text in ("-s", f"{key}={str(value).lower()}")]
    return ["run", "demo", *changes, "--out", "two", "--json"]


def check_same(settings: dict[str, object], summary: dict[str, Any], where: Path) -> None:
    """Check that the run in the directory `two` equals that of a single process, up to rounding."""
    alone = loop.run(load_config("demo", settings), where / "alone")
    assert summary["energy"] == pytest.approx(alone.summary["energy"], rel=1e-4)
    assert summary["loss"] == pytest.approx(alone.summary["loss"], rel=1e-4)
    assert summary["privacy"] == alone.summary["privacy"]
    rounds = [json.loads(line) for line in (where / "two" / "rounds.jsonl").read_text().splitlines()]
    for ours, theirs in zip(rounds, alone.records, strict=True):
        assert ours["cohort"] == theirs["cohort"]
        assert ours["participants"] == theirs["participants"]
        assert (ours["train_loss"] or 0.0) == pytest.approx(theirs["train_loss"] or 0.0, rel=1e-4)
        assert ours["device_energy"] == pytest.approx(theirs["device_energy"], rel=1e-3)
    models = [load_file(where / name / "checkpoint.safetensors") for name in ("alone", "two")]
    assert models[0].keys() == models[1].keys()
    for name in models[0]:
        torch.testing.assert_close(models[0][name], models[1][name], rtol=1e-3, atol=1e-5)


def test_two_ranks_give_the_results_of_one_process(tmp_path):
    program = str(Path(sys.executable).with_name("pfels"))
    together = torchrun("--no-python", program, *command(SETTINGS), cwd=tmp_path)
    assert together.returncode == 0, together.stderr
    check_same(SETTINGS, json.loads(together.stdout), tmp_path)


@pytest.mark.parametrize("settings", [WITH_MEMORY, WITH_ECHO], ids=["error feedback", "echo"])
def test_two_ranks_resume_a_run_with_what_all_devices_keep(tmp_path, settings):
    stopped = torchrun(str(_stopper(tmp_path)), *command(settings), cwd=tmp_path)
    assert "stopped after two rounds" in stopped.stderr, stopped.stderr
    together = torchrun("-m", "pfels", *command(settings), "--resume", cwd=tmp_path)
    assert together.returncode == 0, together.stderr
    check_same(settings, json.loads(together.stdout), tmp_path)


def _stopper(tmp_path: Path) -> Path:
    """`pfels`, interrupted after two rounds."""
    script = tmp_path / "stopper.py"
    script.write_text(
        "import sys\n"
        "from pfels.experiment import directory as store\n"
        "from pfels.__main__ import main\n"
        "append = store.RunDirectory.append\n"
        "def stop(self, record, mark):\n"
        "    if record['round'] == 2:\n"
        "        print('stopped after two rounds', file=sys.stderr)\n"
        "        raise KeyboardInterrupt\n"
        "    return append(self, record, mark)\n"
        "store.RunDirectory.append = stop\n"
        "main()\n"
    )
    return script


def test_when_the_leading_rank_stops_a_run_all_ranks_end_with_its_model(tmp_path):
    script = tmp_path / "early.py"
    script.write_text(
        "import os, sys\n"
        "import torch, pfels\n"
        f"config = pfels.load_config('demo', {SETTINGS!r})\n"
        "def progress(record):\n"
        "    if record['round'] == 1:\n"
        "        raise pfels.Stop('two are enough')\n"
        "result = pfels.run(config, 'two', progress=progress)\n"
        "torch.save(result.parameters, os.environ['RANK'] + '.pt')\n"
    )
    together = torchrun(str(script), cwd=tmp_path)
    assert together.returncode == 0, together.stderr
    summary = json.loads((tmp_path / "two" / "summary.json").read_text())
    assert summary["stopped"] == {"planned_rounds": 4, "reason": "two are enough"}
    one, other = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert torch.equal(one, other)


def test_the_leading_rank_loses_no_round_if_another_one_dies(tmp_path):
    script = tmp_path / "dying.py"
    script.write_text(
        "import os, signal\n"
        "from pfels.experiment import loop as experiment\n"
        "from pfels.__main__ import main\n"
        "whole = experiment.advance\n"
        "def die(made, state, uplink):\n"
        "    if os.environ['RANK'] == '1' and state.round == 2:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return whole(made, state, uplink)\n"
        "experiment.advance = die\n"
        "main()\n"
    )
    failed = torchrun(str(script), *command(SETTINGS), cwd=tmp_path)
    assert failed.returncode != 0
    assert "[rank0]: Traceback" not in failed.stderr
    assert RunDirectory(tmp_path / "two", load_config("demo", SETTINGS)).checkpoint().round == 2


def test_a_sweep_under_torchrun_is_refused(tmp_path):
    refused = torchrun("-m", "pfels", "sweep", "demo", "-g", "rounds=1,2", cwd=tmp_path)
    assert "error: torchrun: is for one run" in refused.stderr
    assert not (tmp_path / "runs").exists()


def test_a_run_without_torchrun_is_a_single_rank():
    ranks = Ranks.join("cpu")
    assert ranks.leads
    assert ranks.size == 1
    assert range(7)[ranks.share(7)] == range(7)
    assert ranks.gather([1.0, 2.0]) == [1.0, 2.0]
    assert torch.equal(ranks.all_reduce(torch.ones(3)), torch.ones(3))


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 5, 32])
def test_shares_cover_the_cohort_in_order(size, count):
    assert [i for rank in range(size) for i in range(count)[Ranks(rank, size).share(count)]] == list(range(count))


def test_the_start_state_of_ranks_survives_serialisation():
    start = Start("threaded", 17, {"theta": torch.arange(5.0)})
    back = Start.from_bytes(start.to_bytes())
    assert (back.engine, back.round) == ("threaded", 17)
    assert torch.equal(back.tensors["theta"], start.tensors["theta"])


def test_the_engine_of_a_run_is_recorded_and_kept_on_resume(tmp_path, monkeypatch):
    config = small(rounds=2)
    summary = loop.run(config, tmp_path / "a").summary
    assert summary["engine"] == "batched"
    assert json.loads((tmp_path / "a" / "environment.json").read_text())["engine"] == "batched"
    (tmp_path / "a" / "summary.json").unlink()
    monkeypatch.setattr(
        "pfels.experiment.setup.resolve", lambda *_: "threaded"
    )  # as if a later version chose otherwise
    assert loop.run(config, tmp_path / "a", resume=True).summary["engine"] == "batched"
    assert loop.run(config).summary["engine"] == "threaded"
