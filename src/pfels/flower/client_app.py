"""The ClientApp: a node's devices train, clip, project and scale, and send k numbers each, or repeat what they sent.

A node derives the round by itself: cohort, channel and level. It answers for its own devices only, only if they were
drawn or are to repeat, and once per round, whatever the server asks. What a device repeats is what it sent at the turn
that the node's own plan names. If the node has a ledger, what a device sends is charged to it first, and a device that
has spent its owner's budget sends nothing.

Whether a node answers depends on the request, the config and the plan, and is settled before any data are read. From
then on it answers, with as many numbers as it does always. The reason of a refusal stays in the node's own log.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from pfels.errors import GuardError, InputError, RunError
from pfels.experiment.setup import Experiment, build
from pfels.flower import limits, settings
from pfels.flower.budget import NodeBudget
from pfels.flower.local_data import NodeData
from pfels.flower.messages import REFUSED, Greeting, NodeShare, TrainRequest, numbers, packed, signals_record
from pfels.flower.received import ExactNoise
from pfels.flower.sending import Sending
from pfels.flower.settings import SECRET
from pfels.runtime.threads import one_thread_each
from pfels.schemes.memory import Kept, Memory
from pfels.schemes.plan import RoundPlan
from pfels.seeding import Secret

LOG = logging.getLogger("pfels.node")
Pairs = frozenset[tuple[str, Any]]
Handler = Callable[[Message, Context], Message]

app = ClientApp()


def _discreet(handle: Handler) -> Handler:
    """The handler, whose errors go to the node's log: Flower would send their text to the server."""

    @wraps(handle)
    def handled(message: Message, context: Context) -> Message:
        try:
            return handle(message, context)
        except (InputError, RunError, GuardError) as error:
            LOG.error("refused: %s", error)
        except Exception:
            LOG.exception("refused, since this failed")
        raise RunError(REFUSED)

    return handled


@app.query()
@_discreet
def greet(message: Message, context: Context) -> Message:
    """Reply which devices this node carries, or in which key its config differs from the server's."""
    share, node = _share(context.node_config), context.node_config
    greeting = Greeting.read(message.content)
    refused = _difference(greeting, context)
    if not refused:
        try:
            label = greeting.config.get("seed")
            config, noise = settings.config_of(context.run_config, node, label=label), _noise(context)
            NodeBudget.checked(node, share, devices=config.data.devices, noise=noise)
            NodeData.of(config, share, node.get("local-data"), config.seed).require_readable()
        except Exception as error:
            LOG.error("does not take part: %s", error, exc_info=None if isinstance(error, InputError) else error)
            refused = REFUSED
    return Message(replace(share, refused=refused).record(), reply_to=message)


def _difference(greeting: Greeting, context: Context) -> str:
    """In what the run's config is not this node's, as one line that names the key; empty if in nothing."""
    run, node = context.run_config, context.node_config
    try:
        config, noise = settings.config_of(run, node, label=greeting.config.get("seed")), _noise(context)
        limits.require_settings(config)
    except InputError as error:
        LOG.error("does not take part: %s", error)
        return REFUSED if settings.names_file(run, node) else str(error)
    if greeting.digest == settings.digest(config, noise):
        return ""
    differs = settings.difference(greeting.config, config, noise)
    if settings.names_file(run, node) and differs.startswith("data."):  # it may follow from the file
        LOG.error("does not take part: %s", differs)
        return REFUSED
    return differs


@app.query("forget")
@_discreet
def forget(message: Message, context: Context) -> Message:
    """The run is over: delete what its devices kept."""
    for name in [name for name in context.state if name.startswith(("memory.", "until."))]:
        del context.state[name]
    return Message(RecordDict(), reply_to=message)


@app.train()
@_discreet
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
        limits.require_plan(experiment.scheme, plan)
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
    limits.require_model(request.theta, dimension=experiment.setting.dimension)
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
    data = experiment.federation
    assert isinstance(data, NodeData), "a node reads its data late"
    try:
        data.require_readable()
    except Exception:
        LOG.exception("all devices send zeros, since their data cannot be read")
    add_noise = ExactNoise(len(request.devices)) if _noise(context) == SECRET else None
    memory = _memory(context, [*request.devices, *request.waiting])
    sent = Sending(experiment, plan, request, memory, data.empty, add_noise).send()
    for device, held in sent.kept.items():
        context.state[f"memory.{device}"] = packed(held.row)
        if held.used_until is not None:
            context.state[f"until.{device}"] = ConfigRecord({"round": held.used_until})
    return sent.signals, sent.silent


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
    limits.require_settings(config)
    share = _share(node) if "local-data" in node else NodeShare(0, 1)
    data = NodeData.of(config, share, node.get("local-data"), config.seed if secret is None else secret)
    return build(config, federation=data, seed=secret)
