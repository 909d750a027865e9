"""What each change of PFELS+ brings by itself, and all of them together, at one budget against the server.

python docs/studies/ablation.py fashion --total-epsilon 8 --jobs 2

The variants are PFELS with one change each. They live here, since nobody would deploy half of a scheme.
"""

import argparse
import math
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pfels.arrays import DeviceIds
from pfels.config.load import load_config
from pfels.config.tree import Config
from pfels.experiment.directory import point_name
from pfels.experiment.forecast import forecast_run
from pfels.paper.reproduce import write_files
from pfels.privacy.calibration import Budget, participation_cap
from pfels.report.terminal import spread
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.carried import QUANTILES
from pfels.schemes.draws import Draws
from pfels.schemes.participation import ParticipationCount
from pfels.schemes.plan import AirLink, RoundPlan
from pfels.schemes.registry import BudgetBy, SchemeEntry, register, scheme_entry
from pfels.schemes.setting import Setting
from pfels.studies.aggregate import aggregate
from pfels.studies.budget import with_budget
from pfels.studies.sweep import Point, run_points
from pfels.training.updates import LocalUpdates
from pfels.uplink.channel import snr_at
from pfels.uplink.clipping import clip
from pfels.uplink.compression import lift, project
from pfels.uplink.power import align, best_carried_level, can_transmit


@dataclass(frozen=True)
class Variant:
    """PFELS with some of the changes: a second clip, one public level with silence, a participation cap."""

    setting: Setting
    second_clip: bool = False
    public_level: bool = False
    capped: bool = False
    sent: ParticipationCount = field(init=False)
    level: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sent", ParticipationCount())
        object.__setattr__(self, "level", self._find_level() if self.public_level else (math.nan, 1.0))

    @property
    def bound(self) -> float:
        """The sensitivity: s with the second clip, else ητC₁."""
        return self.setting.bound * (math.sqrt(self.setting.share) if self.second_clip else 1.0)

    @property
    def privacy_limit(self) -> float:
        """The β at which the claim per round is exactly ε, at this sensitivity."""
        return self.setting.privacy_limit * self.setting.bound / self.bound

    @property
    def reach(self) -> float:
        """What |h|√P must carry at β = 1."""
        return self.bound * (1.0 if self.second_clip else math.sqrt(self.setting.share))

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """As PFELS, except for the changes."""
        s, share = self.setting, 1.0 if self.second_clip else self.setting.share
        sending = self._sending(draws, t)
        h, P = draws.gains(t, sending), draws.powers(sending)
        beta, limit = align(h, P, bound=self.bound, share=share, privacy_limit=self.privacy_limit)
        if self.public_level:
            beta, limit = self.level[0], "privacy"
        air = AirLink(h, P, beta, limit, bound=self.bound, share=share)
        return RoundPlan.over_air(s, t, draws.cohort(t), air, width=s.kept, claimed=True, sending=sending)

    def indices(self, draws: Draws, theta: Tensor, t: int) -> Tensor:
        """The shared index set."""
        return draws.rand_k(t)

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """As PFELS, with the second clip where it is on."""
        projected = project(clip(part.updates, bound=self.setting.bound), A)
        if self.second_clip:
            projected = clip(projected, bound=self.bound)
        return plan.transmit(projected, part.places)

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """As PFELS; with silence, by the expected number of senders."""
        count = self.setting.cohort_size * self.level[1]
        if self.capped:  # how many of a cohort are below the cap, on average over the cohorts so far
            count *= max(len(plan.sending), 1) / len(plan.cohort)
        return lift(y, A, dimension=self.setting.dimension) / (max(count, 1.0) * plan.beta)

    def _find_level(self) -> tuple[float, float]:
        """One β for the whole training, at most the claim's, and the share of devices that can carry it."""
        s, gain, snr = self.setting, self.setting.cell.gain, self.setting.cell.power
        powers = snr_at(QUANTILES, low_db=snr.low_db, high_db=snr.high_db, scale=snr.scale)
        amplitudes = np.sqrt(powers * s.dimension) * s.noise_std

        def carried(beta: float) -> float:
            needed = beta * self.reach / amplitudes
            return float(gain.exceeds(needed).mean())

        highest = float(amplitudes.max()) * gain.gain_max / self.reach
        beta = best_carried_level(beta=min(self.privacy_limit, highest), carried=carried)
        return beta, carried(beta)

    def _sending(self, draws: Draws, t: int) -> DeviceIds:
        able = self._able(draws, t)
        if not self.capped:
            return able
        cap = participation_cap(rounds=self.setting.rounds, rate=self.setting.cohort_size / self.setting.devices)
        return able[self.sent.below(cap, t, able, lambda u: self._able(draws, u), draws=draws)]

    def _able(self, draws: Draws, t: int) -> DeviceIds:
        cohort = draws.cohort(t)
        if not self.public_level:
            return cohort
        h, P = draws.gains(t, cohort), draws.powers(cohort)
        return cohort[can_transmit(h, P, beta=self.level[0], bound=self.reach)]


