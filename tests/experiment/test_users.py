"""Own data that name their writers: a device is one of them, or the privacy figures say that it is not."""

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pfels
from pfels import cli
from pfels.config.load import load_config, stored_config, validate
from pfels.config.tables import Data
from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.experiment.loop import run
from pfels.experiment.setup import federate
from pfels.privacy.gaussian import gaussian_epsilon
from tests.experiment.test_own_data import interrupted, own_data

WRITERS = np.repeat(["ann", "bob", "cy", "di", "ed", "flo", "gus", "hal"], [9, 8, 7, 6, 4, 3, 2, 1])  # 40 examples
FEW = {"cohort.size": 3, "rounds": 4, "model.hidden": 4, "run.checkpoint_every": 1}


def by_writer(path: Path, **more: Any) -> Path:
    return own_data(path, writer_train=WRITERS, **{"classes": 3, **more})


def names(privacy: Any) -> list[str]:
    return [note["name"] for note in privacy.get("data_notes", [])]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text('scheme = "pfels-plus"\nrounds = 4\n[data]\nname = "file"\npath = "mine.npz"\n[cohort]\nsize = 3\n')
    by_writer(tmp_path / "mine.npz")
    return path


def spread_of(config: Config) -> tuple[int, str]:
    return config.data.devices, config.data.partition


def test_each_writer_is_a_device_unless_another_partition_is_asked_for(file: Path):
    config = load_config(file)
    assert spread_of(config) == (8, "writer")
    assert config.delta == 1 / 8
    federation = federate(config)
    assert [len(federation.parts[device]) for device in range(8)] == [9, 8, 7, 6, 4, 3, 2, 1]
    assert all(len(set(WRITERS[part])) == 1 for part in federation.parts)
    for kind in ("iid", "dirichlet"):
        assert spread_of(load_config(file, {"data.partition": kind})) == (8, kind)
    assert spread_of(load_config(file, {"data.devices": 5})) == (5, "writer")
    assert spread_of(load_config(file, {"data.per_device": 4})) == (5, "writer"), "those with enough examples"
    path = str(file.parent / "mine.npz")
    assert spread_of(Config(data=Data(name="file", path=path), cohort={"size": 3})) == (8, "writer")
    assert spread_of(validate({"data": {"name": "file", "path": path}, "cohort": {"size": 3}})) == (8, "writer")


@pytest.mark.parametrize("preset", ["demo", "fashion", "femnist"])
def test_what_a_preset_says_of_its_own_data_is_not_about_the_writers_of_a_file(preset: str, tmp_path: Path):
    own = {"data.name": "file", **FEW, "model.name": "mlp"}
    path = str(by_writer(tmp_path / "mine.npz"))
    for base in (preset, load_config(preset)):
        config = load_config(base, {**own, "data.path": path})
        assert spread_of(config) == (8, "writer")
        assert config.data.per_device is None
        said = load_config(base, {**own, "data.path": path, "data.devices": 6, "data.partition": "iid"})
        assert spread_of(said) == (6, "iid")
    without = str(own_data(tmp_path / "without.npz"))
    kept = load_config("demo", {**own, "data.path": without})
    assert spread_of(kept) == (100, "iid"), "of a file without writers the preset's number stays"


def test_a_config_that_moves_to_another_file_takes_the_writers_of_that_one(file: Path, tmp_path: Path):
    config, other = load_config(file), tmp_path / "other.npz"
    own_data(other, writer_train=np.arange(40) % 20)
    assert spread_of(load_config(config, {"data.path": str(other)})) == (20, "writer")
    assert spread_of(load_config(load_config(config, {"seed": 1}), {"data.path": str(other)})) == (20, "writer")
    assert spread_of(load_config(config, {"data.path": str(own_data(tmp_path / "x.npz"))})) == (1000, "iid")
    said = load_config(file, {"data.devices": 6})
    assert spread_of(load_config(said, {"data.path": str(other)})) == (6, "writer"), "what was said stays"


def test_a_stored_run_holds_what_was_used_and_needs_the_file_no_more(file: Path, tmp_path: Path):
    out, config = tmp_path / "run", load_config(file)
    finished = run(config, out)
    (tmp_path / "mine.npz").unlink()
    stored = stored_config(out / "config.toml")
    assert stored == config
    assert stored.digest() == config.digest()
    assert run(stored, out).summary == finished.summary
    with pytest.raises(InputError, match=r"mine\.npz'?: no such file; data\.devices follows from it unless it is set"):
        load_config(file)


