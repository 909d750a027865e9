"""The round loop: from a config to a finished run, with resume."""

import math
import os
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from pfels.config.load import require_config
from pfels.config.tree import Config
from pfels.errors import InputError, RunError
from pfels.experiment.directory import Checkpoint, RunDirectory, check
from pfels.experiment.ledger import Ledger
from pfels.experiment.log import LogMark
from pfels.experiment.setup import Experiment, build
from pfels.runtime.distributed import Ranks, Start
from pfels.runtime.threads import one_thread_each
from pfels.schemes.plan import Link, Tally
from pfels.schemes.round import play
from pfels.schemes.scheme import Scheme
from pfels.schemes.system import System
from pfels.seeding import Purpose, generator
from pfels.training.local import evaluate
from pfels.uplink.channel import slots

Progress = Callable[[Mapping[str, Any]], None]
Uplink = Callable[[Scheme, System, Link, Tensor, Tally], Tensor]  # how a round is played, as `rounds.play` does


@dataclass(frozen=True)
class Result:
    """A finished run: its summary, the final model as one flat vector, and a record a round, read when asked for."""

    summary: dict[str, Any]
    parameters: Tensor
    read: Callable[[], list[dict[str, Any]]] = field(repr=False)

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """What each round left."""
        return self.read()


def run(
    config: Config,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    workers: int | None = None,
    progress: Progress = lambda record: None,
    uplink: Uplink = play,
    carrier: str | None = None,
) -> Result:
    """Run an experiment, in memory or in the run directory `out`; a finished run there is read, not run again.

    `workers` is how many threads to use where the config does not say; it changes no result. Ctrl-C saves a
    checkpoint at the last whole round before KeyboardInterrupt goes on to the caller. Under torchrun all processes
    work on the one run; only the leading one touches `out`, and the others' results hold the model alone. `uplink`
    carries a round out; by default all devices are simulated here. `carrier` names what it uses, for environment.json.
    """
    require_config(config)
    if resume and out is None:
        raise InputError("resume: needs the run directory to go on in, as out")
    ranks = Ranks.join(config.run.device)
    with one_thread_each():
        if not ranks.leads:
            return _follow(config, ranks, workers)
        return _lead(
            config, out, ranks, resume=resume, workers=workers, progress=progress, uplink=uplink, carrier=carrier
        )


def _follow(config: Config, ranks: Ranks, workers: int | None) -> Result:
    """The rounds of a rank that does not lead: the same steps, of which nothing is written."""
    start = ranks.hear()
    experiment = build(config, workers=workers, engine=start.engine, ranks=ranks)
    state = _State.fresh(experiment)
    if start.tensors:
        state = replace(state.with_tensors(start.tensors, ranks.device), round=start.round)
    while state.round < config.rounds:
        state, _ = _round(experiment, state, play)
    return Result({}, state.theta.cpu(), list)


def _lead(
    config: Config,
    out: str | Path | None,
    ranks: Ranks,
    *,
    resume: bool,
    workers: int | None,
    progress: Progress,
    uplink: Uplink,
    carrier: str | None,
) -> Result:
    if out is None:
        experiment = build(config, workers=workers, ranks=ranks)
        ranks.tell(Start(experiment.training.engine, 0, {}))
        return _play(experiment, None, None, progress, uplink)
    directory = RunDirectory(Path(out), config)
    if check(directory.path, config) and (finished := directory.finished()) is not None:
        summary, last = finished
        ranks.tell(Start(directory.engine or "", config.rounds, dict(last.tensors)))
        return Result(summary, last.tensors["theta"], partial(directory.records, last.mark))
    experiment = build(config, workers=workers, engine=directory.engine, ranks=ranks)
    engine = experiment.training.engine
    about = environment() | {"engine": engine} | ({"carrier": carrier} if carrier else {})
    with directory.opened(resume=resume, environment=about) as checkpoint:
        ranks.tell(Start(engine, checkpoint.round, dict(checkpoint.tensors)) if checkpoint else Start(engine, 0, {}))
        return _play(experiment, directory, checkpoint, progress, uplink)


