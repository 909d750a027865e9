"""What each change of PFELS+ brings by itself, and all of them together, at one budget against the server.

python docs/studies/ablation.py fashion --total-epsilon 8 --jobs 2

The variants are PFELS with one change each. They live here, since nobody would deploy half of a scheme.
"""

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pfels.config.load import load_config
from pfels.config.tree import Config
from pfels.experiment import link as experiment_link
from pfels.experiment.directory import point_name
from pfels.experiment.link import link_system
from pfels.paper.documents import write
from pfels.privacy.calibration import Footing, ration
from pfels.privacy.events import Adversary
from pfels.privacy.gaussian import gaussian_epsilon
from pfels.report.terminal import spread
from pfels.schemes import pfels, pfels_plus, registry
from pfels.schemes.plan import Air, Link
from pfels.schemes.system import System
from pfels.studies.aggregate import aggregate
from pfels.studies.budget import on_footing
from pfels.studies.sweep import Point, run_points
from pfels.uplink.channel import gain_exceeds, snr_at
from pfels.uplink.clipping import clip
from pfels.uplink.compression import lift, project
from pfels.uplink.power import align, carries, serving_level


@dataclass(frozen=True)
class Variant:
    """PFELS with some of the changes: a second clip, one public level with silence, a ration."""

    second_clip: bool = False
    public_level: bool = False
    rationed: bool = False

    def bound(self, system: System) -> float:
        """The sensitivity: s with the second clip, else ητC₁."""
        return system.bound * (math.sqrt(system.kept / system.dimension) if self.second_clip else 1.0)

    def prepare(self, system: System, t: int) -> Link:
        """As PFELS, but for the changes."""
        share = 1.0 if self.second_clip else system.kept / system.dimension
        sending = self._sending(system, t)
        h, P = system.gains(t, sending), system.powers(sending)
        beta, limit = align(h, P, bound=self.bound(system), share=share, privacy_limit=self._claim(system))
        if self.public_level:
            beta, limit = self._level(system)[0], "privacy"
        air = Air(h, P, beta, limit, bound=self.bound(system), share=share)
        z = system.noise_std / (beta * air.bound)
        return system.link(
            t, system.cohort(t), sending=sending, subcarriers=system.kept, noise_multiplier=z, cohort_dependent=True,
            claimed=True, air=air,
        )  # fmt: skip

    indices = staticmethod(pfels.indices)

    def send(self, system: System, link: Link, part: Any, A: Any, tally: Any) -> Any:
        """As PFELS, with the second clip where it is on."""
        if not self.second_clip:
            return pfels.send(system, link, part, A, tally)
        air = link.on_air
        h, P = air.gains[part.places], air.powers[part.places]
        sent = clip(project(clip(part.updates, bound=system.bound), A), bound=air.bound)
        return pfels.transmit(sent, h, P, beta=air.beta, bound=air.bound, share=air.share)

    def receive(self, system: System, link: Link, y: Any, A: Any) -> Any:
        """As PFELS; with silence, by the expected number of those who send."""
        count = system.cohort_size * (self._level(system)[1] if self.public_level else 1.0)
        if self.rationed:  # how many of a cohort have not used up their ration, on average over the cohorts so far
            count *= max(len(link.sending), 1) / len(link.cohort)
        return lift(y, A, dimension=system.dimension) / (max(count, 1.0) * link.on_air.beta)

    def _claim(self, system: System) -> float:
        return system.privacy_limit * system.bound / self.bound(system)

    def _level(self, system: System) -> tuple[float, float]:
        """One β for the whole training, at most the claim's, and the share of devices that can carry it."""
        return system.once("public level", lambda: self._find_level(system))

    def _find_level(self, system: System) -> tuple[float, float]:
        reach = self.bound(system) * (1.0 if self.second_clip else math.sqrt(system.kept / system.dimension))
        gain, snr = system.gain_law, system.snr_law
        powers = snr_at(pfels_plus.QUANTILES, low_db=snr.low_db, high_db=snr.high_db, scale=snr.scale)
        amplitudes = np.sqrt(powers * system.dimension) * system.noise_std

        def carried(beta: float) -> float:
            return float(gain_exceeds(beta * reach / amplitudes, mean=gain.mean, low=gain.low, high=gain.high).mean())

        highest = float(amplitudes.max()) * gain.high / reach
        beta = serving_level(beta=min(self._claim(system), highest), carried=carried)
        return beta, carried(beta)

    def _sending(self, system: System, t: int) -> Any:
        able = self._able(system, t)
        if not self.rationed:
            return able
        times = ration(rounds=system.budget.rounds, rate=system.cohort_size / system.devices)
        return able[self._sent(system, t)[able] < times]

    def _sent(self, system: System, t: int) -> Any:
        """How often each device has sent before round t."""
        counts = system.once("counts", lambda: [np.zeros(system.devices, np.int64)])
        times = ration(rounds=system.budget.rounds, rate=system.cohort_size / system.devices)
        while len(counts) <= t:
            before, after = counts[-1], counts[-1].copy()
            able = self._able(system, len(counts) - 1)
            after[able[before[able] < times]] += 1
            counts.append(after)
        return counts[t]

    def _able(self, system: System, t: int) -> Any:
        cohort = system.cohort(t)
        if not self.public_level:
            return cohort
        reach = self.bound(system) * (1.0 if self.second_clip else math.sqrt(system.kept / system.dimension))
        level = self._level(system)[0]
        return cohort[carries(system.gains(t, cohort), system.powers(cohort), beta=level, bound=reach)]


