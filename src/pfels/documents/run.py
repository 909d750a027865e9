"""The files of a run directory."""

from typing import NotRequired

from typing_extensions import TypedDict

from pfels.documents.privacy import RoundPrivacy, RunPrivacy
from pfels.documents.validate import document


@document
class Replies(TypedDict):
    """What a deployment's nodes answered in a round."""

    expected: int  # devices that were to send
    used: int  # devices whose signal was used
    short: bool  # whether fewer were used than expected
    dropped: dict[str, int]  # signals that could not be used, by reason
    bytes_per_device: float | None  # mean upload of a device; null: nobody answered


@document
class RoundRecord(TypedDict):
    """One line of `rounds.jsonl`."""

    round: int  # t, from 0
    cohort: list[int]  # devices drawn
    participants: int  # how many of them were heard
    silent: int  # how many were not: silent by choice, diverged, or no answer
    echoes: NotRequired[int]  # how many other devices were heard that repeat what they sent at their turn
    beta: float | None  # level β at which signals arrive; null: ideal links, or nobody sent
    limit: str | None  # what set β: power or privacy
    noise_multiplier: float | None  # z of the released sum; 0: no noise
    energy: float | None  # Σ‖x‖² of the round in units of σ₀²; null: ideal links
    energy_bound: float | None  # its expectation with every update at its norm bound
    device_energy: list[float] | None  # ‖x‖² of each device of `cohort`; null: ideal links, or a deployment
    subcarriers: int  # channel uses of the round
    train_loss: float | None  # mean training loss of the devices heard; null: not finite, or none
    test_accuracy: float | None  # after the round, if it was evaluated
    test_loss: float | None  # after the round, if it was evaluated
    privacy: RoundPrivacy  # privacy up to and including this round
    replies: NotRequired[Replies]  # only in a deployment
    lost: NotRequired[bool]  # only in a deployment: the round was interrupted and is not repeated


class LinkTotals(TypedDict):
    """What a training uses up, and what it costs in privacy."""

    energy: float | None  # Σ‖x‖² in units of σ₀²; null: ideal links
    energy_bound: float | None  # its expectation with every update at its norm bound
    subcarriers: int  # channel uses
    airtime_s: float  # seconds on the air
    silent: int  # how often a drawn device was not heard
    privacy_limited_rounds: int  # rounds in which privacy, not power, set β
    privacy: RunPrivacy  # privacy of the whole run


@document
class Summary(TypedDict):
    """`summary.json`, `pfels run --json` and `Result.summary`: a finished run."""

    scheme: str  # the scheme
    seed: int  # the seed, or the public label of a secret one
    rounds: int  # T
    dimension: int  # d, the number of parameters
    engine: NotRequired[str]  # batched or threaded
    accuracy: float  # test accuracy of the model delivered: the last one, or with server.average their average
    accuracy_last: NotRequired[float]  # test accuracy of the last model
    loss: float | None  # test loss of the model delivered; null: not finite
    energy: float | None  # Σ‖x‖² in units of σ₀²; null: ideal links
    energy_bound: NotRequired[float | None]  # its expectation with every update at its norm bound
    radiated_j: NotRequired[float | None]  # `energy` in joules, by the units of the config; null: ideal links
    subcarriers: int  # channel uses
    airtime_s: float  # seconds on the air
    silent: NotRequired[int]  # how often a drawn device was not heard
    privacy_limited_rounds: NotRequired[int]  # rounds in which privacy, not power, set β
    privacy: RunPrivacy  # privacy of the whole run
    seconds: float  # wall-clock time, over all processes that worked on the run


@document
class Environment(TypedDict):
    """`environment.json`: what a run was made with."""

    python: NotRequired[str]  # version of Python
    platform: NotRequired[str]  # operating system and processor
    cores: NotRequired[int]  # cores available
    versions: NotRequired[dict[str, str]]  # versions of pfels and of what results depend on
    engine: NotRequired[str | None]  # batched or threaded; a resumed run keeps it
    carrier: NotRequired[str]  # what carried the rounds, in a deployment
    noise: NotRequired[str]  # in a deployment: secret, or seed where every participant can derive the noise
    seed: NotRequired[str]  # in a deployment: secret where the software drew it, or given


@document
class SecretSeed(TypedDict):
    """`secret.json` of a deployment with `seed = "secret"`: deleted when the run is finished."""

    seed: str  # 256 bits, as hexadecimal digits


@document
class Timing(TypedDict):
    """`timing.json`: kept apart, since it is never the same twice."""

    seconds: float  # wall-clock time so far


@document
class Journal(TypedDict):
    """`begun.json` of a deployment: the last round that nodes were asked for."""

    round: int  # t, from 0
