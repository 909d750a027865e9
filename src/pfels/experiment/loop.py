"""The round loop: from a config to a finished run, with resume."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from pfels.config.load import require_config
from pfels.config.tree import Config
from pfels.documents.run import Environment, RoundRecord, Stopped, Summary
from pfels.errors import InputError, RunError, Stop, one_line
from pfels.experiment.assumptions import with_assumptions, with_data_notes, with_the_choice_to_stop
from pfels.experiment.checkpoint import Checkpoint
from pfels.experiment.code import foreign_code
from pfels.experiment.deployment import Deployment
from pfels.experiment.directory import RunDirectory, check
from pfels.experiment.environment import environment
from pfels.experiment.link import Link, frame_of
from pfels.experiment.origin import made_here, stored
from pfels.experiment.pace import Pace
from pfels.experiment.result import Result
from pfels.experiment.setup import Experiment, build, require_memory
from pfels.experiment.state import RunState, delivered
from pfels.experiment.units import joules_per_energy
from pfels.runtime.arguments import called, path_of, whole
from pfels.runtime.distributed import Ranks, Start
from pfels.runtime.memory import full_memory_in_one_line
from pfels.runtime.threads import one_thread_each
from pfels.schemes.exposure import plan_round
from pfels.schemes.memory import Memory
from pfels.schemes.plan import RoundPlan, RoundResult
from pfels.schemes.round import play
from pfels.training.local import evaluate

Progress = Callable[[RoundRecord], None]
Begin = Callable[[int], None]
PlayRound = Callable[[Experiment, RoundPlan, Tensor, Memory], RoundResult]


class Watcher(NamedTuple):
    """Whom a run tells what: the rounds already done when it begins or goes on, and each round's record."""

    begin: Begin
    progress: Progress


def simulate(experiment: Experiment, plan: RoundPlan, theta: Tensor, memory: Memory) -> RoundResult:
    """Play a round with all devices simulated here, or on the ranks that share the run.

    One device that diverges is silent. If all do, nothing is learned any more, and figures of it would mean nothing.
    """
    result = play(
        experiment.scheme, experiment.draws, plan, theta, experiment.training, memory=memory, ranks=experiment.ranks
    )
    if 0 < len(plan.training) == result.unheard:
        raise RunError(
            f"round {plan.round + 1}: the training of all {result.unheard} devices diverged (no update is finite); "
            "choose a smaller training.learning_rate or server.learning_rate, or scale the data"
        )
    return result


def run(
    config: Config,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    fresh: bool = False,
    workers: int | None = None,
    progress: Progress = lambda record: None,
    begin: Begin = lambda rounds: None,
    play_round: PlayRound = simulate,
    deployment: Deployment | None = None,
) -> Result:
    """Run an experiment, in memory or in the run directory `out`; a finished run there is read, not run again.

    A run there that other code made, such as a scheme that has been edited since, is refused. `fresh` makes the run
    there anew, and deletes what was stored of it before, nothing else.

    `workers` is how many threads to use where the config does not say; it changes no result. Ctrl-C saves a
    checkpoint at the last completed round before KeyboardInterrupt goes on to the caller. Under torchrun all processes
    work on the one run; only the leading one touches `out`, and the others' results hold the model alone. `begin` is
    called with the rounds already done when everything is ready for the next one, and `progress` after each with its
    record. To end the run early, with a result and a summary, `progress` raises `pfels.Stop`: privacy figures are then
    those of the rounds done. They hold if that choice does not depend on devices' data. Where it follows from the
    models or the test accuracy, those of all planned rounds hold, which the summary has among its assumptions; nothing
    holds where it follows from `train_loss` or `device_energy`, which no noise hides.
    `play_round` plays a round; by default all devices are simulated here. `deployment` says what carries them, if they
    are not.

    >>> import pfels
    >>> result = pfels.run(pfels.load_config("demo", {"rounds": 2}))
    >>> result.summary["rounds"], len(result.records)
    (2, 2)
    """
    require_config(config)
    called(progress=progress, begin=begin, play_round=play_round)
    workers, out = None if workers is None else whole("workers", workers), None if out is None else path_of("out", out)
    if (resume or fresh) and out is None:
        raise InputError(f"{'resume' if resume else 'fresh'}: needs the directory of the run, as out")
    if resume and fresh:
        raise InputError("resume: continues what is stored, and fresh deletes it; leave one of them out")
    ranks, watcher = Ranks.join(config.run.device), Watcher(begin, progress)
    with one_thread_each(), full_memory_in_one_line():
        if not ranks.leads:
            return _follow(config, ranks, workers)
        if out is None:
            experiment = build(config, workers=workers, ranks=ranks, seed=deployment.secret if deployment else None)
            if play_round is simulate:
                require_memory(experiment, copies=1)
            ranks.send_start(Start(experiment.training.engine, 0, {}))
            about = environment(experiment, deployment, foreign_code(config, play_round))
            return _play(experiment, about, None, None, watcher, play_round, deployment)
        directory = RunDirectory(out, config)
        resume = directory.discard() if fresh else resume
        return _lead(directory, ranks, resume, workers, watcher, play_round, deployment)


