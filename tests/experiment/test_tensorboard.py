"""`run --tensorboard`: what TensorBoard reads back is what the run recorded, each step once."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from pfels.documents.run import RoundRecord
from pfels.errors import InputError
from pfels.experiment.loop import run
from pfels.experiment.tensorboard import scalars
from tests.conftest import small

needs_tensorboard = pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="tensorboard is an extra: pip install pfels[tensorboard]"
)


def _read(path: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(path)).Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


@needs_tensorboard
def test_scalars_are_the_records(tmp_path: Path):
    with scalars(tmp_path / "events") as progress:
        result = run(small(), progress=progress)
    found = _read(tmp_path / "events")
    losses = [(record["round"] + 1, pytest.approx(record["train_loss"])) for record in result.records]
    assert found["train_loss"] == losses
    assert [step for step, _ in found["test_accuracy"]] == [3, 6]
    assert found["server_epsilon"][-1] == (6, pytest.approx(result.summary["privacy"]["server"]["epsilon"]))
    assert found.keys() == {
        "train_loss", "test_accuracy", "test_loss", "beta", "noise_multiplier", "energy", "server_epsilon",
    }  # fmt: skip


@needs_tensorboard
def test_a_scheme_without_energy_writes_none(tmp_path: Path):
    with scalars(tmp_path / "events") as progress:
        run(small(scheme="fedavg"), progress=progress)
    assert not {"energy", "beta", "server_epsilon"} & _read(tmp_path / "events").keys()


@needs_tensorboard
def test_after_a_crash_and_a_resume_every_step_is_there_once(tmp_path: Path):
    config, path = small(run__checkpoint_every=2), tmp_path / "run"

    def crash(record: RoundRecord) -> None:
        progress(record)
        if record["round"] == 4:
            raise RuntimeError("power cut")

    with scalars(path / "tensorboard") as progress, pytest.raises(RuntimeError, match="power cut"):
        run(config, path, progress=crash)
    with scalars(path / "tensorboard") as progress:
        run(config, path, resume=True, progress=progress)
    assert [step for step, _ in _read(path / "tensorboard")["train_loss"]] == [1, 2, 3, 4, 5, 6]


def test_without_the_extra_nothing_starts_and_the_cure_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"pip install pfels\[tensorboard\]"), scalars(tmp_path / "events"):
        pass
    assert not (tmp_path / "events").exists()


@needs_tensorboard
def test_the_command_writes_them_into_the_run_directory(pfels: Any, tmp_path: Path):
    done = pfels("run", "demo", "-s", "rounds=2", "--out", "run", "--tensorboard", "--json")
    assert done.returncode == 0, done.stderr
    assert [step for step, _ in _read(tmp_path / "run" / "tensorboard")["beta"]] == [1, 2]
