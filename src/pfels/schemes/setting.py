"""Constants of the problem, as every scheme sees them: fixed before the first round and known to everybody."""

from dataclasses import dataclass

from pfels.privacy.calibration import Budget
from pfels.privacy.claim import c2
from pfels.privacy.events import Sampling, turn_groups
from pfels.uplink.compression import kept_count
from pfels.uplink.effects.cell import Cell


@dataclass(frozen=True, kw_only=True)
class Setting:
    """N devices, a cohort of r per round, T rounds, d parameters of which k are sent, norm bound ητC₁, and a channel.

    `epsilon` and `delta` are the paper's claim per round; `budget` is for the whole training, for schemes that
    calibrate their own noise. `cell` is the channel. `momentum` and `average` are what the server does with the
    estimates. `own` holds the settings of the scheme's own table in the config. `audited` is
    off for a scheme from outside this package, whose tests audit its own schemes alone.
    """

    devices: int
    cohort_size: int
    sampling: Sampling
    rounds: int
    dimension: int
    ratio: float
    bound: float
    epsilon: float
    delta: float
    budget: Budget
    cell: Cell
    mask: str = "rand-k"
    error_feedback: bool = False
    momentum: float = 0.0
    average: float = 0.0
    own: object = None
    audited: bool = True

    @property
    def groups(self) -> int:
        """g, the number of groups that take turns."""
        return turn_groups(devices=self.devices, cohort=self.cohort_size)

    @property
    def kept(self) -> int:
        """k, the number of coordinates sent."""
        return kept_count(self.dimension, self.ratio)

    @property
    def share(self) -> float:
        """p = k/d."""
        return self.kept / self.dimension

    @property
    def noise_std(self) -> float:
        """σ₀, the standard deviation of the receiver noise."""
        return self.cell.noise_std

    @property
    def privacy_limit(self) -> float:
        """The β at which the paper's claim per round is exactly ε: ε/C₂ (Thm 3), for a device that arrives as strong as
        its gain error allows."""
        return self.epsilon / c2(
            bound=self.bound * self.cell.margin,
            noise_std=self.noise_std,
            delta=self.delta,
            devices=self.devices,
            cohort=self.cohort_size,
        )