def _follow(config: Config, ranks: Ranks, workers: int | None) -> Result:
    """The rounds of a rank that does not lead: the same steps, of which nothing is written."""
    start = ranks.receive_start()
    experiment = build(config, workers=workers, engine=start.engine, ranks=ranks)
    state = RunState.fresh(experiment)
    if start.tensors:
        state = replace(state.with_tensors(start.tensors, ranks.device), round=start.round)
    while state.round < config.rounds:
        state, _ = advance(experiment, state, simulate)
        if state.round < config.rounds and ranks.stopped(False):
            break
    nothing: Summary = {}  # type: ignore[typeddict-item]
    return Result(nothing, state.delivered.cpu(), list)


def _lead(  # noqa: PLR0917
    directory: RunDirectory,
    ranks: Ranks,
    resume: bool,
    workers: int | None,
    watcher: Watcher,
    play_round: PlayRound,
    deployment: Deployment | None,
) -> Result:
    config, code = directory.config, foreign_code(directory.config, play_round)
    directory.require_same_code(code)
    if check(directory.path, config) and (finished := directory.finished()) is not None:
        summary, last = finished
        ranks.send_start(Start(directory.engine or "", config.rounds, dict(last.tensors)))
        return Result(
            summary, delivered(last.tensors), partial(directory.records, last.mark), stored(directory, summary, last)
        )
    secret = None if deployment is None else deployment.secret
    experiment = build(config, workers=workers, engine=directory.engine, ranks=ranks, seed=secret)
    if play_round is simulate:
        require_memory(experiment, copies=3)
    engine, about = experiment.training.engine, environment(experiment, deployment, code)
    d = experiment.network.dimension
    with directory.opened(resume=resume, environment=about, secret=secret, dimension=d) as checkpoint:
        start = Start(engine, checkpoint.round, dict(checkpoint.tensors)) if checkpoint else Start(engine, 0, {})
        ranks.send_start(start)
        return _play(experiment, about, directory, checkpoint, watcher, play_round, deployment)


def _play(  # noqa: PLR0917
    experiment: Experiment,
    about: Environment,
    directory: RunDirectory | None,
    checkpoint: Checkpoint | None,
    watcher: Watcher,
    play_round: PlayRound,
    deployment: Deployment | None,
) -> Result:
    config = experiment.config
    records: list[RoundRecord] = []
    record: RoundRecord | None = None
    state, stopped = RunState.fresh(experiment), None if checkpoint is None else checkpoint.stopped
    if checkpoint is not None:
        state = state.restored(checkpoint, experiment)
    began = time.perf_counter() - (directory.seconds if directory else 0.0)

    pace = Pace(config.run.checkpoint_every)

    def save() -> None:
        if directory is not None:
            with pace.saving():
                directory.save(replace(state.checkpoint(), stopped=stopped), seconds=time.perf_counter() - began)

    watcher.begin(state.round)
    try:
        while state.round < config.rounds and stopped is None:
            after, record = advance(experiment, state, play_round)
            if deployment is not None:
                record = deployment.checked_record(record)
            state = replace(after, mark=directory.append(record, state.mark)) if directory else after
            if directory is None:
                records.append(record)
            if pace.due(state.round) and state.round < config.rounds:
                save()
            stopped = _told(watcher, record, config.rounds)
            if state.round < config.rounds:
                experiment.ranks.stopped(stopped is not None)
        state = replace(state, memory=Memory())  # a finished run holds nothing of a single device
        save()
    except KeyboardInterrupt:
        save()
        raise
    except RunError:
        with suppress(RunError):  # a full disk takes no more, but that other ranks are gone is no reason to lose rounds
            try:
                save()
            except KeyboardInterrupt:  # the signal that torchrun sends, once, to the ranks that are left
                save()
        raise
    if record is None:  # an earlier process ended between the last round and the summary
        assert directory is not None, "a run in memory has a first round"
        record = directory.records(state.mark)[-1]
    over_air = play_round is simulate
    summary = _summary(experiment, state, record, began, over_air=over_air, stopped=stopped)
    if deployment is not None:
        summary["privacy"] = deployment.checked_privacy(summary["privacy"])
    elif not over_air:
        summary["privacy"]["audited"] = False
    return _finished(experiment, about, directory, state, summary, records)


