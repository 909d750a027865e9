"""What a node answers does not depend on its data, except through the numbers that noise hides.

Nodes whose data differ in one device, emptied, extreme, not numbers or wrongly labelled, get the same hostile requests.
Everything that a server can observe must be the same: kinds of reply, sizes, error codes and texts, and ledgers; and no
signal may be longer than its bound.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import MessageType, RecordDict
from pydantic import BaseModel

from pfels.config.load import load_config
from pfels.config.preset_files import presets
from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.experiment.setup import Experiment, build
from pfels.flower import limits, settings
from pfels.flower.messages import REFUSED, Greeting, TrainRequest
from pfels.schemes.registry import usable_schemes
from tests.flower.hostile_server import BASE, DEVICES, SCHEMES, VICTIM, WORLDS, Node, experiment, honest

HOSTILE: dict[str, dict[str, Any]] = {
    "tiny bound": {"training.learning_rate": 1e-20, "training.clip": 1e-20},
    "tiny clip": {"training.clip": 1e-20},
    "huge rate": {"training.learning_rate": 1e20},
    "huge clip": {"training.clip": 1e20},
    "least bound accepted": {"training.learning_rate": 1e-6, "training.clip": 1e-3, "training.local_epochs": 1},
    "largest rate accepted": {"training.learning_rate": 1e3, "training.clip": 1e3},
    "tiny noise": {"channel.noise_std": 1e-20},
    "tiny gains": {"channel.gain_min": 1e-20, "channel.gain_mean": 1e-20, "channel.gain_max": 1e-19},
    "batches of one": {"training.batch_size": 1, "training.local_epochs": 2},
    "features": {"data.features": "hog"},
    "another network": {"model.name": "cnn", "training.local_epochs": 1},
    "other data": {"data.name": "synthetic", "preset": "demo"},
    "a file of the node": {"preset": "OWN"},
    "a data file of the node": {"data.name": "file", "data.path": "OWN"},
}
REFUSED_SETTINGS = ("tiny bound", "tiny clip", "huge rate", "huge clip", "tiny noise", "tiny gains")
MODELS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "model of NaN": lambda theta: theta * math.nan,
    "one infinite parameter": lambda theta: torch.where(torch.arange(len(theta)) == 7, math.inf, theta),
    "huge model": lambda theta: theta.sign() * 1e38,
    "largest model accepted": lambda theta: theta.sign() * 1e9,
    "denormal model": lambda theta: theta * 1e-42,
    "longer model": lambda theta: torch.cat([theta, theta[:75]]),
    "model of no axis": lambda theta: theta.view(1, -1),
    "no model": lambda theta: theta[:0],
}


def requests(run: dict[str, Any], started: Experiment, digest: str) -> Iterator[TrainRequest]:
    """Honest rounds, and then replays, wrong rounds, devices, digests and models."""
    theta = started.draws.start
    assert theta is not None
    for t in range(started.config.rounds):
        plan = started.scheme.prepare(started.draws, t)
        mine = [device for device in plan.sending.tolist() if device in DEVICES]
        waiting = [device for device in plan.waiting.tolist() if device in DEVICES]
        request = TrainRequest(t, digest, None, theta, mine, waiting)
        if t == 1:
            for change in MODELS.values():
                yield replace(request, theta=change(theta))
            for devices in ([VICTIM, VICTIM], [1], [*mine, 99], [10**12]):
                yield replace(request, devices=devices)
            yield replace(request, digest="0" * 64)
            yield replace(request, round=10**9)
        yield request
        yield request  # again


def observed(node: Node, run: dict[str, Any], signals: list[torch.Tensor]) -> list[Any]:
    """All that a server observes of a node in a run, the ledger after every message included."""
    run = {key: str(node.folder / "own.npz") if value == "OWN" else value for key, value in run.items()}
    found, state = [], RecordDict()
    started = experiment({**run, "preset": "demo"} if run["preset"] != "demo" else run)
    shared = {} if started is None else settings.shared(started[0].config, "secret")
    digest = "0" if started is None else started[1]
    found.append(node.answer(Greeting(shared, digest).record(), MessageType.QUERY, run, state)[0])
    if started is None:
        started = experiment(dict(BASE, scheme=run["scheme"]))
        assert started is not None
    for request in requests(run, started[0], digest):
        seen, reply = node.answer(request.record(), MessageType.TRAIN, run, state)
        found.append((seen, node.spent, sorted(state)))
        if reply is not None and "x" in reply.content and request.devices:
            record = reply.content["x"]
            raw = record["x"] if isinstance(record["x"], bytes) else record["x"].data
            signals.append(torch.frombuffer(bytearray(raw), dtype=torch.float32).view(-1))
    return found


def worlds(
    tmp_path: Path, run: dict[str, Any], names: Collection[str] = tuple(WORLDS)
) -> dict[str, tuple[list[Any], list[torch.Tensor]]]:
    found = {}
    for number, name in enumerate(names):
        signals: list[torch.Tensor] = []
        folder = tmp_path / f"{number:02}"
        seen = observed(Node.of(folder, WORLDS[name](honest())), run, signals)
        found[name] = ([_anonymous(one, folder) for one in seen], signals)
    return found


def _anonymous(seen: Any, folder: Path) -> Any:
    return json.loads(json.dumps(seen, default=repr).replace(str(folder), "FOLDER"))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_server_observes_the_same_of_every_data(tmp_path: Path, scheme: str):
    found = worlds(tmp_path, {**BASE, **SCHEMES[scheme]})
    expected, signals = found.pop("as they are")
    assert any(isinstance(seen[0][0], int) for seen in expected[1:]), "the node has answered"
    assert len(signals) >= 2
    for name, (seen, others) in found.items():
        assert seen == expected, name
        assert [len(one) for one in others] == [len(one) for one in signals], name
        assert all(bool(torch.isfinite(one).all()) for one in others), name


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_server_observes_the_same_whatever_settings_it_chooses(tmp_path: Path, kind: str):
    run = {**BASE, "scheme": "wfl-pdp", "rounds": 2, **HOSTILE[kind]}
    found = worlds(
        tmp_path, run, ["as they are", "emptied", "tiny", "extreme", "not a number", "a label beyond the classes"]
    )
    expected, signals = found.pop("as they are")
    for name, (seen, others) in found.items():
        assert seen == expected, name
        assert [len(one) for one in others] == [len(one) for one in signals], name
    texts = {seen[0][0] for seen in expected[1:] if isinstance(seen[0][0], str)}
    assert texts <= {f"<class 'pfels.errors.RunError'>:<'{REFUSED}'>"}
    if kind in REFUSED_SETTINGS:
        assert not signals
        assert expected[-1][1] == {}, "nothing was charged"


def test_every_number_that_a_server_may_set_has_limits_on_a_node():
    """Those of the config itself, or narrower ones: a new setting must have them too."""
    numbers = {}
    for name, about in Config.model_fields.items():
        inner = about.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            numbers |= {f"{name}.{key}": field for key, field in inner.model_fields.items()}
        else:
            numbers[name] = about
    numbers = {key: about for key, about in numbers.items() if re.search(r"\b(int|float)\b", repr(about.annotation))}
    assert len(numbers) > 30
    for key, about in numbers.items():
        text = repr(about)
        bounded = re.search(r"\bG[et]\(", text) and re.search(r"\bL[et]\(", text)
        assert bounded or key in limits.RANGES, key
    assert set(limits.RANGES) <= set(numbers)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"training.clip": 9e-7}, "training.clip = 9e-07: a node accepts 1e-06 to 1e+06"),
        ({"channel.noise_std": 1e7}, "channel.noise_std = 10000000.0: a node accepts"),
        ({"channel.snr_max_db": 101.0}, "channel.snr_max_db = 101.0: a node accepts"),
        ({"training.momentum": 0.99995}, "training.momentum = 0.99995: a node accepts 0 to 0.9999"),
        ({"training.learning_rate": 1e3, "training.clip": 1e6}, "learning_rate·local_epochs·clip = 5e+09; a node"),
        ({"training.learning_rate": 1e-6, "training.clip": 1e-5}, "learning_rate·local_epochs·clip = 5e-11; a node"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_settings_beyond_the_limits_of_a_node_are_one_line(changes: dict[str, float], line: str):
    with pytest.raises(InputError, match=re.escape(line)):
        limits.require_settings(load_config("demo", changes))


def test_the_settings_of_all_presets_are_within_the_limits_of_a_node():
    for preset in presets():
        for scheme in usable_schemes():
            limits.require_settings(load_config(preset, {"scheme": scheme}))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1.001e9, -1.001e9])
def test_a_model_of_a_node_has_its_length_and_numbers_that_models_have(bad: float):
    theta = torch.full((7,), 1e9)
    limits.require_model(theta, dimension=7)
    for other in (theta[:6], torch.ones(8), theta.view(1, 7), theta.view(7, 1)):
        with pytest.raises(InputError, match="parameters; this node has 7"):
            limits.require_model(other, dimension=7)
    theta[3] = bad
    with pytest.raises(InputError, match="no number, or beyond"):
        limits.require_model(theta, dimension=7)


@pytest.mark.parametrize("level", [0.9e-24, 1.1e24, math.nan, math.inf])
def test_a_round_whose_level_single_precision_does_not_hold_is_refused(level: float):
    started = build(load_config("demo", {"scheme": "wfl-pdp"}))
    plan = started.scheme.prepare(started.draws, 0)
    limits.require_plan(started.scheme, plan)
    weights = np.ones(len(plan.sending))
    weights[-1] = level / (plan.air.beta / abs(plan.air.gains[-1]))
    object.__setattr__(plan.air, "weights", weights)  # as no honest scheme makes it
    with pytest.raises(InputError, match=r"^round 0: signals of length"):
        limits.require_plan(started.scheme, plan)


@pytest.mark.parametrize("length", [0.9e-12, 1.1e15])
def test_a_round_whose_signals_are_too_short_or_too_long_for_single_precision_is_refused(length: float):
    started = build(load_config("demo", {"scheme": "wfl-pdp"}))
    plan = started.scheme.prepare(started.draws, 0)
    object.__setattr__(plan.air, "bound", length / float((plan.air.levels / abs(plan.air.gains))[0]))
    with pytest.raises(InputError, match=r"^round 0: signals of length"):
        limits.require_plan(started.scheme, plan)


@pytest.mark.parametrize(
    ("share", "refused"), [(0.0, False), (2.0**-39, False), (2.0**-41, True), (math.nan, True), (math.inf, True)]
)
def test_noise_far_below_the_signal_that_it_hides_is_refused(
    monkeypatch: pytest.MonkeyPatch, share: float, refused: bool
):
    """Its lattice would not hold the signal. A device may be planned to add none."""
    started = build(load_config("demo", {"scheme": "dp-fedavg"}))
    plan = started.scheme.prepare(started.draws, 0)
    bound = started.scheme.setting.bound
    monkeypatch.setattr(type(started.scheme), "noise_std", lambda self, plan, device: share * bound)
    if not refused:
        limits.require_plan(started.scheme, plan)
        return
    with pytest.raises(InputError, match=r"^round 0: noise of .* beside signals"):
        limits.require_plan(started.scheme, plan)
