"""Arguments of public functions: what is meant is taken, and what is wrong is refused in one line that names it."""

import doctest
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pfels
from pfels.errors import InputError, RunError
from pfels.experiment import setup
from pfels.runtime.memory import full_memory_in_one_line

SMALL = {"rounds": 1, "data.devices": 20, "cohort.size": 4, "model.hidden": 4}
Call = Callable[[], Any]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compare(**changes: Any) -> Any:
    return pfels.compare("demo", **{"schemes": ["pfels"], "seeds": [0], "overrides": SMALL, **changes})


def sweep(axes: Any, **changes: Any) -> Any:
    return pfels.sweep("demo", axes, **{"overrides": SMALL, **changes})


def config(**changes: Any) -> pfels.Config:
    return pfels.load_config("demo", {**SMALL, **changes})


def reproduce(**changes: Any) -> Any:
    return pfels.reproduce("table-cifar10", **{"seeds": [0], "overrides": {"rounds": 1}, **changes})


WRONG: list[tuple[Call, str]] = [
    (lambda: sweep({"rounds": 2}), "axes: rounds = 2: must be a list, such as [2]"),
    (lambda: sweep({"scheme": "pfels"}), "axes: scheme = 'pfels': must be a list, such as ['pfels']"),
    (lambda: sweep({"rounds": []}), "axes: rounds: must be at least one"),
    (lambda: sweep({"rounds": [1, 1]}), "axes: rounds = [1, 1]: must be different values"),
    (lambda: sweep({"rounds": {1: 2}}), "axes: rounds = {1: 2}: must be a list"),
    (lambda: sweep(["rounds"]), "axes = ['rounds']: must hold at least one key"),
    (lambda: sweep(None), "axes = None: must hold at least one key"),
    (lambda: sweep({"seed": [1]}), "axes: seed: seeds go to seeds"),
    (lambda: sweep({3: [1]}), "3: not a key of a config"),
    (lambda: sweep({"rounds": [1]}, part=3), "--shard = 3: must read i/n"),
    (lambda: sweep({"rounds": [1]}, seeds=0), "seeds = 0: must be a list, such as [0]"),
    (lambda: compare(budget=8), "budget = 8: must be a Budget, such as pfels.Budget(8.0, 'server')"),
    (lambda: compare(tuning={"training.clip": [1.0]}), "must be a Tuning, such as pfels.tuning_of('demo')"),
    (lambda: compare(schemes=3), "schemes = 3: must be a list, such as ['pfels', 'wfl-p']"),
    (lambda: compare(schemes="pfels,pfels"), "must be different values"),
    (lambda: compare(schemes=[3]), "scheme = 3: must be text"),
    (lambda: compare(schemes=[]), "schemes: must be at least one"),
    (lambda: compare(seeds=0), "seeds = 0: must be a list, such as [0]"),
    (lambda: compare(seeds="0,1"), "seeds = '0,1': must be a list"),
    (lambda: compare(seeds=None), "seeds = None: must be a list"),
    (lambda: compare(seeds=[]), "seeds: must be at least one"),
    (lambda: compare(seeds=[-1]), "seeds = -1: must be a whole number of at least 0"),
    (lambda: compare(seeds=[1.0]), "seeds = 1.0: must be a whole number"),
    (lambda: compare(seeds=[True]), "seeds = True: must be a whole number"),
    (lambda: compare(seeds=[0, np.int64(0)]), "seeds = [0, 0]: must be different values"),
    (lambda: compare(jobs=0), "jobs = 0: must be a whole number of at least 1"),
    (lambda: compare(jobs="2"), "jobs = '2': must be a whole number of at least 1"),
    (lambda: compare(jobs=1.5), "jobs = 1.5: must be a whole number"),
    (lambda: compare(out=3), "out = 3: must be a path, such as 'runs/mine'"),
    (lambda: compare(out=None), "out = None: must be a path"),
    (lambda: compare(watch=3), "watch = 3: must be a function"),
    (lambda: compare(overrides=3), "overrides = 3: must be keys and values, such as {'rounds': 10}"),
    (lambda: compare(overrides={3: 1}), "3: not a key of a config"),
    (lambda: pfels.compare(3), "3: must be a preset ("),
    (lambda: pfels.load_config({"rounds": 2}), "settings go to overrides"),
    (lambda: pfels.load_config("demo", 3), "overrides = 3: must be keys and values"),
    (lambda: pfels.load_config("demo", [3]), "overrides = [3]: must be keys and values"),
    (lambda: pfels.load_config("demo", {"rounds": True}), "rounds = True: must be a whole number"),
    (lambda: pfels.load_config("demo", {"rounds": np.array([3])}), "rounds = array([3]): must be a whole number"),
    (lambda: pfels.run("demo"), "config = 'demo': must be a Config, such as pfels.load_config('demo')"),
    (lambda: pfels.run(config(), 3), "out = 3: must be a path"),
    (lambda: pfels.run(config(), workers="2"), "workers = '2': must be a whole number of at least 0"),
    (lambda: pfels.run(config(), progress=3), "progress = 3: must be a function"),
    (lambda: pfels.plan(3), "3: must be a preset ("),
    (lambda: pfels.plan("demo", schemes=[]), "schemes: must be at least one"),
    (lambda: pfels.plan("demo", budget=8), "budget = 8: must be a Budget"),
    (lambda: pfels.plan("demo", losses=3), "losses = 3: must be a LossAssumptions"),
    (lambda: pfels.privacy_figures("demo"), "config = 'demo': must be a Config"),
    (lambda: pfels.reproduce(3), "target = 3: must be one of table-cifar10"),
    (lambda: pfels.reproduce([]), "target = []: must be one of table-cifar10"),
    (lambda: reproduce(seeds=0), "seeds = 0: must be a list, such as [0]"),
    (lambda: reproduce(seeds=[]), "seeds: must be at least one"),
    (lambda: reproduce(out=3), "out = 3: must be a path"),
    (lambda: reproduce(jobs=0), "jobs = 0: must be a whole number of at least 1"),
    (lambda: reproduce(learning_rates=0.1), "learning_rates = 0.1: must be a list"),
    (lambda: reproduce(learning_rates=["a"]), "learning_rates = 'a': must be a finite number > 0"),
    (lambda: pfels.audit("demo"), "config = 'demo': must be a Config"),
    (lambda: pfels.audit(config(), canaries="3"), "canaries = '3': must be a whole number from 2 to 400"),
    (lambda: pfels.audit(config(), canaries=True), "canaries = True: must be a whole number"),
    (lambda: pfels.audit(config(), runs=True), "runs = True: must be a whole number of at least 1"),
    (lambda: pfels.audit(config(), workers="2"), "workers = '2': must be a whole number"),
    (lambda: pfels.write_report(3), "paths = 3: must be a path"),
    (lambda: pfels.write_report(b"runs"), "paths = b'runs': must be a path"),
    (lambda: pfels.write_report([None]), "paths = None: must be a path"),
    (lambda: pfels.to_frame(3), "to_frame: takes what compare, sweep, plan or run returned"),
    (lambda: pfels.to_frame([]), "to_frame: takes what"),
    (lambda: pfels.to_frame({"schemes": [1]}), "to_frame: takes what"),
    (lambda: pfels.to_frame({"points": [1]}), "to_frame: takes what"),
    (lambda: pfels.Budget("8"), "epsilon = '8': must be a finite number > 0"),
    (lambda: pfels.Budget(True), "epsilon = True: must be a finite number > 0"),
    (lambda: pfels.Tuning(3), "--grid = 3: must hold at least one key"),
    (lambda: pfels.Tuning({"training.clip": 1.0}), "--grid: training.clip = 1.0: must be a list, such as [1.0]"),
    (lambda: pfels.tuning_of("demo", seeds=3), "--tuning-seeds = 3: must be a list, such as [3]"),
    (lambda: pfels.tuning_of("demo", grid=[1]), "grid = [1]: must hold at least one key"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_argument_is_one_line_that_names_it_and_touches_nothing(call: Call, message: str, tmp_path: Path):
    with pytest.raises(InputError) as caught:
        call()
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_meant_is_taken():
    expected = compare(seeds=[0, 1])
    for same in (
        {"schemes": "pfels"},
        {"schemes": {"pfels"}},
        {"schemes": (each for each in ["pfels"])},
        {"seeds": range(2)},
        {"seeds": {1, 0}},
        {"seeds": np.arange(2)},
        {"seeds": (each for each in (0, 1))},
        {"jobs": np.int64(1)},
        {"out": Path("runs/compare")},
        {"overrides": [f"{key}={value}" for key, value in SMALL.items()]},
        {"overrides": {key: np.int64(value) for key, value in SMALL.items()}},
        {"overrides": {"rounds": 1, "data": {"devices": np.int32(20)}, "cohort.size": 4, "model.hidden": 4}},
    ):
        assert compare(**{"seeds": [0, 1], **same}) == expected, same
    assert list(compare(schemes="pfels, fedavg")["schemes"]) == ["pfels", "fedavg"]


def test_values_of_numpy_are_those_of_python():
    ratios = sweep({"compression.ratio": np.array([0.1, 0.3])})
    assert [type(point["settings"]["compression.ratio"]) for point in ratios["points"]] == [float, float]
    assert ratios == sweep({"compression.ratio": [0.1, 0.3]})
    own = pfels.load_config("demo", {"data.name": np.str_("file"), "data.path": Path("mine.npz")})
    assert (type(own.data.name), own.data.path) == (str, str(Path.cwd() / "mine.npz"))
    assert pfels.load_config("demo", "rounds=7") == pfels.load_config("demo", {"rounds": 7})
    assert pfels.load_config("demo", None) == pfels.load_config("demo")


def test_a_result_is_a_frame_like_the_other_documents():
    result = pfels.run(config())
    assert pfels.to_frame(result).equals(result.to_frame())


@pytest.mark.parametrize(
    "call",
    [
        lambda: pfels.run(config(**{"model.hidden": 10**9})),
        lambda: sweep({"model.hidden": [4, 10**9]}),
        lambda: compare(overrides={**SMALL, "model.hidden": 10**9}),
        lambda: pfels.audit(config(**{"model.hidden": 10**9}), canaries=20),
    ],
    ids=["run", "sweep", "compare", "audit"],
)
def test_a_network_that_cannot_fit_is_refused_before_anything_is_written(call: Call, tmp_path: Path):
    with pytest.raises(InputError, match=r"model.hidden = 1000000000: .* at least 3000.0 GB, and .* are free; choose"):
        call()
    assert list(tmp_path.iterdir()) == []


def test_runs_at_once_must_fit_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(setup, "available_memory", lambda: 10**6)
    pfels.run(config(**{"model.hidden": 200}))
    with pytest.raises(InputError, match=r"in each of 2 runs at once, .* or fewer jobs"):
        compare(seeds=[0, 1], jobs=2, overrides={**SMALL, "model.hidden": 200})


def test_memory_that_runs_out_later_is_one_line():
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")):
        with pytest.raises(RunError, match="not enough memory; choose a smaller network"), full_memory_in_one_line():
            raise error
    with pytest.raises(RuntimeError, match="something else"), full_memory_in_one_line():
        raise RuntimeError("something else")


@pytest.mark.parametrize("module", ["pfels.runtime.arguments", "pfels.config.synonyms", "pfels.errors"])
def test_every_example_runs(module: str):
    assert doctest.testmod(importlib.import_module(module)).failed == 0
