"""Privacy figures: an (ε, δ) with its adversary, its neighbouring relation, and the reason why it holds or does not."""

from typing import NotRequired

from typing_extensions import TypedDict

from pfels.documents.data import DataNote
from pfels.documents.validate import Amount, Count, Share, document


@document
class Figure(TypedDict):
    """An (ε, δ) and against whom."""

    epsilon: Amount | None  # ε, an upper bound; null: there is none
    delta: Share  # δ
    adversary: str  # server, blind-server or outsider
    neighbours: str  # device-emptied, add-remove or replace-one
    valid: bool  # whether it is a guarantee; of a claim: whether it is in the range of its proof
    participations: NotRequired[Count]  # how often the worst device took part


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


AtSmallDelta = TypedDict(
    "AtSmallDelta",
    {
        "epsilon_at_1e-5": NotRequired[float | None],  # ε of the same device at δ = 1e-5; null: there is none
    },
)


@document
class ServerFigure(ExplainedFigure, AtSmallDelta):
    """The worst device against the server, and all devices."""

    distribution: Distribution  # of ε over the devices


@document
class Assumption(TypedDict):
    """What the server's figure becomes where an assumption fails."""

    name: str  # what is different
    epsilon: float | None  # ε of the worst device then; null: none


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
    blind_server: NotRequired[ExplainedFigure]  # against a server that does not learn who sends, over the air
    assumptions: NotRequired[list[Assumption]]  # what `server` becomes where one of its assumptions fails
    server_by_antennas: NotRequired[dict[str, float | None]]  # ε against a server with 1, 2, 4 and 8 antennas
    data_notes: NotRequired[list[DataNote]]  # whom a device stands for, and what was taken to be public of the data
    audited: NotRequired[bool]  # false: code from outside pfels played the rounds, and no test holds it to its figures


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


class EverySeed(TypedDict):
    """What holds against the server whatever the seed draws."""

    epsilon: float | None  # ε, an upper bound; null: there is none
    why: str  # the reason in words


class PresetPrivacy(RunPrivacy):
    """`pfels privacy PRESET`: the figures that a run of this config will end with, with the cohorts of its seed."""

    noise_multiplier: float | None  # the minimum noise multiplier of all rounds
    seed: int  # the seed whose cohorts and channels were drawn
    every_seed: EverySeed  # what holds against the server for every seed


class StoredPrivacy(RunPrivacy):
    """`pfels privacy RUN_DIR`: the figures of a run up to the rounds done."""

    run: str  # its directory
    scheme: str  # the scheme
    seed: int  # the seed, or the public label of a secret one
    rounds: int  # T
    rounds_done: int  # rounds that the figures are of; of an unfinished deployment: up to its last checkpoint
    finished: bool  # whether it is finished


class RequiredAgainst(TypedDict):
    """The noise that a budget requires against one adversary."""

    noise_multiplier: float | None  # z = σ₀/(βs) that meets it; null: there is no such figure
    beta: float | None  # the level β that gives it; null: ideal links, or no figure
    why: str  # why it is enough, or why there is no figure


class BestFloor(TypedDict):
    """The gain floor that serves a budget best against a server with several antennas."""

    antennas: int  # M
    silent_below: float  # `channel.silent_below`
    noise_multiplier: float  # z that meets the budget surely
    beta: float  # the level β
    senders: float  # expected number of senders in a round
    signal: float  # β·senders relative to one antenna: what is left of the signal over the noise


class NoiseForBudget(TypedDict):
    """`pfels privacy --target-epsilon`: the noise that a budget requires."""

    target_epsilon: float  # the budget
    noise_multiplier: float  # z = σ₀/(βs) that meets it
    beta: NotRequired[float]  # the level β that gives it, over the air
    server: NotRequired[ExplainedFigure]  # what it costs, if the adversary is the server
    blind_server: NotRequired[ExplainedFigure]  # what it costs, if the adversary is a blind server
    outsider: NotRequired[ExplainedFigure]  # what it costs, if the adversary is an outsider
    adversaries: NotRequired[dict[str, RequiredAgainst]]  # the same against each adversary, where none was named
    floors: NotRequired[list[BestFloor]]  # the floor on gains for 1, 2, 4 and 8 antennas, where none was named


@document
class LedgerEntry(TypedDict):
    """What one device has spent."""

    mu_squared: Amount  # μ² = Σ w²/z² over all its transmissions, rounded up
    participations: Count  # how often it sent, repetitions included


@document
class LedgerBudget(TypedDict):
    """What the owner of a node allows each device."""

    epsilon: Amount  # ε over all runs
    delta: Share  # δ


@document
class LedgerFile(TypedDict):
    """A node's ledger on disk, in a deployment: what its devices have spent, over all runs."""

    format: Count  # 1
    devices: Count  # N, all devices of the deployment
    partition: Count  # the node carries device i if i mod partitions = partition
    partitions: Count  # number of nodes that share the devices
    budget: LedgerBudget | None  # the budget at the last transmission; null: nothing was sent
    spent: dict[str, LedgerEntry]  # by device, those that have sent
    sha256: str  # of all other fields
    carried: NotRequired[LedgerEntry]  # from numbers before: the μ² that every device starts from, all transmissions


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
    carried_epsilon: float  # ε from before the devices were renumbered, which every device starts from; 0: none
