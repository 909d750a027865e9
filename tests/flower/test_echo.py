"""What devices repeat stays on their nodes: it is sent as the plan says and no longer, and a run survives its loss."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Message, RecordDict

from pfels.config.load import load_config
from pfels.experiment.setup import Experiment, build
from pfels.flower import client_app, messages
from pfels.flower.round import FORGOTTEN, ServerRound
from pfels.flower.server_app import summary_lines
from pfels.schemes.plan import RoundPlan
from tests.flower.in_process import (
    FIRST_NODE,
    InProcessGrid,
    figures,
    has_signals,
    refused,
    simulated,
    without_node_1,
    without_radio,
)

Flower = Callable[..., Any]

ROUNDS = 10
CUT = 5  # round in which nodes or the server are started again
ECHO = {"scheme": "pfels-echo", "compression__ratio": 1.0, "rounds": ROUNDS}  # 5 groups, so up to 5 bands
LAST = 4  # lag of the last band
ALL = range(4)


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return build(load_config("demo", {key.replace("__", "."): value for key, value in ECHO.items()}))


@pytest.fixture(scope="module")
def plans(experiment: Experiment) -> list[RoundPlan]:
    return [experiment.scheme.prepare(experiment.draws, t) for t in range(ROUNDS)]


def repeating(plan: RoundPlan, *, before: int, partition: int | None = None) -> list[int]:
    """The devices of a plan that repeat a turn from before a round, of one node or of all."""
    assert plan.echo.turns is not None
    devices = plan.sending[plan.echo.turns < min(before, plan.round)].tolist()
    return [device for device in devices if partition is None or device % 4 == partition]


def silent(record: dict[str, Any]) -> int:
    return record["replies"]["dropped"].get(FORGOTTEN, 0)


def test_a_node_that_restarts_is_silent_until_its_devices_next_turns(flower: Flower, plans: list[RoundPlan]):
    result, _ = flower(**ECHO, restarts={CUT: [1]})
    for record, plan in zip(result.records, plans, strict=True):
        lost = len(repeating(plan, before=CUT, partition=1)) if plan.round >= CUT else 0
        assert (lost > 0) == (CUT <= plan.round < CUT + LAST)
        assert silent(record) == lost == record["replies"]["expected"] - record["replies"]["used"]
        assert record["participants"] == len(plan.training), "its devices take part at their turns"
        assert record["echoes"] == len(plan.repeating) - lost
    charged = figures(simulated(**ECHO).summary["privacy"])
    assert figures(result.summary["privacy"]) == charged, "silence is charged as if it had sent"


def test_what_is_not_repeated_is_not_taken_out_of_the_sum(experiment: Experiment, plans: list[RoundPlan]):
    """Of a turn, the share of those heard at it that are heard again is taken out; by default everybody was heard."""
    scheme, plan, theta = experiment.scheme, plans[6], torch.zeros(experiment.setting.dimension)
    turns = {turn: np.flatnonzero(plan.echo.turns == turn).tolist() for turn in (3, 5)}
    decoded = {turn: torch.full_like(theta, float(turn)) for turn in turns}
    heard = {3: set(plan.sending[turns[3][:8]].tolist())}  # at its turn, eight of those who are to repeat now
    here = ServerRound.begin(scheme, experiment.draws, plan, theta, decoded=decoded, heard=heard)
    here.used = set(range(len(plan.sending))) - set(turns[3][6:9]) - set(turns[5][:2])
    shares = {3: 6 / 8, 5: 1 - 2 / len(turns[5])}
    expected = scheme.decode(plan, here.y.total(), {turn: x * shares[turn] for turn, x in decoded.items()})
    assert torch.allclose(here.result().decoded, expected, rtol=1e-6)


@pytest.mark.parametrize("state_survives", [True, False])
def test_a_killed_server_continues_with_what_it_decoded(
    flower: Flower, monkeypatch: pytest.MonkeyPatch, state_survives: bool
):
    """Flower gives nodes a new state for a new run, so they go on like nodes that restart in that round."""
    whole, _ = flower(**ECHO, restarts={} if state_survives else {CUT: ALL}, out="whole")
    grids, begin = [], ServerRound.begin

    def killed(*arguments: Any, **earlier: Any) -> ServerRound:
        if arguments[2].round == CUT:
            raise KeyboardInterrupt
        return begin(*arguments, **earlier)

    monkeypatch.setattr(ServerRound, "begin", killed)
    with pytest.raises(KeyboardInterrupt):
        flower(**ECHO, out="cut", late=lambda grid, partition: bool(grids.append(grid)))
    monkeypatch.setattr(ServerRound, "begin", begin)
    rest, grid = flower(**ECHO, out="cut", contexts=grids[0].contexts if state_survives else None)
    assert min(message.content["request"]["round"] for message in grid.requests) == CUT
    assert torch.equal(rest.parameters, whole.parameters)
    assert sum(map(silent, rest.records)) == sum(map(silent, whole.records))
    assert rest.summary["privacy"] == whole.summary["privacy"]


def test_with_secret_noise_an_interrupted_round_has_no_echo_to_take_out(flower: Flower, plans: list[RoundPlan]):
    def interrupt(reply: Message, partition: int) -> Message:
        if has_signals(reply) and reply.metadata.group_id == str(CUT + 1):
            raise KeyboardInterrupt
        return reply

    with pytest.raises(KeyboardInterrupt):
        flower(**ECHO, noise="secret", change=interrupt)
    rest, grid = flower(**ECHO, noise="secret")
    assert min(message.content["request"]["round"] for message in grid.requests) == CUT + 1
    assert [record.get("lost", False) for record in rest.records] == [t == CUT for t in range(ROUNDS)]
    for record, plan in zip(rest.records[CUT + 1 :], plans[CUT + 1 :], strict=True):
        assert silent(record) == len(repeating(plan, before=CUT + 1))
    assert torch.isfinite(rest.parameters).all()
    assert without_radio(rest) == without_radio(simulated(**ECHO))


def test_nothing_of_a_device_is_left_on_its_node_when_its_echo_is_over(flower: Flower):
    seen = set()

    def check(grid: InProcessGrid, partition: int) -> bool:
        if grid.requests:
            t, state = grid.requests[-1].content["request"]["round"], grid.contexts[FIRST_NODE + partition].state
            until = {name.removeprefix("until."): state[name]["round"] for name in state if name.startswith("until.")}
            assert set(state) == {"done", *(f"memory.{i}" for i in until), *(f"until.{i}" for i in until)}
            assert all(t < end <= t + LAST for end in until.values())
            seen.add((t, bool(until)))
        return False

    flower(**ECHO, late=check)
    assert seen == {(t, t < ROUNDS - 1) for t in range(ROUNDS)}, "after the last round, nothing at all"


def quiet_echo(plans: list[RoundPlan]) -> tuple[int, int]:
    """A round, and a device that then still keeps what it sent, but whose channel does not carry it."""
    for plan in plans[LAST:]:
        kept = {device for turn in plans[plan.round - LAST : plan.round] for device in turn.training.tolist()}
        if quiet := kept - set(plan.sending.tolist()):
            return plan.round, min(quiet)
    raise AssertionError("no such round")


def test_a_node_repeats_only_what_its_own_plan_names(
    flower: Flower, plans: list[RoundPlan], caplog: pytest.LogCaptureFixture
):
    t, quiet = quiet_echo(plans)
    before: list[RecordDict] = []

    def store(grid: InProcessGrid, partition: int) -> bool:
        if grid.requests and grid.requests[-1].content["request"]["round"] == t - 1 and partition == quiet % 4:
            before.append(RecordDict(dict(grid.contexts[FIRST_NODE + partition].state)))
        return False

    _, grid = flower(**ECHO, late=store)
    node = FIRST_NODE + quiet % 4
    [request] = [
        message for message in grid.requests
        if message.metadata.dst_node_id == node and message.content["request"]["round"] == t
    ]  # fmt: skip
    context, fields = grid.contexts[node], request.content["request"]
    context.state = before[0]  # as if it had not been asked for this round yet
    assert f"memory.{quiet}" in context.state
    devices, again = list(fields["devices"]), repeating(plans[t], before=t, partition=quiet % 4)
    for wrong, line in (([quiet], f"device {quiet} is not on this node"), ([again[0]] * 2, "a device is named twice")):
        fields["devices"] = wrong
        with refused(caplog, line):
            client_app.app(request, context)
    fields["devices"] = devices
    another_turn = context.state[f"until.{again[0]}"]["round"] + LAST + 1
    context.state[f"until.{again[0]}"] = ConfigRecord({"round": another_turn})
    del context.state[f"memory.{again[1]}"], context.state[f"until.{again[1]}"]
    reply = client_app.app(request, context)
    assert set(reply.content["silent"]["devices"]) == {again[0], again[1]}
    assert len(reply.content["x"]["x"]) == 4 * plans[t].subcarriers * (len(devices) - 2)
    kept = set(context.state)
    with refused(caplog, f"round {t}: already answered"):
        client_app.app(request, context)
    assert set(context.state) == kept


@pytest.mark.parametrize("devices", [[4], [5, 5], [5.0], [float("inf")], ["5"], [True], b"\5", 5], ids=repr)
def test_a_malformed_list_of_silent_devices_is_unusable(devices: Any):
    for record in (ConfigRecord({"devices": devices}), ConfigRecord({}), messages.packed(torch.tensor([5.0]))):
        with pytest.raises(messages.UnusableError, match="malformed"):
            messages.left_out(RecordDict({"silent": record}), "silent", among=[1, 5, 9])
    good = RecordDict({"silent": ConfigRecord({"devices": [9, 1]})})
    assert messages.left_out(good, "silent", among=[1, 5, 9]) == {1, 9}


def test_an_echo_may_be_as_long_as_its_own_level_allows(experiment: Experiment, plans: list[RoundPlan]):
    plan, theta = plans[6], torch.zeros(experiment.setting.dimension)
    air, place = plan.require_air(), len(plan.sending) - 1
    assert air.levels[place] < air.levels[0]
    unit = torch.zeros(1, plan.subcarriers)
    unit[0, 0] = air.levels[place] / abs(air.gains[place]) * air.bound
    for factor, dropped in ((1.0, {}), (1.001, {"above its norm bound": 1})):
        here = ServerRound.begin(experiment.scheme, experiment.draws, plan, theta, decoded={}, heard={})
        here.asked = {FIRST_NODE: [int(plan.sending[place])]}
        content = messages.signals_record(unit * factor)
        reply = Message(content, FIRST_NODE, "train", group_id=here.group)
        reply.metadata.__dict__["_src_node_id"] = FIRST_NODE
        here.add([reply])
        assert dict(here.dropped) == dropped


@pytest.fixture(scope="module")
def without() -> list[torch.Tensor]:
    """The model of a run in which node 1 never replies."""
    return []


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("names a device that trains", "malformed"),
        ("has rows for silent devices", "wrong length"),
        ("repeats above its level", "above its norm bound"),
    ],
)
def test_a_reply_with_a_wrong_echo_counts_as_none(
    flower: Flower, plans: list[RoundPlan], without: list[torch.Tensor], kind: str, reason: str
):
    def change(reply: Message, partition: int) -> Message:
        if partition != 1 or not has_signals(reply):
            return reply
        plan = plans[int(reply.metadata.group_id) - 1]
        x = torch.frombuffer(bytearray(reply.content["x"]["x"]), dtype=torch.float32).view(-1, plan.subcarriers)
        trains = [device for device in plan.training.tolist() if device % 4 == 1][:1]
        reply.content = {
            "names a device that trains": messages.signals_record(x[len(trains) :], trains or [0]),
            "has rows for silent devices": messages.signals_record(x, repeating(plan, before=99, partition=1)[:1]),
            "repeats above its level": messages.signals_record(x * 1e6),
        }[kind]
        if kind == "has rows for silent devices" and plan.round == 0:  # nobody repeats yet
            reply.content = messages.signals_record(x[:-1])
        return reply

    result, _ = flower(**ECHO, change=change)
    if not without:
        without.append(flower(**ECHO, change=without_node_1, out="without")[0].parameters)
    assert torch.equal(result.parameters, without[0])
    for record in result.records:
        replies = record["replies"]
        assert replies["dropped"] == {reason: replies["expected"] - replies["used"]}


def test_the_summary_counts_the_uploads_that_repeat(flower: Flower):
    result, _ = flower(**ECHO | {"rounds": 6})
    used, echoes = (sum(r["replies"]["used"] for r in result.records), sum(r["echoes"] for r in result.records))
    total = sum(r["replies"]["bytes_per_device"] * r["replies"]["used"] for r in result.records)
    line = f"{total / 1e6:.1f} MB in {used} uploads, {echoes} of them of what a device sent before"
    assert line in summary_lines(result)[-1]
    assert 0 < echoes < used