def test_a_run_with_writers_resumes_as_if_it_had_not_stopped(file: Path, tmp_path: Path):
    config = load_config(file, {"run.checkpoint_every": 1})
    interrupted(config, tmp_path / "run", after=2)
    assert (
        run(load_config(file, {"run.checkpoint_every": 1}), tmp_path / "run", resume=True).records
        == run(config).records
    )


@pytest.mark.parametrize("kind", ["iid", "dirichlet"])
def test_where_a_device_is_not_a_user_every_privacy_line_says_so(
    kind: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    asked = [str(file), "-s", f"data.partition={kind}"]
    out, said = str(tmp_path / "run"), "a device is not a user"

    def printed(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["pfels", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert not left.value.code, arguments
        return " ".join(capsys.readouterr().out.split())

    assert said in printed("run", *asked, "--out", out)
    assert said in printed("privacy", *asked)
    assert said in printed("privacy", out)
    assert said in printed("plan", *asked, "--schemes", "pfels-plus")
    assert said in printed("compare", *asked, "--schemes", "pfels-plus", "--seeds", "0", "--out", f"{out}-c")
    assert said in printed("sweep", str(file), "-g", f"data.partition={kind},writer", "--out", f"{out}-s")
    for document in (
        json.loads(printed("run", *asked, "--out", out, "--json")),
        json.loads((tmp_path / "run" / "summary.json").read_text()),
    ):
        assert names(document["privacy"]) == [said]
    for command in (("privacy", *asked), ("privacy", out)):
        assert names(json.loads(printed(*command, "--json"))) == [said]
    printed("report", out)
    assert said in (tmp_path / "run" / "report.html").read_text().lower()
    assert said not in printed("run", str(file), "--out", f"{out}-w")
    assert said not in printed("privacy", str(file))


def test_an_unfinished_run_says_it_too_when_its_file_is_gone(file: Path, tmp_path: Path):
    config = load_config(file, {"data.partition": "iid", "run.checkpoint_every": 1})
    interrupted(config, tmp_path / "run", after=2)
    (tmp_path / "mine.npz").unlink()
    from pfels.studies.stored_privacy import stored_privacy

    assert names(stored_privacy(tmp_path / "run")) == ["a device is not a user"]


def test_a_cohort_larger_than_the_writers_is_refused_with_the_reason(file: Path):
    with pytest.raises(
        InputError, match=r"cohort\.size = 9: must be at most data\.devices = 8, the writers in the file$"
    ):
        load_config(file, {"cohort.size": 9})
    with pytest.raises(InputError, match=r"cohort\.size = 9: must be at most data\.devices = 8$"):
        load_config(file, {"cohort.size": 9, "data.devices": 8})


def test_what_all_data_of_a_user_cost_is_priced_by_the_devices_that_may_hold_them(file: Path):
    figures = pfels.privacy_figures(load_config(file, {"data.partition": "iid"}))
    (note,) = figures["data_notes"]
    assert note["devices_per_user"] == 8, "nine examples of ann, on eight devices"
    price = {each["name"]: each["epsilon"] for each in figures["assumptions"]}
    replaced = price["one device replaced, not emptied"]
    user = price["all data of one user emptied, on up to 8 devices"]
    low, high = 1e-3, 1e3
    for _ in range(200):  # μ of a replaced device
        middle = (low * high) ** 0.5
        low, high = (middle, high) if gaussian_epsilon(mu=middle, delta=1 / 8) < replaced else (low, middle)
    assert user == pytest.approx(gaussian_epsilon(mu=8 * low, delta=1 / 8), rel=1e-6)


def test_data_sets_of_the_catalog_with_writers_say_it_and_others_do_not():
    noted = {
        (name, kind): names(
            pfels.privacy_figures(load_config("demo", {"data.name": name, "data.partition": kind, "rounds": 2}))
        )
        for name in ("digits", "femnist", "mnist-writers", "synthetic")
        for kind in ("iid", "writer")
    }
    assert {key for key, found in noted.items() if found} == {("femnist", "iid"), ("mnist-writers", "iid")}


def test_who_is_left_out_is_said(file: Path):
    def said(**changes: object) -> list[str]:
        figures = pfels.privacy_figures(load_config(file, {f"data.{key}": value for key, value in changes.items()}))
        return [note["sentence"] for note in figures.get("data_notes", [])]

    assert said() == []
    few = "left out of 8 writers in the file: 3, who have fewer than data.per_device = 4 examples (6 in all)"
    assert said(per_device=4) == [few]
    assert said(devices=6) == ["left out of 8 writers in the file: 2, because data.devices = 6"]
    assert said(per_device=4, devices=4) == [f"{few} and 1, because data.devices = 4"]
    with pytest.raises(InputError, match=r"data\.devices = 9: only 8 of 8 writers have 1 examples or more"):
        run(load_config(file, {"data.devices": 9}))


def test_classes_are_those_that_the_file_or_the_config_says(tmp_path: Path):
    def config(path: Path, **more: object) -> Config:
        return load_config("demo", {"data.name": "file", "data.path": str(path), **FEW, **more})

    stated, silent = (
        by_writer(tmp_path / "a.npz", classes=np.array([5])),
        own_data(tmp_path / "b.npz", writer_train=WRITERS),
    )
    assert federate(config(stated)).classes == 5
    assert federate(config(silent, **{"data.classes": 7})).classes == 7
    assert federate(config(silent)).classes == 3
    (note,) = run(config(silent)).summary["privacy"]["data_notes"]
    assert note["name"] == "classes inferred"
    assert note["sentence"].startswith(
        "the number of classes, 3, is the largest label of all devices and of the test set"
    )
    for said in (config(stated), config(silent, **{"data.classes": 7})):
        summary, figures = run(said).summary, pfels.privacy_figures(said)
        assert names(summary["privacy"]) == names(figures) == []
        assert summary["dimension"] == 4 * 4 + 4 + (4 + 1) * federate(said).classes
    dimensions = [run(config(silent, **{"data.classes": c})).summary["dimension"] for c in (3, 4, 5)]
    assert [b - a for a, b in pairwise(dimensions)] == [5, 5]


@pytest.mark.parametrize(
    ("more", "classes", "message"),
    [
        ({"classes": 2}, None, r"mine\.npz': y_train has the label 2; must be below 2, the number of classes"),
        ({}, 2, r"mine\.npz': y_train has the label 2; must be below 2, the number of classes"),
        ({"classes": 4}, 5, r"mine\.npz': says classes = 4, but data\.classes = 5; they must be the same"),
        ({"classes": 0}, None, r"mine\.npz': classes = 0; must be in \[1, 1000000\]"),
        ({"classes": 2.5}, None, r"mine\.npz': classes is float64 of shape \(\); must be one whole number"),
        ({"classes": [3, 4]}, None, r"mine\.npz': classes is int64 of shape \(2,\); must be one whole number"),
        ({"classes": "three"}, None, r"mine\.npz': classes is <U5 of shape \(\); must be one whole number"),
    ],
)
def test_a_wrong_number_of_classes_is_named(more: dict[str, Any], classes: int | None, message: str, tmp_path: Path):
    path = own_data(tmp_path / "mine.npz", **more)
    changes = {"data.name": "file", "data.path": str(path), "data.devices": 10, "cohort.size": 4}
    with pytest.raises(InputError, match=message) as caught:
        run(load_config("demo", changes | ({} if classes is None else {"data.classes": classes})))
    assert str(caught.value).isprintable()


def test_classes_are_for_own_files_alone():
    with pytest.raises(InputError, match=r'data\.classes = 12: only for data\.name = "file"; leave it out'):
        load_config("demo", {"data.classes": 12})


def test_a_path_may_begin_at_the_home_directory(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_config(file, {"data.path": "~/mine.npz"}).data.path == str(tmp_path / "mine.npz")
    file.write_text(file.read_text().replace('"mine.npz"', '"~/mine.npz"'))
    assert load_config(file).data.path == str(tmp_path / "mine.npz")
    with pytest.raises(
        InputError, match=r"data\.path = '~no-such-user/x': its home directory is unknown; give the whole path"
    ):
        load_config(file, {"data.path": "~no-such-user/x"})


def test_a_directory_is_named_as_one(file: Path, tmp_path: Path):
    with pytest.raises(InputError, match=r"data\.path = .*: is a directory; give an \.npz with x_train"):
        load_config(file, {"data.path": str(tmp_path)})
