"""The public names: found by dir, help and tab completion, with examples that run."""

import doctest
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import pfels
from tests.conftest import small

NAMES = {
    "Adversary", "Budget", "Config", "GuardError", "InputError", "Result", "RunError", "Stop", "Tuning", "audit",
    "compare", "load_config", "load_run", "plan", "presets", "privacy_figures", "reproduce", "run", "sweep", "to_frame",
    "tuning_of", "verify", "write_report",
}  # fmt: skip
FUNCTIONS = sorted(name for name in NAMES if inspect.isfunction(getattr(pfels, name)))


def test_the_public_names_are_those_and_can_be_found():
    assert set(pfels.__all__) == NAMES
    assert set(dir(pfels)) >= NAMES
    assert all(getattr(pfels, name).__module__.startswith("pfels.") for name in NAMES)
    assert all(f"`{name}`" in (pfels.__doc__ or "") for name in NAMES)


def test_every_public_function_has_an_example():
    assert len(FUNCTIONS) == 14
    for name in FUNCTIONS:
        assert ">>> " in (inspect.getdoc(getattr(pfels, name)) or ""), name


@pytest.mark.parametrize("module", sorted({getattr(pfels, name).__module__ for name in NAMES} | {"pfels"}))
def test_every_example_runs(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert found.failed == 0


def test_a_result_is_short_in_print_a_frame_and_a_picture():
    result = pfels.run(small())
    assert repr(result).startswith("Result(pfels, seed 0, 6 rounds, accuracy 0.")
    assert len(repr(result)) < 80
    frame = result.to_frame()
    assert list(frame.index) == list(range(6))
    assert frame["privacy.server.epsilon"].iloc[-1] == result.summary["privacy"]["server"]["epsilon"]
    accuracy, loss = result.plot().axes
    assert len(accuracy.lines[0].get_xdata()) == 2  # evaluated every three rounds
    assert len(loss.lines[0].get_xdata()) == 6


def test_a_comparison_a_sweep_and_a_plan_are_frames(tmp_path: Path):
    found = pfels.compare(small(), schemes=["pfels", "fedavg"], seeds=[0, 1], out=tmp_path / "a")
    frame = pfels.to_frame(found)
    assert list(frame.index) == ["pfels", "fedavg"]
    fedavg = found["schemes"]["fedavg"]["accuracy"]
    assert frame["accuracy.mean"]["fedavg"] == fedavg["mean"]
    assert frame["accuracy.standard_error"]["fedavg"] == fedavg["standard_error"]
    assert fedavg["mean"] == sum(frame[f"accuracy.seed.{seed}"]["fedavg"] for seed in (0, 1)) / 2
    assert frame["energy.seed.1"]["pfels"] == found["schemes"]["pfels"]["by_seed"]["energy"][1]
    assert not [name for name in frame.columns if name.startswith("by_seed")]
    grid = {"compression.ratio": [0.1, 0.3], "privacy.epsilon": [0.5]}
    swept = pfels.sweep(small(), grid, out=tmp_path / "b")
    frame = pfels.to_frame(swept)
    assert frame.index.names == ["compression.ratio", "privacy.epsilon"]
    assert frame["energy.mean"][0.3, 0.5] == (swept["points"][1]["energy"] or {})["mean"]
    planned = pfels.plan(small(), schemes=["pfels", "wfl-p"])
    assert list(pfels.to_frame(planned)["energy"]) == [row["energy"] for row in planned["schemes"].values()]
    with pytest.raises(pfels.InputError, match="takes what compare, sweep, plan or run returned"):
        pfels.to_frame({})  # type: ignore[arg-type]


def test_a_budget_is_given_in_words_and_refused_where_it_cannot_be():
    assert pfels.Budget(8.0, "server") == pfels.Budget(8.0) == pfels.Budget(8.0, pfels.Adversary.SERVER)
    with pytest.raises(pfels.InputError, match="adversary = 'nobody': must be one of server, blind-server, outsider"):
        pfels.Budget(8.0, "nobody")
    with pytest.raises(pfels.InputError, match="epsilon = -1"):
        pfels.Budget(-1.0)


def test_compare_takes_a_config_as_it_takes_a_preset(tmp_path: Path):
    config = small(privacy__epsilon=0.2)
    found = pfels.compare(config, schemes=["pfels", "pfels-plus"], seeds=[0], out=tmp_path / "a")
    again = pfels.compare(
        "demo", schemes=["pfels", "pfels-plus"], seeds=[0], out=tmp_path / "b",
        overrides={key: value for key, value in config.flat().items() if key not in ("scheme", "seed")
                   and key not in ("privacy.total_epsilon", "privacy.adversary")} | {"privacy.epsilon": 0.2},
    )  # fmt: skip
    assert found == again


@pytest.mark.parametrize("key", ["compression.ratio", "channel.noise_std", "privacy.epsilon", "training.clip"])
def test_python_and_the_command_refuse_what_a_scheme_would_ignore(
    key: str, pfels_command: Callable[..., CompletedProcess[str]]
):
    with pytest.raises(pfels.InputError, match=f"{key}: fedavg does not use it"):
        pfels.load_config("demo", {"scheme": "fedavg", key: 0.5})
    done = pfels_command("run", "demo", "-s", "scheme=fedavg", "-s", f"{key}=0.5")
    assert done.returncode == 2
    assert f"{key}: fedavg does not use it" in done.stderr
