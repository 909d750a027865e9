"""Checkpoints that somebody made: bytes that no tensor covers, and states that no run leaves, with a hash that fits."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pfels.errors import InputError
from pfels.experiment import loop, reader
from pfels.experiment.checkpoint import Checkpoint
from pfels.experiment.log import LogMark
from pfels.experiment.stored import require_continuable
from tests.conftest import small
from tests.experiment.test_damaged_runs import resealed
from tests.experiment.test_directory import contents, interrupted

ECHO: dict[str, Any] = {"scheme": "pfels-echo", "compression__ratio": 1.0}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unfinished runs: a plain one, one whose devices repeat, and one with momentum."""
    folder = tmp_path_factory.mktemp("runs")
    interrupted(folder / "plain")
    interrupted(folder / "echo", **ECHO)
    interrupted(folder / "momentum", server__momentum=0.5)
    return folder


SETTINGS: dict[str, dict[str, Any]] = {"plain": {}, "echo": ECHO, "momentum": {"server__momentum": 0.5}}


def refused(path: Path, message: str, **settings: Any) -> None:
    """A report and a run that is to go on refuse it alike, in one line, and leave it as it is."""
    before = contents(path)
    for read in (lambda: reader.read(path), lambda: loop.run(small(**settings), path, resume=True)):
        with pytest.raises(InputError, match=rf"checkpoint\.safetensors: {message}") as caught:
            read()
        assert str(caught.value).isprintable()
    assert contents(path) == before


Header = dict[str, Any]


def reheaded(path: Path, change: Callable[[Header, bytes], bytes], *, padding: int = 0) -> None:
    """Another header, the tensors' bytes as `change` gives them, and the hash as it was."""
    blob = path.read_bytes()
    size = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8 : 8 + size])
    body = change(header, blob[8 + size :])
    text = json.dumps(header).encode() + b" " * padding
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def behind(header: Header, body: bytes) -> bytes:
    return body + b"hidden"


def between(header: Header, body: bytes) -> bytes:
    """Eight bytes before the last tensor."""
    last = max((name for name in header if name != "__metadata__"), key=lambda name: header[name]["data_offsets"])
    begin, end = header[last]["data_offsets"]
    header[last]["data_offsets"] = [begin + 8, end + 8]
    return body[:begin] + b"12345678" + body[begin:]


def before(header: Header, body: bytes) -> bytes:
    for name in header.keys() - {"__metadata__"}:
        header[name]["data_offsets"] = [at + 8 for at in header[name]["data_offsets"]]
    return b"12345678" + body


@pytest.mark.parametrize("hide", [behind, between, before])
def test_every_byte_of_a_checkpoint_is_that_of_a_tensor(runs: Path, tmp_path: Path, hide: Any):
    """What the hash does not cover could be anything."""
    shutil.copytree(runs / "plain", tmp_path / "a")
    reheaded(tmp_path / "a" / "checkpoint.safetensors", hide)
    refused(tmp_path / "a", "truncated or altered")


def test_a_header_is_short(runs: Path, tmp_path: Path):
    shutil.copytree(runs / "plain", tmp_path / "a")
    path = tmp_path / "a" / "checkpoint.safetensors"
    reheaded(path, lambda header, body: body, padding=1000)
    reader.read(tmp_path / "a")
    reheaded(path, lambda header, body: body, padding=2**16)
    refused(tmp_path / "a", "truncated or altered")


def test_a_tensor_that_no_run_of_the_config_has_is_refused_before_it_is_read(runs: Path, tmp_path: Path):
    shutil.copytree(runs / "plain", tmp_path / "a")
    path = tmp_path / "a" / "checkpoint.safetensors"

    def huge(header: Header, body: bytes) -> bytes:
        end = max(header[name]["data_offsets"][1] for name in header.keys() - {"__metadata__"})
        header["velocity"] = {"dtype": "F32", "shape": [2**32], "data_offsets": [end, end + 2**34]}
        return body

    reheaded(path, huge)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + 2**34)  # sparse: it takes no room
    with pytest.raises(InputError, match=rf"velocity has {2**32} elements"):
        reader.read(tmp_path / "a")


