"""A privacy claim held against an attack: canary devices in a training of the product's own, and what gives them away.

The canaries are devices beside the config's own, with ids, channels and draws like any other, and the cohort grows with
them, so that a device is drawn as often as before. Whatever a scheme plans for its devices it plans for them, and the
ledger books every canary as it books every device: the claim that is tested is that of the audited training.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pfels.config.load import load_config, require_config
from pfels.config.tree import Config
from pfels.documents.audit import Audit
from pfels.documents.privacy import RunPrivacy
from pfels.documents.run import RoundRecord
from pfels.errors import GuardError, InputError, quoted
from pfels.experiment.forecast import forecast_run
from pfels.experiment.ledger import Ledger
from pfels.experiment.loop import advance
from pfels.experiment.setup import build, federate, require_memory
from pfels.experiment.state import RunState
from pfels.privacy.events import Sampling
from pfels.runtime.arguments import plain, whole
from pfels.runtime.threads import one_thread_each
from pfels.studies.audit_verdict import Alone, Evidence, nothing_claimed, verdict
from pfels.studies.audited_rounds import AuditedRounds
from pfels.studies.canaries import Canaries

MOST_PER_DEVICE = 20  # with more canaries per real device hardly anything of the config's own training would be left
USUAL = 1000
Watch = Callable[[RoundRecord], None]


@dataclass(frozen=True)
class Audited:
    """An audit's document, and the scores behind it."""

    document: Audit
    evidence: Evidence


def audit(config: Config, *, canaries: int | None = None, runs: int = 1, workers: int | None = None) -> Audit:
    """What canary devices give away in one training, or several, beside what is claimed of it.

    `canaries` devices are added to the config's own in each of `runs` trainings, which have seeds from the config's on;
    by default there are ten per device, 1000 at most. `rejected` says whether the claim is refuted.

    >>> import pfels
    >>> config = pfels.load_config("demo", {"scheme": "pfels-plus", "rounds": 20, "data.devices": 20, "cohort.size": 5})
    >>> found = pfels.audit(config, canaries=60)
    >>> found["rejected"], found["claimed"]["adversary"], found["claimed"]["epsilon"] <= 16
    (False, 'server', True)
    """
    return audited(config, canaries=canaries, runs=runs, workers=workers).document


def audited(
    config: Config,
    *,
    canaries: int | None = None,
    runs: int = 1,
    workers: int | None = None,
    watch: Watch = lambda record: None,
) -> Audited:
    """The same, with the scores. `watch` is called with the record of every round."""
    configs = audit_configs(config, canaries=canaries, runs=runs)
    workers, first = None if workers is None else whole("workers", workers), configs[0]
    added = first.data.devices - config.data.devices
    setting, planned = forecast_run(first)
    evidence = Evidence(
        config.scheme, first.rounds, config.data.devices, added, setting, [each.seed for each in configs],
        hidden=setting.sampling is not Sampling.TURNS and not planned.cohort_dependent,
    )  # fmt: skip
    if planned.server.worst(delta=setting.delta).epsilon is None:
        return Audited(nothing_claimed(evidence, planned.privacy(setting)), evidence)
    figures: list[RunPrivacy] = []
    for each in configs:
        figures.append(_train(each, load_config(config, {"seed": each.seed}), evidence, workers, watch))
        if evidence.stopped:
            break
    return Audited(verdict(evidence, figures), evidence)


def audit_configs(config: Config, *, canaries: int | None, runs: int) -> list[Config]:
    """The configs of the audited trainings: with as many devices more as there are canaries, drawn at the same rate,
    and the same δ. An InputError for what cannot be audited."""
    require_config(config)
    devices, most = config.data.devices, MOST_PER_DEVICE * config.data.devices
    added = min(USUAL, 10 * devices) if canaries is None else plain(canaries)
    if isinstance(added, bool) or not isinstance(added, int) or not 2 <= added <= most:
        raise InputError(
            f"canaries = {quoted(added)}: must be a whole number from 2 to {most}, {MOST_PER_DEVICE} per device of "
            "the config"
        )
    runs = whole("runs", runs, minimum=1)
    everyone = devices + added
    changes = {
        "data.devices": everyone,
        "cohort.size": config.cohort.size * everyone // devices,
        "privacy.delta": config.delta,
        "run.eval_every": config.rounds,
    }
    return [load_config(config, {**changes, "seed": config.seed + i}) for i in range(runs)]


def _train(config: Config, real: Config, evidence: Evidence, workers: int | None, watch: Watch) -> RunPrivacy:
    """One training, whose scores are added to the evidence; the figures that its ledger ends with."""
    _, planned = forecast_run(config)
    with one_thread_each():
        experiment = build(config, workers=workers, federation=federate(real))
        require_memory(experiment, copies=3)
        d = experiment.setting.dimension
        canaries = Canaries(config.seed, real.data.devices, evidence.canaries, d, config.rounds)
        rounds = AuditedRounds.of(experiment, canaries, alone=_most_exposed(planned, canaries), hidden=evidence.hidden)
        state = RunState.fresh(experiment)
        try:
            while state.round < config.rounds:
                state, record = advance(experiment, state, rounds)
                watch(record)
            rounds.checks.settle()
        except GuardError as error:
            evidence.stopped = f"round {state.round + 1}: {error}"
            return planned.privacy(experiment.setting)
        finally:
            rounds.checks.replay.close()
    _collect(evidence, rounds, state.ledger)
    return state.ledger.privacy(experiment.setting)


def _most_exposed(planned: Ledger, canaries: Canaries) -> int:
    """The canary for which the plan books most."""
    ids, spent = planned.server.ids, planned.server.mu_squared
    among = canaries.among(ids)
    if not len(among):
        raise InputError(
            f"canaries = {canaries.count}: none of them sends in these rounds; use more canaries or rounds"
        )
    return int(ids[among[np.argmax(spent[among])]])


def _collect(evidence: Evidence, rounds: AuditedRounds, ledger: Ledger) -> None:
    coins, alone = rounds.coins, rounds.alone
    evidence.server.append(rounds.server.scores(coins))
    evidence.models.append(rounds.models.scores(coins))
    evidence.alone.append(Alone(math.sqrt(alone.mu_squared), math.sqrt(alone.booked), alone.times))
    evidence.emptied.append(rounds.emptied)
    evidence.noise.append(rounds.checks.noise.findings())
    saw = rounds.checks.replay.saw or None
    evidence.replays.append({"rounds": rounds.checks.rounds, "saw": saw, "rejected": saw is not None})
    evidence.worst_mu = max(evidence.worst_mu, math.sqrt(float(ledger.server.mu_squared.max(initial=0.0))))
    evidence.included += int(coins.sum())
