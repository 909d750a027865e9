"""The ClientApp: a node's devices train, clip, project and scale, and send k numbers each, or repeat what they sent.

A node derives the round by itself: cohort, channel and level. It answers for its own devices only, only if they were
drawn or are to repeat, and once per round, whatever the server asks. What a device repeats is what it sent at the turn
that the node's own plan names. If the node has a ledger, what a device sends is charged to it first, and a device that
has spent its owner's budget sends nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from pfels.arrays import DeviceIds
from pfels.errors import InputError, RunError
from pfels.experiment.setup import Experiment, build
from pfels.flower import settings
from pfels.flower.budget import NodeBudget
from pfels.flower.local_data import local_federation
from pfels.flower.messages import Greeting, NodeShare, TrainRequest, numbers, packed, signals_record
from pfels.flower.received import ExactNoise
from pfels.flower.settings import SECRET
from pfels.runtime.threads import one_thread_each
from pfels.schemes.memory import Kept, Memory
from pfels.schemes.plan import RoundPlan
from pfels.schemes.round import local_updates, transmissions
from pfels.schemes.scheme import keeps_unsent
from pfels.seeding import Secret
from pfels.training.updates import LocalUpdates

Pairs = frozenset[tuple[str, Any]]

app = ClientApp()


@app.query()
def greet(message: Message, context: Context) -> Message:
    """Reply which devices this node carries, or in which key its config differs from the server's."""
    share, node = _share(context.node_config), context.node_config
    try:
        greeting = Greeting.read(message.content)
        config = settings.config_of(context.run_config, node, label=greeting.config.get("seed"))
        noise = settings.noise_of(context.run_config, node)
        same = greeting.digest == settings.digest(config, noise)
        refused = "" if same else settings.difference(greeting.config, config, noise)
        NodeBudget.checked(node, share, devices=config.data.devices, noise=noise)
    except InputError as error:
        refused = str(error)
    return Message(replace(share, refused=refused).record(), reply_to=message)


