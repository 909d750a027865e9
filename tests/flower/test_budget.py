"""What a node's owner allows holds in every run, whatever a server asks."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Context, Message, RecordDict

from pfels.config.load import load_config
from pfels.errors import InputError, RunError
from pfels.experiment.setup import build
from pfels.flower import client_app
from pfels.flower.budget import NodeBudget, transmission_costs
from pfels.flower.messages import REFUSED
from pfels.flower.round import SPENT
from pfels.privacy.device_ledger import DeviceLedger
from pfels.privacy.gaussian import gaussian_epsilon
from pfels.schemes.exposure import own_noise_costs
from tests.flower.in_process import has_signals, refused, simulated

Flower = Callable[..., Any]
DELTA = 1e-5


def with_ledgers(folder: Path, *, epsilon: float, nodes: int = 4, **more: Any) -> list[dict[str, Any]]:
    """The config of each node, with a ledger of its own, made if it is missing."""
    configs = []
    for partition in range(nodes):
        path = folder / f"ledger-{partition}.json"
        if not path.exists():
            DeviceLedger(path).create(devices=100, partition=partition, partitions=nodes)
        configs.append({"ledger": str(path), "budget-epsilon": epsilon, "budget-delta": DELTA, **more})
    return configs


def spent(nodes: list[dict[str, Any]]) -> dict[int, Any]:
    """What each device has spent, by the ledgers of all nodes."""
    found = [DeviceLedger(Path(node["ledger"])).read()["spent"] for node in nodes]
    return {int(device): entry for entries in found for device, entry in entries.items()}


def test_a_curious_operator_who_asks_400_times_gets_no_more_than_the_budget(flower: Flower, tmp_path: Path):
    """In a new run every time, with the same round and the same model: fresh noise on the same update."""
    nodes = with_ledgers(tmp_path, epsilon=20.0)
    _, grid = flower(scheme="dp-fedavg", rounds=1, noise="secret", nodes=nodes)
    request = grid.requests[0]
    first, node = grid.contexts[request.metadata.dst_node_id], grid.contexts[request.metadata.dst_node_id].node_config
    devices = list(request.content["request"]["devices"])
    sent = 1
    for ask in range(400):
        context = Context(2 + ask, first.node_id, node, RecordDict(), first.run_config)
        reply = client_app.app(request, context)
        refused = list(reply.content["refused"]["devices"]) if "refused" in reply.content else []
        assert refused in ([], devices), "they have taken part equally often"
        assert len(reply.content["x"]["x"]) == (0 if refused else 4 * 2410 * len(devices))
        sent += not refused
    assert 2 <= sent < 10
    mine = {device: entry for device, entry in spent(nodes).items() if device in devices}
    assert {entry["participations"] for entry in mine.values()} == {sent}
    for entry in mine.values():
        assert gaussian_epsilon(mu=math.sqrt(entry["mu_squared"]), delta=DELTA) <= 20.0


@pytest.mark.parametrize(
    "changes",
    [{"scheme": "pfels-plus"}, {"scheme": "dp-fedavg"}, {"scheme": "pfels-echo", "compression__ratio": 1.0}],
    ids=lambda changes: changes["scheme"],
)
def test_ledgers_hold_what_the_run_s_own_accountant_counts_and_outlive_it(
    flower: Flower, tmp_path: Path, changes: dict[str, Any]
):
    """Echoes included: a repetition costs its weight²/z²."""
    nodes = with_ledgers(tmp_path, epsilon=1e4)
    settings = {**changes, "rounds": 6, "noise": "secret"}
    e = build(load_config("demo", {key.replace("__", "."): v for key, v in settings.items() if key != "noise"}))
    expected: dict[int, float] = {}
    for t in range(6):
        event = e.scheme.prepare(e.draws, t).event
        for device, cost in zip(event.participants, event.server_costs.tolist(), strict=True):
            expected[device] = expected.get(device, 0.0) + cost
    if changes["scheme"] == "pfels-echo":
        assert len({round(cost, 9) for cost in expected.values()}) > 2, "devices whose echo went on have spent more"
    for runs in (1, 2):
        flower(**settings, nodes=nodes, out=f"run{runs}")
        found = spent(nodes)
        assert set(found) == set(expected)
        for device, entry in found.items():
            assert runs * expected[device] <= entry["mu_squared"] <= runs * expected[device] * (1 + 1e-9)


def test_a_device_that_has_spent_its_budget_is_silent_and_the_run_continues(flower: Flower, tmp_path: Path):
    one = simulated(scheme="pfels-plus", rounds=12).summary["privacy"]["noise_multiplier_min"]
    epsilon = gaussian_epsilon(mu=math.sqrt(2.5) / one, delta=DELTA)  # enough for two transmissions
    nodes = with_ledgers(tmp_path, epsilon=epsilon)
    result, _ = flower(scheme="pfels-plus", rounds=12, noise="secret", nodes=nodes)
    counts = [entry["participations"] for entry in spent(nodes).values()]
    assert max(counts) == 2
    refused = sum(record["replies"]["dropped"].get(SPENT, 0) for record in result.records)
    used = sum(record["replies"]["used"] for record in result.records)
    assert used == sum(counts)
    assert refused == sum(record["replies"]["expected"] for record in result.records) - used > 0


def test_a_transmission_is_charged_before_anything_is_trained(
    flower: Flower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen = []

    def stopped(*arguments: Any) -> None:
        seen.append(spent(nodes))
        raise RunError("power failure")

    monkeypatch.setattr(client_app, "_signals", stopped)
    nodes = with_ledgers(tmp_path, epsilon=1e4)
    result, _ = flower(scheme="pfels", rounds=1, noise="secret", nodes=nodes)
    assert result.records[0]["replies"]["used"] == 0
    assert len(seen) == 4
    assert set(spent(nodes)) == set(result.records[0]["cohort"])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"ledger": "/nowhere/ledger.json"}, "ledger = /nowhere/ledger.json: not found; restore it from a backup"),
        ({"budget-epsilon": ""}, "budget-epsilon = '': must be a number"),
        ({"budget-delta": 0.0}, "budget-delta = 0: must be in (0, 1)"),
        ({"num-partitions": 5}, "of partition 1 of 4 of 100 devices; this node is partition 1 of 5 of 100"),
        ({"noise": "seed"}, "noise = 'seed': a node with a ledger sends only with noise = \"secret\""),
    ],
    ids=lambda change: str(change)[:20],
)
def test_a_node_without_a_fit_ledger_sends_nothing_and_says_so_in_one_line(
    flower: Flower, tmp_path: Path, caplog: pytest.LogCaptureFixture, change: dict[str, Any], line: str
):
    """The owner reads why; the server reads nothing of the node's ledger."""
    nodes = with_ledgers(tmp_path, epsilon=8.0)
    nodes[1] |= change
    with pytest.raises(RunError, match=rf"^node 101 \(partition-id 1\): {re.escape(REFUSED)}$"):
        flower(scheme="pfels", rounds=1, noise=change.get("noise", "secret"), nodes=[{}, nodes[1], {}, {}])
    assert line in caplog.text
    assert not (tmp_path / "run").exists()


