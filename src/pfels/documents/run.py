"""The files of a run directory."""

from typing import NotRequired

from typing_extensions import TypedDict

from pfels.documents.data import DataNote
from pfels.documents.privacy import RoundPrivacy, RunPrivacy
from pfels.documents.validate import Amount, Count, Share, document


@document
class Replies(TypedDict):
    """What a deployment's nodes answered in a round."""

    expected: Count  # devices that were to send
    used: Count  # devices whose signal was used
    short: bool  # whether fewer were used than expected
    dropped: dict[str, Count]  # signals that could not be used, by reason
    bytes_per_device: Amount | None  # mean upload of a device; null: nobody answered


@document
class RoundRecord(TypedDict):
    """One line of `rounds.jsonl`."""

    round: Count  # t, from 0; as in the report; the terminal and TensorBoard count rounds done, t + 1
    cohort: list[Count]  # devices drawn, by number
    participants: Count  # how many of them were heard
    silent: Count  # how many were not: silent by choice, diverged, or no answer; which: see `device_energy`
    echoes: NotRequired[Count]  # how many other devices were heard that repeat what they sent at their turn
    beta: Amount | None  # level β at which signals arrive; null: ideal links, or nobody sent
    limit: str | None  # what set β: power or privacy
    noise_multiplier: Amount | None  # z of the released sum; 0: no noise
    energy: Amount | None  # Σ‖x‖² of the round in units of σ₀²; null: ideal links
    energy_bound: Amount | None  # its expectation with every update at its norm bound
    device_energy: list[Amount] | None  # ‖x‖² of each of `cohort`, in order; 0: silent; null: ideal links, deployment
    subcarriers: Count  # channel uses of the round
    train_loss: Amount | None  # mean training loss of the devices heard; null: not finite, or none
    test_accuracy: Share | None  # after the round, if it was evaluated
    test_loss: Amount | None  # after the round, if it was evaluated
    test_accuracy_last: NotRequired[Share]  # only with server.average, in the last round: of the last model itself
    privacy: RoundPrivacy  # privacy up to and including this round
    replies: NotRequired[Replies]  # only in a deployment
    lost: NotRequired[bool]  # only in a deployment: the round was interrupted and is not repeated


class LinkTotals(TypedDict):
    """What a training uses up, and what it costs in privacy."""

    energy: Amount | None  # Σ‖x‖² in units of σ₀²; null: ideal links
    energy_bound: Amount | None  # its expectation with every update at its norm bound
    subcarriers: Count  # channel uses
    airtime_s: Amount  # seconds on the air
    silent: Count  # how often a drawn device was not heard
    privacy_limited_rounds: Count  # rounds in which privacy, not power, set β
    privacy: RunPrivacy  # privacy of the whole run


class Stopped(TypedDict):
    """That a run ended early, because its `progress` raised `pfels.Stop`."""

    planned_rounds: Count  # T of its config
    reason: str  # the text that was given


@document
class Summary(TypedDict):
    """`summary.json`, `pfels run --json` and `Result.summary`: a finished run."""

    scheme: str  # the scheme
    seed: Count  # the seed, or the public label of a secret one
    rounds: Count  # rounds done: T, or fewer if the run was stopped
    stopped: NotRequired[Stopped]  # absent: all rounds were done
    dimension: Count  # d, the number of parameters
    engine: NotRequired[str]  # batched or threaded
    accuracy: Share  # test accuracy of the model delivered: the last one, or with server.average their average
    accuracy_last: NotRequired[Share]  # test accuracy of the last model
    loss: Amount | None  # test loss of the model delivered; null: not finite
    chance: NotRequired[Share]  # accuracy of always guessing the most frequent class of the test examples
    test_examples: NotRequired[Count]  # how many test examples there are
    energy: Amount | None  # Σ‖x‖² in units of σ₀²; null: ideal links
    energy_bound: NotRequired[Amount | None]  # its expectation with every update at its norm bound
    radiated_j: NotRequired[Amount | None]  # `energy` in joules, by the units of the config; null: ideal links
    subcarriers: Count  # channel uses
    airtime_s: Amount  # seconds on the air
    silent: NotRequired[Count]  # how often a drawn device was not heard
    privacy_limited_rounds: NotRequired[Count]  # rounds in which privacy, not power, set β
    privacy: RunPrivacy  # privacy of the whole run
    seconds: Amount  # wall-clock time, over all processes that worked on the run


@document
class ForeignCode(TypedDict):
    """Code from outside `pfels` that took part in a run."""

    role: str  # what it was in the run: scheme or play_round
    name: str  # import name, such as `package.module:name`
    distribution: str | None  # the installed distribution that it belongs to; null: none
    version: str | None  # version of that
    files: dict[str, str]  # SHA-256 of its source files, and of those that they import, installed packages left out
    values: dict[str, str]  # SHA-256 of what no file says: functions without a file, arguments, variables
    unknown: list[str]  # what could not be hashed: such a run is never taken for one with the same code


@document
class Environment(TypedDict):
    """`environment.json`: what a run was made with."""

    python: NotRequired[str]  # version of Python
    platform: NotRequired[str]  # operating system and processor
    cores: NotRequired[Count]  # cores available
    versions: NotRequired[dict[str, str]]  # versions of pfels and of what results depend on
    code: NotRequired[list[ForeignCode]]  # code from outside pfels that took part; absent: none
    engine: NotRequired[str | None]  # batched or threaded; a resumed run keeps it
    data: NotRequired[dict[str, str]]  # SHA-256 of each file of the user's own data; a resumed run needs the same
    data_notes: NotRequired[list[DataNote]]  # what its privacy figures assume of the data; as in summary.json
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

    seconds: Amount  # wall-clock time so far


@document
class Journal(TypedDict):
    """`begun.json` of a deployment: the last round that nodes were asked for."""

    round: Count  # t, from 0


@document
class Totals(TypedDict):
    """The running totals in a checkpoint."""

    energy: Amount | None  # Σ‖x‖² so far in units of σ₀²; null: ideal links
    energy_bound: Amount | None  # its expectation with every update at its norm bound
    subcarriers: Count  # channel uses so far
    slots: Count  # slots so far
    silent: Count  # how often a drawn device was not heard
    privacy_limited_rounds: Count  # rounds in which privacy, not power, set β
    cohort_dependent: bool  # whether a release depended on who was drawn
    claimed_epsilon: Amount | None  # the paper's claim for a round; null: none is made


@document
class CheckpointNotes(TypedDict):
    """The description in `checkpoint.safetensors`, behind the hash of the whole checkpoint."""

    format: Count  # 3; of earlier versions 2, whose hash leaves out types and shapes
    config: str  # hash of all settings that can change a result
    round: Count  # rounds done
    totals: Totals  # totals up to there
    log_size: Count  # bytes of `rounds.jsonl` that belong to it
    log_sha256: str  # their hash
    stopped: NotRequired[Stopped]  # the run ended here, before its last round
