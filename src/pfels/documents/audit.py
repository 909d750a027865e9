"""`pfels audit`: a claim held against what canary devices give away."""

from typing import NotRequired

from typing_extensions import TypedDict


class AuditClaim(TypedDict):
    """The figure that is tested."""

    epsilon: float | None  # ε of the ledger, for the worst device; null: no noise, so nothing is claimed
    delta: float  # δ
    adversary: str  # server, or outsider where there is a figure against one
    neighbours: str  # device-emptied, add-remove or replace-one


class AuditEstimate(TypedDict):
    """ε of the worst device, estimated from the scores with one variance for both coins."""

    epsilon: float | None  # the estimate; null: too few canaries, or no claim
    low: float | None  # lower end of the 95 % interval
    high: float | None  # upper end of the 95 % interval
    ratio: float | None  # how well canaries are found, relative to their own figures (models: to μ = 1)


class AuditCertified(TypedDict):
    """A lower bound on ε that no dependence between canaries can break, for Gaussian trade-off curves."""

    epsilon: float | None  # the bound; 0: nothing is certified; null: no claim, or the training was stopped
    confidence: float  # 0.95


class AuditView(TypedDict):
    """What one observer finds."""

    claimed: AuditClaim  # what is claimed against it
    estimate: AuditEstimate  # what its scores tell
    certified: AuditCertified  # what its guesses prove
    rejected: bool  # whether the claim is refuted
    rejected_by: list[str]  # certified, estimate or both


class AuditViews(TypedDict):
    """The two observers."""

    server: AuditView  # sees what is received in every round, and knows who sends, at what level
    models: AuditView  # sees the released models alone


class AuditAlone(TypedDict):
    """One canary alone beside the real devices: by how much its data move what is received, without statistics."""

    epsilon: float | None  # ε against the server that follows, at the stated noise; null: who sends depends on it
    booked: float  # ε that the ledger books for that canary
    participations: int  # in how many rounds it sent
    rejected: bool  # whether it moves more than the ledger books


class AuditEmptied(TypedDict):
    """One real device after the other, each in one round, with its data and without them, and without noise."""

    rounds: int  # in how many rounds that was tried
    ratio: float | None  # the maximum of what it moves over what the ledger books for that round, as μ; null: infinite
    device: int | None  # which device that was
    round: int | None  # and in which round, counted from 1
    rejected: bool  # whether it moves more than is booked


class AuditNoiseCheck(TypedDict):
    """One question about the noise, as it was: what was received less the same without noise."""

    noise: str  # receiver, devices, or server: what the estimates of other sums tell of it
    check: str  # level, coordinates, law, zeros, values, neighbours, vectors, copies, signals, seeds or estimates
    p: float  # an upper bound on the probability that honest noise looks as odd anywhere in this audit
    compared: int  # how many comparisons that allows for
    error_rate: float  # how often honest noise may be rejected by this check: the least p that is not rejected
    saw: str  # the oddest thing that it saw
    rejected: bool  # whether that is too odd


class AuditReplay(TypedDict):
    """The server's part of every round, repeated by a server that never saw an update, from the received sums."""

    rounds: int  # in how many rounds it was repeated
    saw: str | None  # what differed first; null: nothing, in no bit
    rejected: bool  # whether anything did


class Audit(TypedDict):
    """`pfels audit --json` and `pfels.audit`. `claimed`, `estimate` and `certified` are those of one of the views: of
    the models where the budget is against an outsider, of the server otherwise."""

    scheme: str  # the scheme
    seeds: list[int]  # the seed of each training
    rounds: int  # T
    devices: int  # real devices
    canaries: int  # canary devices beside them, in each training
    included: int  # canaries whose coin included them, over all trainings
    claimed: AuditClaim  # what is claimed
    estimate: AuditEstimate  # what the scores tell
    certified: AuditCertified  # what the guesses prove
    rejected: bool  # whether anything refutes the claim
    rejected_by: list[str]  # `server: estimate`, `alone`, `guard`, `replay: in round 3 …`, `receiver noise (law): …`, …
    stopped: str | None  # why a guard stopped the training; null: it did not
    views: AuditViews  # by observer
    alone: AuditAlone | None  # one canary alone; null: no claim, or the training was stopped
    emptied: AuditEmptied | None  # one real device after the other; null: no claim, or the training was stopped
    noise: list[AuditNoiseCheck]  # every check of the noise; empty: no claim, or the training was stopped
    replay: AuditReplay | None  # the server's part once more; null: no claim, or the training was stopped
    asked: NotRequired[dict[str, object]]  # only in the file: what the command asked for; the same again replaces it
