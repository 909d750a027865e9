"""What a reader relies on in the JSON of a run directory."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pfels.errors import InputError
from pfels.privacy.events import Adversary, Neighbours


class Stored(BaseModel):
    """What every part has in common: a later version may write more, but what is read must be there, and finite."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


Part = TypeVar("Part", bound=Stored)


def checked(kind: type[Part], content: Any, where: str) -> Part:
    """A part as it was stored, or an InputError that says what is wrong with it."""
    try:
        return kind.model_validate_json(content) if isinstance(content, bytes) else kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{where}: {at}{': ' if at else ''}{first['msg']}") from None


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
    loss: float | None
    energy: float | None
    subcarriers: int
    airtime_s: float
    seconds: float
    privacy: StoredRunPrivacy


class StoredTiming(Stored):
    """`timing.json`."""

    seconds: float = 0.0


class StoredEnvironment(Stored):
    """What a resumed run takes from `environment.json`."""

    engine: str | None = None
