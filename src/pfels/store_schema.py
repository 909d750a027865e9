"""What a reader relies on in the JSON of a run directory."""

from pydantic import BaseModel, ConfigDict

from pfels.privacy import Adversary, Neighbours


class Stored(BaseModel):
    """What every part has in common: a later version may write more, but what is read must be there, and finite."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class StoredLoss(Stored):
    """An (ε, δ) and against whom."""

    epsilon: float | None
    delta: float
    adversary: Adversary
    neighbours: Neighbours
    valid: bool


class StoredDistribution(Stored):
    """How the loss to the server is spread over the devices that took part."""

    min: float | None
    median: float | None
    p90: float | None
    max: float | None
    never_took_part: float


class StoredExplained(StoredLoss):
    """An (ε, δ) with the reason why it holds, or why there is none."""

    why: str
    display: str | None = None
    accountant: str | None = None
    participations: int | None = None


class StoredServer(StoredExplained):
    """The worst device, and all of them."""

    distribution: StoredDistribution


class StoredRoundPrivacy(Stored):
    """Privacy up to and with a round."""

    claimed: StoredLoss | None
    exact_per_round: StoredLoss | None
    server: StoredLoss


class StoredRound(Stored):
    """A line of `rounds.jsonl`."""

    round: int
    cohort: list[int]
    beta: float | None
    limit: str | None
    noise_multiplier: float | None
    energy: float | None
    device_energy: list[float] | None
    subcarriers: int
    train_loss: float | None
    test_accuracy: float | None
    test_loss: float | None
    privacy: StoredRoundPrivacy


class StoredRunPrivacy(Stored):
    """Privacy of a whole run."""

    noise_multiplier_min: float | None
    claimed: StoredExplained | None
    exact_per_round: StoredExplained | None
    server: StoredServer
    outsider: StoredExplained


class StoredSummary(Stored):
    """`summary.json`."""

    scheme: str
    seed: int
    rounds: int
    dimension: int
    accuracy: float
    loss: float
    energy: float | None
    subcarriers: int
    airtime_s: float
    seconds: float
    privacy: StoredRunPrivacy
