"""The log of a run read once more: what its rounds add up to, held against the checkpoint that vouches for them."""

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pfels.config.tree import Config
from pfels.documents.run import RoundRecord
from pfels.errors import InputError
from pfels.experiment.ledger import Ledger
from pfels.experiment.link import frame_of
from pfels.experiment.log import Log

SUMS = 1e-9  # relative; the same numbers in another order
FIGURES = 1e-6  # relative; an ε of another version, whose last digits may differ


@dataclass
class LogTotals:
    """What the records so far add up to; `levels` are the noise multipliers of the rounds with noise, and `unlimited`
    counts the rounds in which nothing limited β."""

    rounds: int = 0
    energy: float | None = None
    energy_bound: float | None = None
    subcarriers: int = 0
    slots: int = 0
    silent: int = 0
    privacy_limited_rounds: int = 0
    unlimited: int = 0
    levels: "array[float]" = field(default_factory=lambda: array("d"))
    last: RoundRecord | None = None

    def add(self, record: RoundRecord, config: Config) -> None:
        """Add one more round, as the ledger does."""
        energy, bound = record["energy"], record["energy_bound"]
        self.energy = None if energy is None else (self.energy or 0.0) + energy
        self.energy_bound = None if bound is None else (self.energy_bound or 0.0) + bound
        self.subcarriers += record["subcarriers"]
        self.slots += frame_of(config).slots(record["subcarriers"])
        self.silent += record["silent"]
        self.privacy_limited_rounds += record["limit"] == "privacy"
        self.unlimited += record["limit"] is None
        if record["noise_multiplier"]:
            self.levels.append(record["noise_multiplier"])
        self.rounds, self.last = self.rounds + 1, record


@dataclass(frozen=True)
class Sealed:
    """What a verified checkpoint says of the log: so many rounds and bytes, their hash, the totals, the ledger,
    and whether no round follows."""

    round: int
    log_size: int
    log_sha256: str
    totals: Mapping[str, Any]
    ledger: Ledger
    last: bool


def records(log: Log, sealed: Sealed | None, totals: LogTotals, config: Config, path: Path) -> Iterator[RoundRecord]:
    """The records of a log, added to `totals` as they go by; those behind a checkpoint of the last round do not count.

    An InputError where the checkpoint is not of this log, or not of these rounds.
    """
    if sealed is not None and log.marked(sealed.log_size, rounds=sealed.round).sha256.hexdigest() != sealed.log_sha256:
        raise InputError(f"{path}: truncated or altered; it no longer fits the checkpoint")
    if sealed is not None and sealed.round == 0:
        _require_agreement(sealed, totals, config, path)
    for record in log.records(size=sealed.log_size if sealed is not None and sealed.last else None):
        totals.add(record, config)
        if sealed is not None and totals.rounds == sealed.round:
            _require_agreement(sealed, totals, config, path)
        yield record


def _require_agreement(sealed: Sealed, found: LogTotals, config: Config, path: Path) -> None:
    """An InputError unless a checkpoint's totals and ledger are those of the rounds in the log."""
    said = sealed.totals

    def require(holds: bool, name: str) -> None:
        if not holds:
            raise InputError(f"{path}: truncated or altered: its rounds do not add up to the checkpoint's {name}")

    for name in ("energy", "energy_bound"):
        require(close(said[name], getattr(found, name), relative=SUMS), name)
    for name in ("subcarriers", "slots", "silent"):
        require(said[name] == getattr(found, name), name)
    limited = said["privacy_limited_rounds"]
    require(0 <= limited - found.privacy_limited_rounds <= found.unlimited, "privacy_limited_rounds")
    _require_levels(sealed.ledger.noise_multipliers, found, require)
    if found.last is None:
        return
    privacy, worst = found.last["privacy"], sealed.ledger.server.worst(delta=config.delta)
    claimed, server = privacy["claimed"], privacy["server"]
    require(close(said["claimed_epsilon"], claimed and claimed["epsilon"], relative=SUMS), "claimed_epsilon")
    require(close(worst.epsilon, server["epsilon"], relative=FIGURES), "server.mu_squared")
    require(worst.epsilon is None or worst.participations == server.get("participations"), "server.participations")


def _require_levels(tally: Mapping[float, int], found: LogTotals, require: Any) -> None:
    """Every round with noise is counted under its noise multiplier; one in which nobody sent may be without in the
    log."""
    levels, counts = np.unique(np.frombuffer(found.levels, np.float64), return_counts=True)
    for z, count in zip(levels.tolist(), counts.tolist(), strict=True):
        require(z in tally and tally[z] >= count, "noise_multipliers")
    unseen = sum(tally.values()) - len(found.levels)
    require(unseen <= found.rounds - len(found.levels), "noise_multiplier_rounds")


def close(a: float | None, b: float | None, *, relative: float) -> bool:
    """Whether two figures are the same up to rounding; none is like none alone."""
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=relative, abs_tol=1e-12)