VARIANTS = {
    "second clip": Variant(second_clip=True),
    "one public level, silence": Variant(public_level=True),
    "ration": Variant(rationed=True),
    "second clip, public level": Variant(second_clip=True, public_level=True),
}
for _name, _variant in VARIANTS.items():  # at import, so that the processes of a sweep know them too
    sys.modules[f"ablation.{_name}"] = _variant  # type: ignore[assignment]
    registry.SCHEMES[_name] = f"ablation.{_name}"

ROWS: dict[str, dict[str, Any]] = {
    "PFELS": {"scheme": "pfels"},
    "Poisson cohorts alone": {"scheme": "pfels", "cohort.sampling": "poisson"},
    "second clip alone": {"scheme": "second clip"},
    "one public level with silence alone": {"scheme": "one public level, silence"},
    "ration alone": {"scheme": "ration"},
    "second clip and public level": {"scheme": "second clip, public level"},
    "PFELS+ (all)": {"scheme": "pfels-plus"},
    "PFELS+ with a floor of 0.005 on gains": {"scheme": "pfels-plus", "channel.silent_below": 0.005},
    "PFELS+ with error feedback": {"scheme": "pfels-plus", "compression.error_feedback": True},
    "PFELS+ with public-top-k": {"scheme": "pfels-plus", "compression.kind": "public-top-k"},
    "PFELS+ with server momentum 0.5": {"scheme": "pfels-plus", "server.momentum": 0.5, "server.learning_rate": 0.5},
    "PFELS with server momentum 0.5": {"scheme": "pfels", "server.momentum": 0.5, "server.learning_rate": 0.5},
}


def on_budget(config: Config, footing: Footing) -> Config:
    """The config that meets the budget. With one public level, the claim also decides who can send, so that it is found
    by trying: the largest up to which no claim passes the budget."""
    variant = VARIANTS.get(config.scheme)
    if variant is None or not variant.public_level:
        return on_footing(config, footing)

    def claiming(epsilon: float) -> Config:
        privacy = config.privacy.model_copy(update={"epsilon": epsilon, "total_epsilon": footing.epsilon})
        return config.model_copy(update={"privacy": privacy})

    def spent(epsilon: float) -> float:
        system = link_system(claiming(epsilon), dimension=experiment_link.dimension(config))
        ledger = np.zeros(system.devices)
        for t in range(config.rounds):
            event = variant.prepare(system, t).event
            ledger[list(event.participants)] += event.noise_multiplier**-2
        return gaussian_epsilon(mu=math.sqrt(ledger.max()), delta=system.delta)

    low = 1e-4
    while spent(low * 1.3) <= footing.epsilon and low < 1e3:
        low *= 1.3
    high = low * 1.3
    for _ in range(20):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent(middle) <= footing.epsilon else (low, middle)
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
    footing = Footing(asked.total_epsilon, Adversary.SERVER)
    common = {"training.learning_rate": asked.learning_rate, "compression.ratio": asked.ratio}
    common |= {} if asked.rounds is None else {"rounds": asked.rounds}
    runs = []
    for label, settings in ROWS.items():
        for seed in asked.seeds.split(","):
            every = {**settings, **common, "seed": int(seed)}
            config = on_budget(load_config(asked.preset, every), footing)
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
    about = {"preset": asked.preset, "budget": footing.settings(), "common": common, "schemes": rows}
    print("\n".join(write(about, "table", asked.out / f"ablation-{asked.preset}")))


if __name__ == "__main__":
    main()
