"""From scores to a verdict: the estimate, the certified bound, and whether they refute the claim."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pfels.documents.audit import (
    Audit,
    AuditAlone,
    AuditCertified,
    AuditClaim,
    AuditEmptied,
    AuditEstimate,
    AuditNoiseCheck,
    AuditReplay,
    AuditView,
)
from pfels.documents.privacy import ExplainedFigure, RunPrivacy
from pfels.privacy.events import Adversary
from pfels.privacy.gaussian import gaussian_epsilon
from pfels.privacy.noise_batch import Finding
from pfels.privacy.one_run import certified_mu
from pfels.privacy.score_fit import fit_scores
from pfels.schemes.registry import scheme_entry
from pfels.schemes.setting import Setting
from pfels.studies.canary_scores import Scores
from pfels.studies.worlds import Emptied

CONFIDENCE = 0.95  # of the certified bound; the interval of the estimate is as wide, on both sides
SURE = 0.9999  # of the limit of the estimate, and of the certified bound, that refute a claim
NOISE_ERRORS = 6e-4  # how often an audit may reject honest noise: with two limits of each of two views, 1 in 1000
NOISE_CHECKS = 21  # ten of the receiver's noise, ten of the devices', and one of the estimates
ERROR_RATE = NOISE_ERRORS / NOISE_CHECKS
ROUNDING = 1e-3  # relative; what float32 may add to the part of the received sum that one device moves


@dataclass(frozen=True)
class Alone:
    """μ of one canary alone as it moved what was received, μ as the ledger books it, and how often it sent."""

    moved: float
    booked: float
    times: int


@dataclass
class Evidence:
    """All that the trainings of an audit have shown: one entry per training. `hidden`: those who see the models do not
    know who sends, since there is a figure against them that rests on it."""

    scheme: str
    rounds: int
    devices: int
    canaries: int
    setting: Setting
    seeds: list[int]
    hidden: bool
    server: list[Scores] = field(default_factory=list)
    models: list[Scores] = field(default_factory=list)
    alone: list[Alone] = field(default_factory=list)
    emptied: list[Emptied] = field(default_factory=list)
    noise: list[list[tuple[str, Finding]]] = field(default_factory=list)
    replays: list[AuditReplay] = field(default_factory=list)
    worst_mu: float = 0.0
    included: int = 0
    stopped: str | None = None


def pooled(parts: Sequence[Scores]) -> Scores:
    """The scores of several trainings. They are independent, so all canaries count as those of one."""
    return Scores(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.included for part in parts]),
        np.concatenate([part.expected for part in parts]),
    )


def verdict(evidence: Evidence, figures: Sequence[RunPrivacy]) -> Audit:
    """What the evidence says of the claims: those of the training that claims least privacy."""
    server = max((each["server"] for each in figures), key=_size)
    outsider = max((models_claim(each) for each in figures), key=_size)
    if evidence.stopped:
        return _document(evidence, _unseen(server), _unseen(outsider), None, ["guard"])
    seen = _view(server, pooled(evidence.server), evidence.worst_mu)
    models = _view(outsider, pooled(evidence.models), 1.0 if evidence.hidden else evidence.worst_mu)
    alone = _alone(max(evidence.alone, key=lambda each: each.moved - each.booked), evidence.setting.delta)
    refuted = [f"server: {by}" for by in seen["rejected_by"]] + [f"models: {by}" for by in models["rejected_by"]]
    refuted += ["alone"] * alone["rejected"]
    worst = max(evidence.emptied, key=lambda each: each.ratio)
    if worst.round is not None and worst.ratio > 1 + ROUNDING:
        refuted.append(
            f"emptied: in round {worst.round + 1} device {worst.device} moves {worst.ratio:.3g} times what is booked"
        )
    refuted += [f"replay: {each['saw']}" for each in evidence.replays if each["rejected"]][:1]
    refuted += [
        f"{each['noise']} noise ({each['check']}): {each['saw']}" for each in noise_checks(evidence) if each["rejected"]
    ]
    return _document(evidence, seen, models, alone, refuted)


def noise_checks(evidence: Evidence) -> list[AuditNoiseCheck]:
    """What every check of the noise found, in the training in which it found most."""
    found: dict[tuple[str, str], Finding] = {}
    for source, finding in itertools.chain(*evidence.noise):
        least = found.setdefault((source, finding.check), finding)
        if finding.p < least.p:
            found[source, finding.check] = finding
    return [_noise_check(source, finding, len(evidence.noise)) for (source, _), finding in found.items()]


def _noise_check(source: str, finding: Finding, trainings: int) -> AuditNoiseCheck:
    p = min(1.0, finding.p * trainings)
    return {
        "noise": source,
        "check": finding.check,
        "p": p,
        "compared": finding.compared * trainings,
        "error_rate": ERROR_RATE,
        "saw": finding.saw,
        "rejected": p < ERROR_RATE,
    }


def _emptied(evidence: Evidence) -> AuditEmptied:
    """The real device that moved most, of all trainings."""
    worst = max(evidence.emptied, key=lambda each: each.ratio)
    return {
        "rounds": sum(each.rounds for each in evidence.emptied),
        "ratio": worst.ratio if math.isfinite(worst.ratio) else None,
        "device": worst.device,
        "round": None if worst.round is None else worst.round + 1,
        "rejected": worst.ratio > 1 + ROUNDING,
    }


def _replay(evidence: Evidence) -> AuditReplay:
    """What the replays of all trainings found: the first thing that differed."""
    saw = next((each["saw"] for each in evidence.replays if each["rejected"]), None)
    return {"rounds": sum(each["rounds"] for each in evidence.replays), "saw": saw, "rejected": saw is not None}


def nothing_claimed(evidence: Evidence, figures: RunPrivacy) -> Audit:
    """The audit of a scheme without noise: there is no claim, so nothing is tried."""
    return _document(evidence, _unseen(figures["server"]), _unseen(models_claim(figures)), None, [])


def models_claim(figures: RunPrivacy) -> ExplainedFigure:
    """What is claimed against those who see the models: an outsider's figure, or else the server's, who sees more."""
    return figures["server"] if figures["outsider"]["epsilon"] is None else figures["outsider"]


def _size(figure: ExplainedFigure) -> float:
    return figure["epsilon"] or 0.0


def _claim(figure: ExplainedFigure) -> AuditClaim:
    return {
        "epsilon": figure["epsilon"],
        "delta": figure["delta"],
        "adversary": figure["adversary"],
        "neighbours": figure["neighbours"],
    }


def _view(figure: ExplainedFigure, scores: Scores, worst_mu: float) -> AuditView:
    """What one observer finds, for the worst device: μ = ρ/τ times what the ledger books for it."""
    delta, claimed = figure["delta"], _size(figure)

    def epsilon(mu: float) -> float:
        return gaussian_epsilon(mu=max(mu, 0.0), delta=delta)

    estimate: AuditEstimate = {"epsilon": None, "low": None, "high": None, "ratio": None}
    certified: AuditCertified = {"epsilon": None, "confidence": CONFIDENCE}
    refuted = []
    if len(scores.values):
        guesses = scores.values * scores.expected
        mu = certified_mu(guesses, scores.included, confidence=CONFIDENCE)
        certified["epsilon"] = epsilon(mu)
        refuted += ["certified"] * (epsilon(certified_mu(guesses, scores.included, confidence=SURE)) > claimed)
    fit = fit_scores(scores.values, scores.included, scores.expected)
    if fit is not None:
        side = (1 + CONFIDENCE) / 2
        low, high = (epsilon(fit.limit(each) * worst_mu) for each in (side, 1 - side))
        estimate = {"epsilon": epsilon(fit.ratio * worst_mu), "low": low, "high": high, "ratio": fit.ratio}
        refuted += ["estimate"] * (epsilon(fit.limit(SURE) * worst_mu) > claimed)
    return {
        "claimed": _claim(figure),
        "estimate": estimate,
        "certified": certified,
        "rejected": bool(refuted),
        "rejected_by": refuted,
    }


def _unseen(figure: ExplainedFigure) -> AuditView:
    """A view of which nothing can be said."""
    return {
        "claimed": _claim(figure),
        "estimate": {"epsilon": None, "low": None, "high": None, "ratio": None},
        "certified": {"epsilon": None, "confidence": CONFIDENCE},
        "rejected": False,
        "rejected_by": [],
    }


def _alone(worst: Alone, delta: float) -> AuditAlone:
    return {
        "epsilon": gaussian_epsilon(mu=worst.moved, delta=delta) if math.isfinite(worst.moved) else None,
        "booked": gaussian_epsilon(mu=worst.booked, delta=delta),
        "participations": worst.times,
        "rejected": worst.moved > worst.booked * (1 + ROUNDING),
    }


def _document(
    evidence: Evidence, server: AuditView, models: AuditView, alone: AuditAlone | None, refuted: list[str]
) -> Audit:
    against_outsider = evidence.setting.budget.adversary is Adversary.OUTSIDER
    shown = models if against_outsider and "budget" in scheme_entry(evidence.scheme).uses else server
    return {
        "scheme": evidence.scheme,
        "seeds": evidence.seeds,
        "rounds": evidence.rounds,
        "devices": evidence.devices,
        "canaries": evidence.canaries,
        "included": evidence.included,
        "claimed": shown["claimed"],
        "estimate": shown["estimate"],
        "certified": shown["certified"],
        "rejected": bool(refuted),
        "rejected_by": refuted,
        "stopped": evidence.stopped,
        "views": {"server": server, "models": models},
        "alone": alone,
        "noise": [] if alone is None else noise_checks(evidence),
        "emptied": None if alone is None else _emptied(evidence),
        "replay": None if alone is None else _replay(evidence),
    }
