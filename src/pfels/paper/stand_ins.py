"""Which preset is trained for a benchmark of the paper, and at which ε."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pfels.config.load import load_config
from pfels.config.preset_files import presets
from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.experiment.link import link_of
from pfels.paper.benchmarks import Benchmark, data_name
from pfels.paper.traces import round_trace
from pfels.privacy.claim import claimed_noise_multiplier

LAPTOP_RATES = (0.005, 0.01, 0.02, 0.05, 0.1)
SCALING_ROUNDS = 500


@dataclass(frozen=True, kw_only=True)
class StandIn:
    """A benchmark, the preset that is trained for it, the user's own settings, and the learning rates to choose from.

    `epsilon_scale` carries the paper's ε over to this preset; `note` says what stands in for what.
    """

    benchmark: Benchmark
    preset: str
    overrides: Mapping[str, Any]
    learning_rates: tuple[float, ...]
    epsilon_scale: float
    note: str

    @property
    def name(self) -> str:
        """The data that are trained: `demo, for CIFAR-10`, or at the paper's scale `CIFAR-10`."""
        return data_name(self.benchmark.title, self.preset)

    @property
    def ratio(self) -> float:
        """The p of PFELS: the user's, or the preset's own, or at the paper's scale the paper's."""
        if "compression.ratio" in self.overrides or self.preset != self.benchmark.preset:
            return _config(self.preset, self.overrides).compression.ratio
        return self.benchmark.ratio

    def epsilon(self, printed: float) -> float:
        """The equivalent here of a printed ε; the user's, where it is given."""
        given = self.overrides.get("privacy.epsilon")
        return float(given) if given is not None else float(f"{printed * self.epsilon_scale:.3g}")

    def config(self, scheme: str, settings: Mapping[str, Any]) -> Config:
        """The config of one run. A scheme that ignores a setting still has it in its config, like the other schemes."""
        return load_config(_config(self.preset, {**self.overrides, **settings}), {"scheme": scheme})


def _config(preset: str, overrides: Mapping[str, Any]) -> Config:
    """A preset with settings for all three schemes of the paper, as the paper has them and not tuned for any: PFELS
    uses every one that the others use. Airtime is by the paper's reading."""
    return load_config(preset, {"radio.frame": "paper", **overrides, "scheme": "pfels"}, tuned=False)


def choose_stand_in(
    benchmark: Benchmark,
    *,
    scale: str,
    overrides: Mapping[str, Any],
    preset: str | None = None,
    learning_rates: Sequence[float] | None = None,
) -> StandIn:
    """What is trained for a benchmark: its own preset at the paper's scale, else one whose data are available."""
    rates = benchmark.learning_rates if scale == "paper" else LAPTOP_RATES
    if learning_rates is not None:
        rates = tuple(learning_rates)
    if "training.learning_rate" in overrides:
        rates = (overrides["training.learning_rate"],)
    if scale == "paper":
        return StandIn(
            benchmark=benchmark, preset=benchmark.preset, overrides=overrides, learning_rates=rates,
            epsilon_scale=1.0, note=f"{benchmark.title} at the paper's settings",
        )  # fmt: skip
    name = preset if preset is not None else _first_available(benchmark.stand_ins, overrides)
    missing = benchmark.stand_ins[: benchmark.stand_ins.index(name)] if preset is None else ()
    note = f"{name} stands in for {benchmark.title}"
    if missing:
        note += f", because the data of {', '.join(missing)} are not installed (pfels data get)"
    return StandIn(
        benchmark=benchmark, preset=name, overrides=overrides, learning_rates=rates,
        epsilon_scale=epsilon_scale(load_config(benchmark.preset), _config(name, overrides)), note=note,
    )  # fmt: skip


def _first_available(names: Sequence[str], overrides: Mapping[str, Any]) -> str:
    """The first of these presets whose data are installed; the last comes with its data."""
    from pfels.data import datasets

    for name in names[:-1]:
        if name in presets():
            data = _config(name, overrides).data
            try:
                datasets.load(data.name, data.path)
            except InputError:
                continue
            return name
    return names[-1]


def epsilon_scale(paper: Config, here: Config) -> float:
    """The factor on ε with which the privacy limit on β is active here as often as in the paper.

    Pᵢ grows with d, so the noise multiplier that the power limits allow falls like 1/√d, while the one that a claim
    of ε requires does not depend on d. The factor keeps their ratio.
    """
    return _claim_over_power(here) / _claim_over_power(paper)


def _claim_over_power(config: Config) -> float:
    link = link_of(config)
    weakest = statistics.median(round_trace(link.draws, t).weakest_amplitude for t in range(SCALING_ROUNDS))
    s = link.setting
    claim = claimed_noise_multiplier(epsilon=1.0, delta=s.delta, devices=s.devices, cohort=s.cohort_size)
    return claim * weakest / s.noise_std