@app.query("forget")
def forget(message: Message, context: Context) -> Message:
    """The run is over: delete what its devices kept."""
    for name in [name for name in context.state if name.startswith(("memory.", "until."))]:
        del context.state[name]
    return Message(RecordDict(), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the requested devices, and send the signals that the channel is to carry."""
    with one_thread_each():
        request = TrainRequest.read(message.content)
        experiment = _experiment(
            frozenset(context.run_config.items()), _relevant(context.node_config), _secret_seed(request, context)
        )
        _check_round(request, experiment, context)
        plan = experiment.scheme.prepare(experiment.draws, request.round)
        _check_devices(request, plan, context)
        context.state["done"] = ConfigRecord({"round": request.round})
        refused = _charge(experiment, plan, request, context)
        request = replace(request, devices=[device for device in request.devices if device not in refused])
        signals, silent = _signals(experiment, plan, request, context)
        _forget(context, request.round, last=experiment.config.rounds - 1)
    return Message(signals_record(signals, silent, sorted(refused)), reply_to=message)


def _check_round(request: TrainRequest, experiment: Experiment, context: Context) -> None:
    """Refuse another config or model, a round that was answered, and a round that the run does not have."""
    if request.digest != settings.digest(experiment.config, _noise(context)):
        raise RunError("the server's config is not the one of this run")
    if request.theta.shape != (experiment.setting.dimension,):
        raise RunError(
            f"a model of {request.theta.numel():,} parameters; this node has {experiment.setting.dimension:,}"
        )
    done = context.state.get("done", ConfigRecord({"round": -1}))["round"]
    if not done < request.round < experiment.config.rounds:
        raise RunError(f"round {request.round}: already answered, or not one of {experiment.config.rounds} rounds")


def _check_devices(request: TrainRequest, plan: RoundPlan, context: Context) -> None:
    """Refuse devices that this node does not carry, that have no part in this round, or that are named twice."""
    share = _share(context.node_config)
    for asked, drawn in ((request.devices, plan.sending), (request.waiting, plan.waiting)):
        if len(set(asked)) < len(asked):
            raise RunError(f"round {request.round}: a device is named twice")
        others = set(asked) - set(share.of(drawn).tolist())
        if others:
            raise RunError(f"round {request.round}: device {min(others)} is not on this node or was not drawn")


def _charge(experiment: Experiment, plan: RoundPlan, request: TrainRequest, context: Context) -> set[int]:
    """Charge the node's ledger, if it has one, before anything is sent; the devices that may not send."""
    share, noise, devices = _share(context.node_config), _noise(context), experiment.config.data.devices
    budget = NodeBudget.checked(context.node_config, share, devices=devices, noise=noise)
    if budget is None:
        return set()
    return budget.charge(experiment.scheme, plan, request.devices)


def _signals(
    experiment: Experiment, plan: RoundPlan, request: TrainRequest, context: Context
) -> tuple[Tensor, list[int]]:
    """The signals of the requested devices, one row per device, and the devices that have nothing to repeat; what
    devices remember goes to the node's state."""
    scheme, draws = experiment.scheme, experiment.draws
    add_noise = ExactNoise(len(request.devices)) if _noise(context) == SECRET else None
    memory = _memory(context, [*request.devices, *request.waiting])
    A = scheme.indices(draws, request.theta, request.round)  # noqa: N806
    rows, kept, fresh = dict[int, Tensor](), dict[int, Kept](), set(plan.training.tolist())
    for device, part in _updates(experiment, request, [d for d in request.devices if d in fresh], plan.training):
        sent = transmissions(scheme, draws, plan, part, A, memory=memory, add_noise=add_noise)
        rows[device] = sent.signals.clone()
        kept |= sent.kept
    rows |= _repeated(plan, [device for device in request.devices if device not in fresh], memory)
    if keeps_unsent(scheme):
        for device, part in _updates(experiment, request, request.waiting, plan.waiting):
            kept[device] = Kept(scheme.keep(plan, part, memory)[0].clone())
    for device, held in kept.items():
        context.state[f"memory.{device}"] = packed(held.row)
        if held.used_until is not None:
            context.state[f"until.{device}"] = ConfigRecord({"round": held.used_until})
    width = experiment.setting.dimension if A is None else len(A)
    sent_rows = [rows[device] for device in request.devices if device in rows]
    silent = [device for device in request.devices if device not in rows]
    return torch.cat(sent_rows) if sent_rows else torch.empty(0, width), silent


def _repeated(plan: RoundPlan, devices: Sequence[int], memory: Memory) -> dict[int, Tensor]:
    """What these devices send again, at their levels of this round: what they kept at the turn that the plan means.
    Those who kept nothing of it are left out."""
    places, ends, rows = {device: place for place, device in enumerate(plan.sending.tolist())}, plan.ends, {}
    for device in devices:
        kept, place = memory.devices.get(device), places[device]
        if kept is not None and ends is not None and kept.used_until == ends[place]:
            rows[device] = plan.transmit(kept.row.unsqueeze(0), slice(place, place + 1))
    return rows


def _updates(
    experiment: Experiment, request: TrainRequest, devices: Sequence[int], drawn: DeviceIds
) -> Iterator[tuple[int, LocalUpdates]]:
    """The update of each device by itself, at its place among `drawn`; valid until the next one is asked for."""
    places = {device: place for place, device in enumerate(drawn.tolist())}
    ids = np.array(devices, np.int64)
    for part, _ in local_updates(experiment.training, experiment.draws, request.theta, request.round, ids):
        for row, device in enumerate(devices[part.places]):
            yield device, part.one(row, at=places[device])


def _memory(context: Context, devices: Sequence[int]) -> Memory:
    """What these devices kept in earlier rounds of this run."""
    kept, state = dict[int, Kept](), context.state
    for device in devices:
        if f"memory.{device}" in state:
            end = state[f"until.{device}"]["round"] if f"until.{device}" in state else None
            kept[device] = Kept(numbers(state[f"memory.{device}"]), used_until=end)
    return Memory(kept)


def _forget(context: Context, t: int, *, last: int) -> None:
    """Delete what no round after t uses; `last` is the run's last round."""
    for name in [name for name in context.state if name.startswith("memory.")]:
        until = f"until.{name.removeprefix('memory.')}"
        if t == last or (until in context.state and context.state[until]["round"] <= t):
            for old in {name, until} & set(context.state):
                del context.state[old]


def _secret_seed(request: TrainRequest, context: Context) -> Secret | None:
    """The seed in a request, in a run whose seed is secret."""
    if context.run_config.get("seed") != SECRET:
        return None
    if request.secret is None:
        raise RunError('seed = "secret": the server did not send it')
    return request.secret


def _noise(context: Context) -> str:
    return settings.noise_of(context.run_config, context.node_config)


def _share(node_config: Mapping[str, Any]) -> NodeShare:
    found = [node_config.get(key) for key in ("partition-id", "num-partitions")]
    partition, partitions = found
    if type(partition) is not int or type(partitions) is not int or not 0 <= partition < partitions:
        raise InputError(
            f"--node-config: partition-id = {found[0]!r}, num-partitions = {found[1]!r}: must be whole numbers; give "
            "partition-id=0 num-partitions=4"
        )
    return NodeShare(partition, partitions)


def _relevant(node_config: Mapping[str, Any]) -> Pairs:
    """What the experiment depends on: nodes without data of their own share one, whichever devices they carry."""
    left_out = () if "local-data" in node_config else ("partition-id", "num-partitions")
    return frozenset((key, value) for key, value in node_config.items() if key not in left_out)


@lru_cache(maxsize=4)
def _experiment(run_config: Pairs, node_config: Pairs, secret: Secret | None) -> Experiment:
    """The experiment of a run; a process that handles many messages builds it once."""
    run, node = dict(run_config), dict(node_config)
    config = settings.config_of(run, node, label=None if secret is None else secret.label)
    own = local_federation(node["local-data"], config, _share(node)) if "local-data" in node else None
    return build(config, federation=own, seed=secret)
