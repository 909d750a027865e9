"""Adaptive power control under a budget for the whole training (Liu and Simeone 2021, uncoded, over the air).

Noise of an early round fades by a factor ρ per round as the training contracts, so the noise that the last model
carries is Σₜ ρ^(T−1−t)/βₜ². With every device in every round, as in the paper of the scheme, a budget Σₜ (βₜC/σ₀)² ≤ μ²
and the power limits, its minimum is at βₜ = min(ν·ρ^((T−1−t)/4), power limit of round t). With cohorts the rule stays,
and ν is the maximum at which every device is within the budget over the rounds in which it takes part. It is then not
quite the minimum: rounds without the worst device could carry more. As in the paper, all channels, and here all
cohorts, are known beforehand.
"""

from dataclasses import dataclass, field

import numpy as np
from pydantic import Field

from pfels.arrays import DeviceIds, Reals, Rounds
from pfels.errors import InputError
from pfels.privacy.accountant import COHORT_DEPENDENT, server_loss
from pfels.privacy.calibration import RequiredNoise
from pfels.privacy.events import Adversary, beta_at, rounded_up
from pfels.privacy.gaussian import gaussian_mu
from pfels.schemes.draws import Draws
from pfels.schemes.exposure import exposures
from pfels.schemes.plan import AirLink, RoundPlan
from pfels.schemes.scheme import OwnSettings
from pfels.schemes.wfl_p import WflP
from pfels.uplink.power import align

SAFE = 1 - 1e-9  # the rounding of a running sum must not spend more than the budget
SMALLEST_SHARE = 1e-9  # below it the first rounds would bring nothing but noise


class Settings(OwnSettings):
    """`contraction`: by which factor one round shrinks the distance to the optimum, and with it earlier noise; 1 splits
    the budget evenly, less gives later rounds more of it."""

    contraction: float = Field(default=0.99, gt=0, le=1)


@dataclass
class Levels:
    """β of every round and the limit that set it: a function of the draws, kept as long as they are the same."""

    betas: Reals = field(default_factory=lambda: np.empty(0))
    power_limits: Reals = field(default_factory=lambda: np.empty(0))
    draws: Draws | None = None


@dataclass(frozen=True)
class LiuSimeone(WflP):
    """Whole updates over the air, at levels that split one budget over the rounds; sends and receives as WFL-P."""

    levels: Levels = field(default_factory=Levels)

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """Who takes part in round t, and at what level β."""
        s, levels, cohort = self.setting, self._levels(draws), draws.cohort(t)
        beta = float(levels.betas[t])
        limit = "power" if beta == levels.power_limits[t] else "privacy"
        h, P = draws.gains(t, cohort), draws.powers(cohort)
        air = AirLink(h, P, beta, limit, bound=s.bound, share=1.0)
        return RoundPlan.over_air(s, t, cohort, air, width=s.dimension)

    def required_noise(self) -> RequiredNoise:
        """The noise of the last round, before anybody is drawn: as if a device took part in every round, and power
        never limited the level."""
        s, shares = self.setting, self._shares() ** 2 * self.setting.cell.exposure_bound
        if s.budget.adversary is not Adversary.SERVER:
            raise InputError(f"--adversary {s.budget.adversary}: {COHORT_DEPENDENT}; ask for --adversary server")
        allowed = gaussian_mu(epsilon=s.budget.epsilon, delta=s.delta) ** 2
        z = float(np.sqrt(shares.sum() / allowed)) / SAFE
        loss = server_loss(mu_squared=float(shares.sum()) / z**2, participations=s.rounds, delta=s.delta)
        beta = beta_at(noise_multiplier=z, bound=s.bound * s.cell.margin, noise_std=s.noise_std)
        return RequiredNoise(z, beta, loss)

    def _shares(self) -> Reals:
        """ρ^((T−1−t)/4): the level of each round relative to the last one's."""
        own = self.setting.own
        rho = own.contraction if isinstance(own, Settings) else Settings().contraction
        shares: Reals = rho ** (np.arange(self.setting.rounds)[::-1] / 4)
        if shares[0] < SMALLEST_SHARE:
            allowed = rounded_up(SMALLEST_SHARE ** (4 / (len(shares) - 1)), digits=3)
            raise InputError(
                f"liu-simeone.contraction = {rho:g}: must be at least {allowed:g} for {len(shares)} rounds; with less, "
                f"the level of the first is below {SMALLEST_SHARE:g} of the last one's"
            )
        return shares

    def _levels(self, draws: Draws) -> Levels:
        """The levels of all rounds, from these draws."""
        kept, s = self.levels, self.setting
        if kept.draws is not draws:
            cohorts = [draws.cohort(t) for t in range(s.rounds)]
            limits = [self._power_limit(draws, t) for t in range(s.rounds)]
            kept.power_limits, kept.draws = np.array(limits), draws
            rounds = np.repeat(np.arange(s.rounds, dtype=np.int64), [len(cohort) for cohort in cohorts])
            _, who = np.unique(np.concatenate(cohorts), return_inverse=True)
            exposed = np.concatenate([exposures(draws, t, cohort) for t, cohort in enumerate(cohorts)])
            kept.betas = self._split(kept.power_limits, rounds, who.astype(np.int64, copy=False), exposed)
        return kept

    def _power_limit(self, draws: Draws, t: int) -> float:
        cohort = draws.cohort(t)
        h, P = draws.gains(t, cohort), draws.powers(cohort)
        return align(h, P, bound=self.setting.bound, share=1.0, privacy_limit=np.inf).beta

    def _split(self, power_limits: Reals, rounds: Rounds, who: DeviceIds, exposed: Reals) -> Reals:
        """The levels with which no device spends more than the budget; `rounds`, `who` and `exposed`, their exposures,
        list the participations."""
        s, shares = self.setting, self._shares()
        allowed = gaussian_mu(epsilon=s.budget.epsilon, delta=s.delta) ** 2 * SAFE

        def at(log_level: float) -> Reals:
            levels: Reals = np.minimum(np.exp(log_level) * shares, power_limits)
            return levels

        def excess(log_level: float) -> float:
            costs = (at(log_level)[rounds] * s.bound * s.cell.margin / s.noise_std) ** 2 * exposed
            return float(np.bincount(who, costs, minlength=1).max() - allowed)

        # At the lowest ν even a device in all rounds is within the budget; from the highest on, power limits all.
        finite = power_limits[np.isfinite(power_limits)]
        strongest = s.bound * s.cell.margin * np.sqrt(s.cell.exposure_bound)
        low = np.log(np.sqrt(allowed / len(shares)) * s.noise_std / strongest)
        high = np.log(finite.max(initial=1.0) / shares.min()) + 1
        if not len(who) or high <= low or excess(high) <= 0:
            return at(max(low, high))
        from scipy.optimize import brentq  # takes longer to import than most figures take

        root = brentq(excess, low, high, xtol=1e-13) if excess(low) < 0 else low
        return at(root if excess(root) <= 0 else root - 1e-12)