def _finished(  # noqa: PLR0917
    experiment: Experiment,
    about: Environment,
    directory: RunDirectory | None,
    state: RunState,
    summary: Summary,
    records: list[RoundRecord],
) -> Result:
    """The result of a run that has ended, which its directory keeps if it has one."""
    model = state.delivered.cpu()
    origin = made_here(experiment, about, summary, model, None if directory is None else directory.path)
    if directory is None:
        return Result(summary, model, lambda: records, origin)
    directory.finish(summary, origin.facts())
    return Result(summary, model, partial(directory.records, state.mark), origin)


def _told(watcher: Watcher, record: RoundRecord, planned: int) -> Stopped | None:
    """Show a round to the caller, who may end the run with it; the last round ends the run in any case."""
    try:
        watcher.progress(record)
    except Stop as stop:
        if record["round"] + 1 < planned:
            return {"planned_rounds": planned, "reason": one_line(stop)}
    return None


def advance(experiment: Experiment, state: RunState, play_round: PlayRound) -> tuple[RunState, RoundRecord]:
    """The state after one more round, except for the log, and the round's record."""
    config, setting, t = experiment.config, experiment.setting, state.round
    plan = plan_round(experiment.scheme, experiment.draws, t)
    result = play_round(experiment, plan, state.theta, state.memory)
    step, velocity = result.estimate, None
    if config.server.momentum:  # what the server does with a released estimate costs no privacy
        velocity = step = step + (0.0 if state.velocity is None else config.server.momentum * state.velocity)
    theta = state.theta + config.server.learning_rate * step  # Algorithm 2, line 16
    average = _averaged(state, theta, t, config.server.average) if config.server.average else None
    ledger = state.ledger.after(plan, result, slots=frame_of(config).slots(plan.subcarriers))
    record = ledger.record(plan, result, setting)
    if experiment.ranks.leads and ((t + 1) % config.run.eval_every == 0 or t + 1 == config.rounds):
        record["test_accuracy"], record["test_loss"] = _evaluate(experiment, theta if average is None else average)
        if average is not None and t + 1 == config.rounds:
            record["test_accuracy_last"] = _evaluate(experiment, theta)[0]
    return RunState(t + 1, theta, velocity, average, state.memory.after(plan, result), ledger, state.mark), record


def _averaged(state: RunState, theta: Tensor, t: int, average: float) -> Tensor:
    """The exponential average of the released models, with a shorter memory in the first rounds."""
    weight = min(average, (1 + t) / (10 + t))
    return weight * state.delivered + (1 - weight) * theta


def _summary(
    experiment: Experiment,
    state: RunState,
    record: RoundRecord,
    began: float,
    *,
    over_air: bool,
    stopped: Stopped | None,
) -> Summary:
    """The summary of a finished run, with the scores of its last record; one that was stopped between two evaluations
    is evaluated here."""
    config = experiment.config
    link, totals = (
        Link(experiment.scheme, experiment.draws),
        state.ledger.summary(experiment.setting, slot_s=frame_of(config).slot_s),
    )
    totals["privacy"] = with_assumptions(
        totals["privacy"], state.ledger.server, link, rounds=state.round, over_air=over_air
    )
    totals["privacy"] = with_data_notes(
        totals["privacy"], experiment.data_notes, state.ledger.server, delta=experiment.setting.delta
    )
    if stopped is not None:
        totals["privacy"] = with_the_choice_to_stop(totals["privacy"], link, frame_of(config), rounds=config.rounds)
    accuracy, loss, last = record["test_accuracy"], record["test_loss"], record.get("test_accuracy_last")
    if accuracy is None:
        accuracy, loss = _evaluate(experiment, state.delivered)
    if last is None:
        last = accuracy if state.average is None else _evaluate(experiment, state.theta)[0]
    summary: Summary = {
        "scheme": config.scheme,
        "seed": config.seed,
        "rounds": state.round,
        "dimension": experiment.network.dimension,
        "engine": experiment.training.engine,
        "accuracy": accuracy,
        "accuracy_last": last,
        "loss": loss,
        "chance": float(experiment.federation.test.y.bincount().max()) / len(experiment.federation.test),
        "test_examples": len(experiment.federation.test),
        **totals,  # type: ignore[typeddict-item]  # which has no `stopped`
        "radiated_j": None if totals["energy"] is None else totals["energy"] * joules_per_energy(config),
        "seconds": round(time.perf_counter() - began, 3),
    }
    if stopped is not None:
        summary["stopped"] = stopped
    return summary


def _evaluate(experiment: Experiment, theta: Tensor) -> tuple[float, float | None]:
    """Accuracy and loss on the test examples; a model that has diverged has no loss that could be written down."""
    accuracy, loss = evaluate(experiment.network, theta, experiment.federation.test, pool=experiment.training.pool)
    return accuracy, loss if math.isfinite(loss) else None
