"""Checkpoints that no run can have left are refused before anything is touched, though their hash is right."""

import shutil
from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import torch

from pfels.errors import InputError
from pfels.experiment import loop, reader
from tests.conftest import small
from tests.experiment.test_damaged_runs import resealed
from tests.experiment.test_directory import interrupted
from tests.experiment.test_links import state

ECHO: dict[str, Any] = {
    "scheme": "pfels-echo", "pfels-echo__bands": 2, "compression__ratio": 1.0, "server__average": 0.9,
    "server__momentum": 0.5,
}  # fmt: skip
Change = Callable[[dict[str, Any], dict[str, torch.Tensor]], object]


def first(name: str, value: Any) -> Change:
    """The first element of a tensor replaced."""

    def change(about: Any, tensors: Any) -> None:
        tensors[name] = tensors[name].clone()
        tensors[name][0] = value

    change.__name__ = f"{name}[0] = {value}"
    return change


def made(name: str, make: Callable[[torch.Tensor], torch.Tensor], how: str) -> Change:
    """A tensor made anew from what it was."""

    def change(about: Any, tensors: Any) -> None:
        tensors[name] = make(tensors[name])

    change.__name__ = f"{name} {how}"
    return change


def about(key: str, value: Any) -> Change:
    """A field of the description replaced."""

    def change(notes: Any, tensors: Any) -> None:
        (notes["totals"] if key in notes["totals"] else notes)[key] = value

    change.__name__ = f"{key} = {value!r}"
    return change


def without(*names: str) -> Change:
    def change(notes: Any, tensors: Any) -> None:
        for name in names:
            del tensors[name]

    change.__name__ = f"without {names[0]}"
    return change


def twice(notes: Any, tensors: Any) -> None:
    """A noise multiplier that is counted in two places."""
    for name in ("noise_multipliers", "noise_multiplier_rounds"):
        tensors[name] = tensors[name].repeat(2)


BIG = 2**62
CHANGES = [
    *(first("noise_multipliers", value) for value in (nan, inf, -inf, -1.0, 5e-324, 1e308)),
    *(first("server.mu_squared", value) for value in (nan, -1.0, inf, -inf, 0.0, 1.7e308)),
    *(first("server.participations", value) for value in (0, -1, 4, BIG)),
    *(first("server.ids", value) for value in (-1, 30, 29, BIG)),
    made("server.ids", lambda ids: ids.flip(0), "unsorted"),
    made("server.ids", lambda ids: ids.clamp(max=int(ids[-2])), "twice"),
    *(first("noise_multiplier_rounds", value) for value in (0, -1, 4, BIG)),
    twice, made("memory", lambda rows: rows * 100, "times 100"),
    *(first(name, value) for name in ("average", "velocity", "memory", "decoded") for value in (nan, inf)),
    *(first("theta", value) for value in (nan, inf)),
    *(first("memory.ids", value) for value in (-1, 30, BIG)),
    *(first("memory.norms", value) for value in (nan, -1.0, inf, 1e3)),
    *(first("memory.used_until", value) for value in (-2, 0, 2)),
    *(first("memory.sizes", value) for value in (-1, BIG, 10**6)),
    *(first("decoded.rounds", value) for value in (-1, 3, BIG)),
    *(first("decoded.sizes", value) for value in (-1, BIG, 10**6)),
    without("average"), without("velocity"), without("theta"),
    *(about("round", value) for value in (7, 4, 2, -1, 3.0, "3", None, True)),
    *(about(name, value) for name in ("energy", "claimed_epsilon") for value in (nan, inf, -1.0, "1", [], True)),
    *(about(name, value) for name in ("subcarriers", "slots", "silent") for value in (-1, 1.5, "1", None, 2**63)),
    about("cohort_dependent", 1), about("privacy_limited_rounds", 4), about("totals", []), about("totals", {}),
    about("log_size", -1), about("log_size", 2**63 - 1), about("log_size", 0), about("log_sha256", "0" * 64),
    about("log_sha256", 5), about("config", "0" * 64), about("config", None), about("format", 10**30),
]  # fmt: skip


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "cut"
    interrupted(path, **ECHO)
    return path


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_state_that_no_run_can_have_is_refused_before_the_directory_is_touched(
    cut: Path, tmp_path: Path, change: Change
):
    path = tmp_path / "a"
    shutil.copytree(cut, path)
    resealed(path / "checkpoint.safetensors", change)
    with (path / "rounds.jsonl").open("ab") as log:
        log.write(b"what a kill left")
    before = state(path)
    with pytest.raises(InputError, match=r"checkpoint|rounds\.jsonl") as caught:
        loop.run(small(**ECHO), path, resume=True)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 2000
    assert state(path) == before


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_model_that_is_not_finite_is_no_result(tmp_path: Path, average: float):
    config = small(server__average=average)
    loop.run(config, tmp_path / "a")
    names = ("theta", "average") if average else ("theta",)

    def diverged(notes: Any, tensors: Any) -> None:
        for name in names:
            tensors[name] = tensors[name] * nan

    resealed(tmp_path / "a" / "checkpoint.safetensors", diverged)
    for read in (lambda: loop.run(config, tmp_path / "a"), lambda: reader.read(tmp_path / "a")):
        with pytest.raises(InputError, match=r"summary\.json: altered: loss = "):
            read()


def test_an_average_that_the_config_does_not_have_is_not_delivered(tmp_path: Path):
    loop.run(small(), tmp_path / "a")

    def smuggle(notes: Any, tensors: Any) -> None:
        tensors["average"] = tensors["theta"] * 2

    resealed(tmp_path / "a" / "checkpoint.safetensors", smuggle)
    with pytest.raises(InputError, match="average: must be there where it is used"):
        loop.run(small(), tmp_path / "a")
