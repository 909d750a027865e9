"""Runs on the user's own data: where `data.path` leads, and that the same data elsewhere are the same experiment."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfels.config.load import load_config, stored_config, validate
from pfels.config.tree import Config
from pfels.data import cache
from pfels.data.checksums import checksums
from pfels.errors import InputError
from pfels.experiment.loop import run
from tests.data.fixtures import idx_folder

SMALL = {"data.name": "file", "data.devices": 10, "cohort.size": 4, "rounds": 6, "run.checkpoint_every": 2}


def own_data(path: Path, *, seed: int = 0, **more: Any) -> Path:
    draws = np.random.default_rng(seed)
    x, y = draws.normal(size=(60, 4)).astype(np.float32), draws.integers(0, 3, 60)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, x_train=x[:40], y_train=y[:40], x_test=x[40:], y_test=y[40:], **more)
    return path


def config_file(folder: Path) -> Path:
    """A config beside its data."""
    own_data(folder / "data" / "mine.npz")
    file = folder / "mine.toml"
    file.write_text(
        'rounds = 6\n[data]\nname = "file"\npath = "data/mine.npz"\ndevices = 10\n[cohort]\nsize = 4\n'
        "[run]\ncheckpoint_every = 2\n[for.fedavg.data]\npath = 'fed.npz'\n"
    )
    return file


def interrupted(config: Config, out: Path, *, after: int) -> None:
    def stop(record: dict) -> None:
        if record["round"] + 1 == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config, out, progress=stop)


def test_the_path_of_a_file_is_relative_to_it_and_that_of_an_override_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = config_file(tmp_path / "there")
    monkeypatch.chdir(tmp_path)
    for named in (file, Path("there/mine.toml")):
        assert load_config(named).data.path == str(tmp_path / "there" / "data" / "mine.npz")
        assert load_config(named, {"scheme": "fedavg"}).data.path == str(tmp_path / "there" / "fed.npz")
        for given in ({"data.path": "other.npz"}, {"data": {"path": "other.npz"}}, ["data.path=other.npz"]):
            assert load_config(named, given).data.path == str(tmp_path / "other.npz")
    assert load_config(file, {"data.path": "/abs/x.npz"}).data.path == "/abs/x.npz"
    assert load_config(load_config(file)).data.path == str(tmp_path / "there" / "data" / "mine.npz")
    with pytest.raises(InputError, match=r"data\.path = 3"):
        load_config(file, {"data.path": 3})


def test_a_run_on_own_data_resumes_from_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file, out = config_file(tmp_path / "there"), tmp_path / "run"
    monkeypatch.chdir(tmp_path / "there")
    interrupted(load_config("mine.toml"), out, after=3)
    monkeypatch.chdir("/")
    resumed = run(load_config(file), out, resume=True)
    assert resumed.records == run(load_config(file)).records
    assert stored_config(out / "config.toml").data.path == str(tmp_path / "there" / "data" / "mine.npz")


def test_the_same_data_elsewhere_continue_a_run_and_other_data_do_not(tmp_path: Path):
    out, first = tmp_path / "run", own_data(tmp_path / "a" / "mine.npz")
    config = load_config("demo", {**SMALL, "data.path": str(first)})
    interrupted(config, out, after=3)
    recorded = json.loads((out / "environment.json").read_text())["data"]
    assert recorded == {"mine.npz": cache.digest(first, "sha256")}
    moved = tmp_path / "b" / "renamed.npz"
    moved.parent.mkdir()
    shutil.move(first, moved)
    other = own_data(tmp_path / "c" / "mine.npz", seed=1)
    with pytest.raises(InputError, match=r"another config, which differs in data\.path"):
        run(load_config(config, {"data.path": str(other)}), out, resume=True)
    elsewhere = load_config(config, {"data.path": str(moved)})
    assert run(elsewhere, out, resume=True).records == run(elsewhere).records
    assert run(elsewhere, out).summary["rounds"] == 6, "and a finished run is read"
    with pytest.raises(InputError, match=r"another config, which differs in data\.path"):
        run(load_config(config, {"data.path": str(other)}), out)
    with pytest.raises(InputError, match=r"another config, which differs in seed, data\.path"):
        run(load_config(config, {"data.path": str(moved), "seed": 1}), out)


def test_data_that_were_changed_in_place_do_not_continue_a_run(tmp_path: Path):
    out, path = tmp_path / "run", own_data(tmp_path / "mine.npz")
    config = load_config("demo", {**SMALL, "data.path": str(path)})
    interrupted(config, out, after=3)
    own_data(path, seed=1)
    with pytest.raises(InputError, match="begun with other data"):
        run(config, out, resume=True)
    own_data(path)
    assert run(config, out, resume=True).summary["rounds"] == 6


def test_a_run_that_an_older_version_began_with_a_relative_path_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    own_data(tmp_path / "mine.npz")
    monkeypatch.chdir(tmp_path)
    now = load_config("demo", {**SMALL, "data.path": "mine.npz"})
    tree = now.tree()
    tree["data"]["path"] = "mine.npz"
    interrupted(validate(tree), tmp_path / "run", after=3)
    about = json.loads((tmp_path / "run" / "environment.json").read_text())
    about.pop("data")
    (tmp_path / "run" / "environment.json").write_text(json.dumps(about))
    assert run(now, tmp_path / "run", resume=True).records == run(now).records


def test_a_copy_of_a_known_data_set_is_recorded_file_by_file_and_the_catalogs_own_is_not(tmp_path: Path):
    folder = idx_folder(tmp_path / "idx")
    assert checksums("fashion", str(folder)).keys() == {path.name for path in folder.iterdir()}
    assert checksums("fashion", None) == checksums("digits", None) == checksums("mnist-writers", None) == {}
