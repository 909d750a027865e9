"""A benchmark of the paper made fit for a machine: which preset stands in for it, and at which ε."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pfels.config.load import load_config, presets
from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.experiment import link
from pfels.experiment.link import link_system
from pfels.paper.benchmarks import Benchmark
from pfels.paper.fading import observe
from pfels.privacy.claim import claimed_noise_multiplier

LAPTOP_RATES = (0.005, 0.01, 0.02, 0.05, 0.1)
SCALING_ROUNDS = 500

# Learning rates are chosen on seeds of their own, so that no reported seed had a say in what is reported of it.
TUNING_SEEDS = (1000, 1001)


@dataclass(frozen=True, kw_only=True)
class Study:
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
    def config(self) -> Config:
        """The preset with the user's settings."""
        return load_config(self.preset, self.overrides)

    @property
    def ratio(self) -> float:
        """The p of PFELS: the user's, or the preset's own, or at the paper's scale the paper's."""
        if "compression.ratio" in self.overrides or self.preset != self.benchmark.preset:
            return self.config.compression.ratio
        return self.benchmark.ratio

    def epsilon(self, printed: float) -> float:
        """The ε that has here the place that the paper's ε has there; the user's, where it is given."""
        given = self.overrides.get("privacy.epsilon")
        return float(given) if given is not None else float(f"{printed * self.epsilon_scale:.3g}")


def settle(
    benchmark: Benchmark,
    *,
    scale: str,
    overrides: Mapping[str, Any],
    preset: str | None = None,
    learning_rates: Sequence[float] | None = None,
) -> Study:
    """What is trained for a benchmark at a scale: its own preset at the paper's, else one whose data are at hand."""
    rates = benchmark.learning_rates if scale == "paper" else LAPTOP_RATES
    if learning_rates is not None:
        rates = tuple(learning_rates)
    if "training.learning_rate" in overrides:
        rates = (overrides["training.learning_rate"],)
    if scale == "paper":
        return Study(
            benchmark=benchmark, preset=benchmark.preset, overrides=overrides, learning_rates=rates,
            epsilon_scale=1.0, note=f"{benchmark.title} at the paper's settings",
        )  # fmt: skip
    name = preset if preset is not None else _at_hand(benchmark.stand_ins, overrides)
    missing = [other for other in benchmark.stand_ins if name != other] if preset is None else []
    passed_over = missing[: benchmark.stand_ins.index(name)] if preset is None else []
    note = f"{name} stands in for {benchmark.title}"
    if passed_over:
        note += f", because the data of {', '.join(passed_over)} are not at hand (pfels data get)"
    config = load_config(name, overrides)
    return Study(
        benchmark=benchmark, preset=name, overrides=overrides, learning_rates=rates,
        epsilon_scale=epsilon_scale(load_config(benchmark.preset), config), note=note,
    )  # fmt: skip


def _at_hand(names: Sequence[str], overrides: Mapping[str, Any]) -> str:
    """The first of these presets whose data are here; the last comes with its data."""
    from pfels.data import datasets

    for name in names[:-1]:
        if name in presets():
            data = load_config(name, overrides).data
            try:
                datasets.load(data.name, data.path)
            except InputError:
                continue
            return name
    return names[-1]


def epsilon_scale(paper: Config, here: Config) -> float:
    """By how much ε must shrink for the privacy limit to stand here where it stands in the paper.

    Pᵢ grows with d, so the noise multiplier that the power limits allow falls like 1/√d, while the one that a claim
    of ε asks for does not know d. The scale makes their ratio the same: what counts is how often privacy limits β.
    """
    return _claim_over_power(here) / _claim_over_power(paper)


def _claim_over_power(config: Config) -> float:
    system = link_system(config, dimension=link.dimension(config))
    reach = statistics.median(observe(system, t).reach for t in range(SCALING_ROUNDS))
    claim = claimed_noise_multiplier(epsilon=1.0, delta=config.delta, devices=system.devices, cohort=system.cohort_size)
    return claim * reach / system.noise_std
