"""Privacy figures: an (ε, δ) with its adversary, its neighbouring relation, and the reason why it holds or does not."""

from typing import NotRequired

from typing_extensions import TypedDict

from pfels.documents.validate import document


@document
class Figure(TypedDict):
    """An (ε, δ) and against whom."""

    epsilon: float | None  # ε, an upper bound; null: there is none
    delta: float  # δ
    adversary: str  # server or outsider
    neighbours: str  # device-emptied, add-remove or replace-one
    valid: bool  # whether it is a guarantee; of a claim: whether it is in the range of its proof
    participations: NotRequired[int]  # how often the worst device took part


@document
class ExplainedFigure(Figure):
    """A figure with the reason why it holds, or why there is none."""

    why: str  # the reason in words
    reason: NotRequired[str]  # the same, where there is no ε
    accountant: NotRequired[str]  # which accountant gave ε: gaussian, pld, rdp or revealed-sampling
    exceeds_100: NotRequired[bool]  # whether ε is above 100
    display: NotRequired[str]  # ε as a table shows it


@document
class ClaimedFigure(Figure):
    """The paper's claim for one round."""

    why: str  # whether the proof covers it, and why
    valid_below: float  # 2r/N: the proof needs ε below it


@document
class Distribution(TypedDict):
    """ε against the server over the devices that took part."""

    min: float | None  # minimum
    median: float | None  # median
    p90: float | None  # nine of ten devices have at most this
    max: float | None  # maximum
    never_took_part: float  # share of the devices that never took part


@document
class ServerFigure(ExplainedFigure):
    """The worst device against the server, and all devices."""

    distribution: Distribution  # of ε over the devices


@document
class RoundPrivacy(TypedDict):
    """Privacy up to and including a round."""

    claimed: Figure | None  # the paper's claim for this round; null: none is made
    exact_per_round: Figure | None  # the claim's argument without approximations; null: no noise
    server: Figure  # the worst device against the server, over all rounds so far


@document
class RunPrivacy(TypedDict):
    """Privacy of a whole run. Figures of a single round are of the round with the least noise."""

    noise_multiplier_min: float | None  # the minimum noise multiplier z of all rounds
    claimed_epsilon: NotRequired[float | None]  # ε of `claimed`
    claimed_valid: NotRequired[bool | None]  # `valid` of `claimed`
    claimed: ClaimedFigure | None  # the paper's claim per round; null: none is made
    exact_per_round: ExplainedFigure | None  # the claim's argument without approximations; null: no noise
    server: ServerFigure  # the worst device against the server, whole training
    outsider: ExplainedFigure  # against those who see only the models, whole training


class Typical(TypedDict):
    """A device that takes part as often as expected."""

    participations: int  # the expected number, rounded
    epsilon: float | None  # its ε against the server
    display: str  # ε as a table shows it


class AssumedServerFigure(ExplainedFigure):
    """The server's figure for an assumed number of participations."""

    typical: Typical  # a device that takes part as often as expected


class PrivacyFigures(TypedDict):
    """`pfels privacy --noise-multiplier …`: a training whose rounds all have one noise multiplier."""

    noise_multiplier: float  # z
    claimed: ClaimedFigure  # what the paper claims, or would claim, for a round
    exact_per_round: ExplainedFigure  # the claim's argument without approximations
    server: AssumedServerFigure  # against the server, whole training
    outsider: ExplainedFigure  # against those who see only the models, whole training


class PresetPrivacy(RunPrivacy):
    """`pfels privacy PRESET`: the figures that a run of this config will end with."""

    noise_multiplier: float | None  # the minimum noise multiplier of all rounds


class NoiseForBudget(TypedDict):
    """`pfels privacy --target-epsilon`: the noise that a budget requires."""

    target_epsilon: float  # the budget
    noise_multiplier: float  # z = σ₀/(βs) that meets it
    beta: NotRequired[float]  # the level β that gives it, over the air
    server: NotRequired[ExplainedFigure]  # what it costs, if the adversary is the server
    outsider: NotRequired[ExplainedFigure]  # what it costs, if the adversary is an outsider


@document
class LedgerEntry(TypedDict):
    """What one device has spent."""

    mu_squared: float  # μ² = Σ w²/z² over all its transmissions, rounded up
    participations: int  # how often it sent, repetitions included


@document
class LedgerBudget(TypedDict):
    """What the owner of a node allows each device."""

    epsilon: float  # ε over all runs
    delta: float  # δ


@document
class LedgerFile(TypedDict):
    """A node's ledger on disk, in a deployment: what its devices have spent, over all runs."""

    format: int  # 1
    devices: int  # N, all devices of the deployment
    partition: int  # the node carries device i if i mod partitions = partition
    partitions: int  # number of nodes that share the devices
    budget: LedgerBudget | None  # the budget at the last transmission; null: nothing was sent
    spent: dict[str, LedgerEntry]  # by device, those that have sent
    sha256: str  # of all other fields


class DeviceSpending(LedgerEntry):
    """A device in `pfels privacy --ledger`."""

    device: int  # its number
    epsilon: float  # ε at the report's δ, rounded up
    budget_left: float | None  # share of the budget's μ² that is left, rounded down; null: no budget is known


class LedgerReport(TypedDict):
    """`pfels privacy --ledger`: what the devices of a node have spent, those that have sent."""

    devices: int  # N, all devices of the deployment
    partition: int  # the node carries device i if i mod partitions = partition
    partitions: int  # number of nodes that share the devices
    delta: float  # δ of every ε
    budget_epsilon: float | None  # the owner's budget; null: none is known
    adversary: str  # server
    neighbours: str  # device-emptied
    spent: list[DeviceSpending]  # by device, those that have sent
