"""The ClientApp: a node's devices train, clip, project and scale, and send their k numbers.

A node works out the round for itself: who was drawn, over which channel, at what level. It answers for its own devices
alone, only where they were drawn, and no round twice, whatever the server asks.
"""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from torch import Tensor

from pfels.errors import InputError, RunError
from pfels.experiment.setup import Experiment, build
from pfels.flower import messages, settings
from pfels.flower.local_data import own_federation
from pfels.flower.messages import Ask, Hello, Place, numbers, packed
from pfels.runtime.threads import one_thread_each
from pfels.schemes.plan import Link, Tally

app = ClientApp()


@app.query()
def greet(message: Message, context: Context) -> Message:
    """Say which devices live here, or in which key this node's config differs from the server's."""
    place = _place(context.node_config)
    try:
        config = settings.config_of(context.run_config, context.node_config)
        hello = Hello.read(message.content)
        refused = "" if hello.digest == settings.digest(config) else settings.disagreement(hello.config, config)
    except InputError as error:
        refused = str(error)
    return Message(replace(place, refused=refused or "").record(), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the devices that are asked for, and send what the channel is to carry."""
    with one_thread_each():
        experiment = _experiment(_frozen(context.run_config), _frozen(context.node_config))
        ask = Ask.read(message.content, dimension=experiment.system.dimension)
        _check_round(ask, experiment, context)
        link = experiment.scheme.prepare(experiment.system, ask.round)
        _check_devices(ask, link, context)
        context.state["done"] = ConfigRecord({"round": ask.round})
        signals = _signals(experiment, link, ask, context)
    return Message(messages.answer(signals), reply_to=message)


def _check_round(ask: Ask, experiment: Experiment, context: Context) -> None:
    """Refuse another config, a round that was answered, and one that the run does not have."""
    if ask.digest != settings.digest(experiment.config):
        raise RunError("the server's config is not the one of this run")
    done = context.state.get("done", ConfigRecord({"round": -1}))["round"]
    if not done < ask.round < experiment.config.rounds:
        raise RunError(f"round {ask.round}: answered already, or not among {experiment.config.rounds} rounds")


def _check_devices(ask: Ask, link: Link, context: Context) -> None:
    """Refuse devices that do not live here or have no part in this round."""
    mine = _place(context.node_config)
    for asked, drawn in ((ask.devices, link.sending), (ask.waiting, link.waiting)):
        strangers = set(asked) - set(mine.carries(drawn).tolist())
        if strangers:
            raise RunError(f"round {ask.round}: device {min(strangers)} does not live here or was not drawn")


def _signals(experiment: Experiment, link: Link, ask: Ask, context: Context) -> Tensor:
    scheme, system = experiment.scheme, experiment.system
    if settings.read(context.run_config).secret_noise:  # new for every message: no two are hidden by the same noise
        system = replace(system, noise_seed=secrets.randbits(64))
    memory = _remembered(context, [*ask.devices, *ask.waiting])
    tally, rows = Tally(memory=memory), []
    indices = scheme.indices(system, ask.theta, ask.round)
    places = {device: place for place, device in enumerate(link.sending.tolist())}
    for part in system.local_updates(ask.theta, ask.round, np.array(ask.devices, np.int64), tally):
        for row, device in enumerate(ask.devices[part.places]):
            rows.append(scheme.send(system, link, part.one(row, at=places[device]), indices, tally).clone())
    silent = {device: place for place, device in enumerate(link.waiting.tolist())}
    for part in system.local_updates(ask.theta, ask.round, np.array(ask.waiting, np.int64), Tally()):
        for row, device in enumerate(ask.waiting[part.places]):
            scheme.hold(system, link, part.one(row, at=silent[device]), tally)
    for device, held in tally.held_back.items():
        context.state[f"memory.{device}"] = packed(held)
    width = system.dimension if indices is None else len(indices)
    return torch.cat(rows) if rows else torch.empty(0, width)


def _remembered(context: Context, devices: list[int]) -> dict[int, Tensor]:
    """What devices held back in earlier rounds of this run."""
    return {d: numbers(context.state[f"memory.{d}"]) for d in devices if f"memory.{d}" in context.state}


def _place(node_config: Mapping[str, Any]) -> Place:
    try:
        return Place(int(node_config["partition-id"]), int(node_config["num-partitions"]))
    except KeyError as missing:
        raise InputError(f"--node-config: {missing.args[0]} is missing; give partition-id=0 num-partitions=4") from None


def _frozen(config: Mapping[str, Any]) -> frozenset[tuple[str, Any]]:
    return frozenset(config.items())


@lru_cache(maxsize=4)
def _experiment(run_config: frozenset[tuple[str, Any]], node_config: frozenset[tuple[str, Any]]) -> Experiment:
    """The experiment of a run on this node. A process that serves many messages builds it once."""
    run, node = dict(run_config), dict(node_config)
    config = settings.config_of(run, node)
    own = own_federation(node["local-data"], config, _place(node)) if "local-data" in node else None
    return build(config, federation=own)