VARIANTS: dict[str, dict[str, bool]] = {
    "second-clip": {"second_clip": True},
    "public-level": {"public_level": True},
    "participation-cap": {"capped": True},
    "second-clip-public-level": {"second_clip": True, "public_level": True},
}
for _name, _changes in VARIANTS.items():  # at import, so that the processes of a sweep know them too
    _uses = scheme_entry("pfels").uses
    register(_name, SchemeEntry(partial(Variant, **_changes), uses=_uses, claims=True, budget=BudgetBy.CLAIM))

ROWS: dict[str, dict[str, Any]] = {
    "PFELS": {"scheme": "pfels"},
    "Poisson cohorts alone": {"scheme": "pfels", "cohort.sampling": "poisson"},
    "second clip alone": {"scheme": "second-clip"},
    "one public level with silence alone": {"scheme": "public-level"},
    "participation cap alone": {"scheme": "participation-cap"},
    "second clip and public level": {"scheme": "second-clip-public-level"},
    "PFELS+ (all)": {"scheme": "pfels-plus"},
    "PFELS+ with a floor of 0.005 on gains": {"scheme": "pfels-plus", "channel.silent_below": 0.005},
    "PFELS+ with error feedback": {"scheme": "pfels-plus", "compression.error_feedback": True},
    "PFELS+ with public-top-k": {"scheme": "pfels-plus", "compression.kind": "public-top-k"},
    "PFELS+ with server momentum 0.5": {"scheme": "pfels-plus", "server.momentum": 0.5, "server.learning_rate": 0.5},
    "PFELS with server momentum 0.5": {"scheme": "pfels", "server.momentum": 0.5, "server.learning_rate": 0.5},
}


def on_budget(config: Config, budget: Budget) -> Config:
    """The config that meets the budget. With one public level, the claim also decides who can send, so that it is found
    by trying: the largest up to which no claim exceeds the budget."""
    if not VARIANTS.get(config.scheme, {}).get("public_level"):
        return with_budget(config, budget)

    def claiming(epsilon: float) -> Config:
        privacy = config.privacy.model_copy(update={"epsilon": epsilon, "total_epsilon": budget.epsilon})
        return config.model_copy(update={"privacy": privacy})

    def spent(epsilon: float) -> float:
        setting, ledger = forecast_run(claiming(epsilon))
        return ledger.server.worst(delta=setting.delta).epsilon or 0.0

    low = 1e-4
    while spent(low * 1.3) <= budget.epsilon and low < 1e3:
        low *= 1.3
    high = low * 1.3
    for _ in range(20):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent(middle) <= budget.epsilon else (low, middle)
    return claiming(low)


def main() -> None:
    """Run every row for every seed, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--total-epsilon", type=float, default=8.0)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--ratio", type=float, default=0.3)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/ablation"))
    asked = parser.parse_args()
    budget = Budget(asked.total_epsilon, "server")
    common = {"training.learning_rate": asked.learning_rate, "compression.ratio": asked.ratio}
    common |= {} if asked.rounds is None else {"rounds": asked.rounds}
    runs = []
    for label, settings in ROWS.items():
        for seed in asked.seeds.split(","):
            every = {**settings, **common, "seed": int(seed)}
            config = on_budget(load_config(asked.preset, every), budget)
            runs.append(
                Point({"row": label, **every}, config, asked.out / "runs" / point_name({"row": label, **every}))
            )
    summaries = run_points(runs, jobs=asked.jobs)
    rows = {}
    for label in ROWS:
        row = aggregate(s for point, s in zip(runs, summaries, strict=True) if point.settings["row"] == label)
        rows[label] = {key: row[key] for key in ("accuracy", "energy", "subcarriers", "privacy")}
        print(
            f"{label:38} {spread(row['accuracy'], '.4f')}"
            f"  energy {row['energy']['mean']:.3g}  ε server {row['privacy']['server']['epsilon']:.3f}"
        )
    about = {"preset": asked.preset, "budget": budget.settings(), "common": common, "schemes": rows}
    print("\n".join(write_files(about, "table", asked.out / f"ablation-{asked.preset}")))


if __name__ == "__main__":
    main()