def test_a_server_that_does_not_greet_meets_the_same_ledger(
    flower: Flower, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    nodes = with_ledgers(tmp_path, epsilon=1e4)
    _, grid = flower(scheme="pfels", rounds=1, noise="secret", nodes=nodes)
    request = grid.requests[0]
    first = grid.contexts[request.metadata.dst_node_id]
    before = spent(nodes)
    path = Path(first.node_config["ledger"])
    content = path.read_bytes()
    path.unlink()
    with refused(caplog, "not found"):
        client_app.app(request, Context(2, first.node_id, first.node_config, RecordDict(), first.run_config))
    path.write_bytes(content.replace(b'"participations": 1', b'"participations": 0'))
    with refused(caplog, "damaged or altered"):
        client_app.app(request, Context(3, first.node_id, first.node_config, RecordDict(), first.run_config))
    path.write_bytes(content)
    assert spent(nodes) == before


def test_a_node_with_data_of_its_own_needs_a_ledger_or_must_say_that_it_has_none():
    with pytest.raises(InputError, match="ledger: missing; a node with local-data needs one"):
        NodeBudget.of({"local-data": "own.npz"})
    assert NodeBudget.of({"local-data": "own.npz", "ledger": "none"}) is None
    assert NodeBudget.of({}) is None


def test_rounding_of_artificial_noise_is_charged_and_small():
    e = build(load_config("demo", {"scheme": "artificial-noise", "rounds": 1}))
    plan = e.scheme.prepare(e.draws, 0)
    costs = transmission_costs(e.scheme, plan)
    exact = dict(zip(plan.event.participants, own_noise_costs(e.scheme, plan).tolist(), strict=True))
    ratios = np.array([costs[device] / exact[device] for device in exact])
    assert (ratios > 1 + 1e-6).all()
    assert ratios.max() < 1.01


@pytest.mark.parametrize("scheme", ["artificial-noise", "dp-fedavg"])
def test_a_node_counts_on_the_noise_of_no_other_node(scheme: str):
    e = build(load_config("demo", {"scheme": scheme, "rounds": 1}))
    plan = e.scheme.prepare(e.draws, 0)
    s, costs = e.setting, transmission_costs(e.scheme, plan)
    for place, device in enumerate(plan.sending.tolist()):
        own = e.scheme.noise_std(plan, device)
        if plan.air is None:
            needed = (s.bound / own) ** 2
        else:
            needed = (plan.beta * s.bound) ** 2 / (s.noise_std**2 + (abs(plan.air.gains[place]) * own) ** 2)
        assert needed <= costs[device] <= needed * 1.01


def test_a_refused_device_that_the_server_did_not_ask_for_makes_a_reply_unusable(flower: Flower):
    def change(reply: Message, partition: int) -> Message:
        if partition == 1 and has_signals(reply):
            reply.content["refused"] = type(reply.content["x"])({"devices": [0]})  # of another node
        return reply

    result, _ = flower(scheme="pfels", rounds=1, change=change)
    missing = sum(device % 4 == 1 for device in result.records[0]["cohort"])
    assert result.records[0]["replies"]["dropped"] == {"malformed": missing}
    assert torch.isfinite(result.parameters).all()
