"""Constants of the problem, as every scheme sees them: fixed before the first round and known to everybody."""

from dataclasses import dataclass, field

from pfels.privacy.calibration import Budget
from pfels.privacy.claim import c2
from pfels.privacy.events import Sampling, turn_groups
from pfels.uplink.channel import GainLaw, SnrLaw
from pfels.uplink.compression import kept_count
from pfels.uplink.spectrum import Band, Fading


@dataclass(frozen=True, kw_only=True)
class Setting:
    """N devices, a cohort of r per round, T rounds, d parameters of which k are sent, norm bound ητC₁, and a channel.

    `epsilon` and `delta` are the paper's claim per round; `budget` is for the whole training, for schemes that
    calibrate their own noise. The server has `antennas`, of which devices know the channel to one, within
    `csi_error_db` and `phase_error_deg`, and are on time within `timing_error_s`; their amplifiers clip at
    `clipping_db`. With `fading` gains differ between the subcarriers of the `band`. `momentum` and `average` are what
    the server does with the estimates. `own` holds the settings of the scheme's own table in the config. `audited` is
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
    noise_std: float
    gain_law: GainLaw
    snr_law: SnrLaw
    silent_below: float = 0.0
    antennas: int = 1
    csi_error_db: float = 0.0
    phase_error_deg: float = 0.0
    timing_error_s: float = 0.0
    clipping_db: float | None = None
    band: Band = field(default_factory=Band)
    fading: Fading | None = None
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
    def privacy_limit(self) -> float:
        """The β at which the paper's claim per round is exactly ε: ε/C₂ (Thm 3), for a device that arrives as strong as
        its gain error allows."""
        return self.epsilon / c2(
            bound=self.bound * self.gain_margin,
            noise_std=self.noise_std,
            delta=self.delta,
            devices=self.devices,
            cohort=self.cohort_size,
        )

    @property
    def gain_margin(self) -> float:
        """The maximum of |h|/|ĥ|: how much stronger than planned a device may arrive."""
        return 10 ** (self.csi_error_db / 20)

    @property
    def gain_floor(self) -> float:
        """The minimum |ĥ| with which a device sends."""
        return max(self.silent_below, self.gain_law.low)

    @property
    def exposure_bound(self) -> float:
        """The maximum of Σₘ|hₘ|²/|ĥ₀|² over a device's channels to all antennas, relative to that of the first one: by
        how much several antennas can raise what a transmission costs, whatever is drawn."""
        return 1 + (self.antennas - 1) * (self.gain_law.high / self.gain_floor) ** 2