@dataclass(frozen=True)
class _State:
    """Where a run stands after so many rounds. One is replaced by the next in a single assignment."""

    round: int
    theta: Tensor
    velocity: Tensor | None
    memory: Mapping[int, Tensor]
    ledger: Ledger
    mark: LogMark

    @classmethod
    def fresh(cls, experiment: Experiment) -> Self:
        """Before the first round."""
        theta = experiment.network.initial(generator(experiment.config.seed, Purpose.MODEL))
        ledger = Ledger.empty(devices=experiment.config.data.devices)
        return cls(0, theta.to(experiment.system.ranks.device), None, {}, ledger, LogMark())

    def checkpoint(self) -> Checkpoint:
        tensors = {"theta": self.theta.cpu(), **self.ledger.tensors()}
        if self.velocity is not None:
            tensors["velocity"] = self.velocity.cpu()
        if self.memory:
            tensors["memory.ids"] = torch.tensor(sorted(self.memory))
            tensors["memory"] = torch.stack([self.memory[device].cpu() for device in sorted(self.memory)])
        return Checkpoint(self.round, tensors, self.ledger.totals(), self.mark)

    def restored(self, checkpoint: Checkpoint, experiment: Experiment) -> Self:
        """Where the run stood at a checkpoint."""
        ledger = Ledger.restore(checkpoint.tensors, checkpoint.totals, devices=experiment.config.data.devices)
        state = self.with_tensors(checkpoint.tensors, experiment.system.ranks.device)
        return replace(state, round=checkpoint.round, ledger=ledger, mark=checkpoint.mark)

    def with_tensors(self, tensors: Mapping[str, Tensor], device: str) -> Self:
        """The state with the model, the velocity and the devices' memory that a checkpoint holds."""
        ids = tensors["memory.ids"].tolist() if "memory" in tensors else []
        memory = {i: row.to(device) for i, row in zip(ids, tensors.get("memory", ()), strict=True)}
        velocity = tensors["velocity"].to(device) if "velocity" in tensors else None
        return replace(self, theta=tensors["theta"].to(device), velocity=velocity, memory=memory)


def _play(
    experiment: Experiment,
    directory: RunDirectory | None,
    checkpoint: Checkpoint | None,
    progress: Progress,
    uplink: Uplink,
) -> Result:
    config = experiment.config
    records: list[dict[str, Any]] = []
    state = _State.fresh(experiment)
    if checkpoint is not None:
        state = state.restored(checkpoint, experiment)
    began = time.perf_counter() - (directory.seconds if directory else 0.0)

    def save() -> None:
        if directory is not None:
            directory.save(state.checkpoint(), seconds=time.perf_counter() - began)

    try:
        while state.round < config.rounds:
            after, record = _round(experiment, state, uplink)
            state = replace(after, mark=directory.append(record, state.mark)) if directory else after
            if directory is None:
                records.append(record)
            if state.round % config.run.checkpoint_every == 0 and state.round < config.rounds:
                save()
            progress(record)
        save()
    except KeyboardInterrupt:
        save()
        raise
    except RunError:
        with suppress(RunError):  # a full disk takes no more, but that other ranks are gone is no reason to lose rounds
            save()
        raise
    accuracy, loss = _evaluate(experiment, state.theta)
    summary = {
        "scheme": config.scheme,
        "seed": config.seed,
        "rounds": config.rounds,
        "dimension": experiment.network.dimension,
        "engine": experiment.training.engine,
        "accuracy": accuracy,
        "loss": loss,
        **state.ledger.summary(experiment.system, slot_s=config.channel.slot_ms / 1000),
        "seconds": round(time.perf_counter() - began, 3),
    }
    if directory is None:
        return Result(summary, state.theta.cpu(), lambda: records)
    directory.finish(summary)
    return Result(summary, state.theta.cpu(), partial(directory.records, state.mark))


def _round(experiment: Experiment, state: _State, uplink: Uplink) -> tuple[_State, dict[str, Any]]:
    """The state after one more round, but for the log, and the round's record."""
    config, system, t, tally = experiment.config, experiment.system, state.round, Tally(memory=state.memory)
    link = experiment.scheme.prepare(system, t)
    estimate = uplink(experiment.scheme, system, link, state.theta, tally)
    tally.gather(system.ranks, like=state.theta)
    velocity = None
    if config.server.momentum:  # what the server does with a released estimate costs no privacy
        velocity = estimate = estimate + (0.0 if state.velocity is None else config.server.momentum * state.velocity)
    theta = state.theta + config.server.learning_rate * estimate  # Algorithm 2, line 16
    ledger = state.ledger.after(link, tally, slots=slots(link.subcarriers, subcarriers=config.channel.subcarriers))
    record = ledger.record(t, link, tally, system=system)
    if system.ranks.leads and ((t + 1) % config.run.eval_every == 0 or t + 1 == config.rounds):
        record["test_accuracy"], record["test_loss"] = _evaluate(experiment, theta)
    memory = {**state.memory, **tally.held_back} if tally.held_back else state.memory
    return _State(t + 1, theta, velocity, memory, ledger, state.mark), record


def _evaluate(experiment: Experiment, theta: Tensor) -> tuple[float, float | None]:
    """Accuracy and loss on the test examples; a model that has diverged has no loss that could be written down."""
    accuracy, loss = evaluate(experiment.network, theta, experiment.federation.test, crew=experiment.training.crew)
    return accuracy, loss if math.isfinite(loss) else None


def environment() -> dict[str, Any]:
    """The versions and the machine that a run was made with."""
    packages = ("pfels", "torch", "numpy", "scipy", "dp-accounting")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)),
        "versions": {name: version(name) for name in packages},
    }