def tensor(name: str, value: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any, Any], None]:
    def change(about: Any, tensors: Any) -> None:
        tensors[name] = value(tensors[name]).clone()

    return change


def noted(about: Any, tensors: Any) -> None:
    about["totals"]["privacy_limited_rounds"] = 4


def moving(about: Any, tensors: Any) -> None:
    tensors["velocity"] = torch.zeros_like(tensors["theta"])


def still(about: Any, tensors: Any) -> None:
    del tensors["velocity"]


def first(value: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """The same, except for the first number."""
    return lambda x: torch.cat([torch.tensor([value], dtype=x.dtype), x[1:]])


IMPOSSIBLE = [
    ("plain", noted, "privacy_limited_rounds: must be at most 3"),
    ("plain", tensor("server.ids", first(-1)), "server.ids: must be devices from 0 to 29"),
    ("plain", tensor("server.ids", lambda x: x.flip(0)), "server.ids: must be devices .* in order"),
    ("plain", tensor("server.ids", lambda x: torch.cat([x[1:2], x[1:]])), "server.ids: must be devices .* each once"),
    ("plain", tensor("server.participations", first(0)), "server.participations: must be from 1 to 3"),
    ("plain", tensor("server.participations", first(4)), "server.participations: must be from 1 to 3"),
    ("plain", tensor("server.mu_squared", first(-1.0)), "server.mu_squared: must be numbers above 0"),
    ("plain", tensor("server.mu_squared", first(float("nan"))), "server.mu_squared: must be numbers above 0"),
    ("plain", tensor("noise_multipliers", first(float("inf"))), "noise_multipliers: must be 0, or numbers"),
    (
        "plain",
        tensor("noise_multipliers", lambda x: x[:1].expand(len(x))),
        "noise_multipliers: must be in rising",
    ),
    ("plain", tensor("noise_multiplier_rounds", first(3)), "noise_multiplier_rounds: must be at most 3 in all"),
    ("plain", moving, "velocity: must be there where it is used"),
    ("momentum", still, "velocity: must be there where it is used"),
    ("momentum", tensor("velocity", first(float("nan"))), "velocity: must be finite, as theta is"),
    ("echo", tensor("memory", first(float("inf"))), "memory: must be finite, as theta is"),
    ("echo", tensor("memory.norms", first(float("nan"))), "memory.norms: must be finite, from 0 on"),
    ("echo", tensor("memory.used_until", first(2)), "memory.used_until: must be -1, or a round from 3 on"),
    ("echo", tensor("memory.ids", first(-1)), "memory.ids: must be devices from 0 to 29"),
    ("echo", tensor("decoded.rounds", first(-1)), "decoded.rounds: must be rounds from 0 to 2"),
    ("echo", tensor("decoded.rounds", lambda x: x + 1), "decoded.rounds: must be rounds from 0 to 2"),
]


@pytest.mark.parametrize(
    ("run", "change", "message"), IMPOSSIBLE, ids=[f"{i}-{case[2].split(':')[0]}" for i, case in enumerate(IMPOSSIBLE)]
)
def test_a_state_that_no_run_of_the_config_leaves_is_refused(
    runs: Path, tmp_path: Path, run: str, change: Any, message: str
):
    shutil.copytree(runs / run, tmp_path / "a")
    resealed(tmp_path / "a" / "checkpoint.safetensors", change)
    refused(tmp_path / "a", message, **SETTINGS[run])


def test_a_run_goes_on_with_a_model_and_with_memories_of_its_own_length_alone(tmp_path: Path):
    def state(**sizes: list[int]) -> Checkpoint:
        tensors = {f"{name}.sizes": torch.tensor(each) for name, each in sizes.items()}
        return Checkpoint(3, tensors, {}, LogMark(), dimension=7)

    for dimension in (7, None):
        require_continuable(state(memory=[7, 0], decoded=[7]), dimension, tmp_path)
    for dimension in (6, 8):
        with pytest.raises(InputError, match=f"a model of 7 parameters; must be {dimension}"):
            require_continuable(state(), dimension, tmp_path)
    for name in ("memory", "decoded"):
        with pytest.raises(InputError, match=rf"{name}\.sizes: must be at most 7"):
            require_continuable(state(**{name: [7, 8]}), 7, tmp_path)
