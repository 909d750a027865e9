"""Settings and printed values of the paper's two benchmarks, and what its text says of the figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pfels.documents.paper import Printed

NAMES = {"pfels": "PFELS", "wfl-p": "WFL-P", "wfl-pdp": "WFL-PDP"}  # as the paper writes them
SCHEMES = tuple(NAMES)
RATIOS = tuple(round(0.1 * i, 1) for i in range(1, 11))  # the p of fig-compression
SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One of the paper's two data sets, with the settings of its experiments.

    `stand_ins` are presets of the same kind (IID, or by writer) that a laptop can train, in order of preference.
    `epsilon` is the claim per round of the table and of the training curves, `compression_epsilon` that of
    fig-compression. The paper does not print the values of ε in fig-privacy: `epsilons` are those that its text
    names, and some in between. According to the text, WFL-PDP is as good as WFL-P from ε = `same_from` on, and PFELS
    is better than WFL-P from ε = `ahead_from` on.
    """

    title: str
    preset: str
    stand_ins: tuple[str, ...]
    learning_rates: tuple[float, ...]
    ratio: float
    epsilon: float
    compression_epsilon: float
    epsilons: tuple[float, ...]
    same_from: float
    ahead_from: float
    printed: Mapping[str, Printed]


CIFAR10 = Benchmark(
    title="CIFAR-10",
    preset="cifar10",
    stand_ins=("fashion", "demo"),
    learning_rates=(0.01, 0.05, 0.1),
    ratio=0.3,
    epsilon=1.5,
    compression_epsilon=1.5,
    epsilons=(0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 5.0),
    same_from=2.5,
    ahead_from=1.0,
    printed={
        "pfels": {"accuracy": 0.7642, "subcarriers": 600, "energy": 2.55e11},
        "wfl-p": {"accuracy": 0.7272, "subcarriers": 2000, "energy": 5.19e11},
        "wfl-pdp": {"accuracy": 0.7223, "subcarriers": 2000, "energy": 3.70e11},
    },
)

FEMNIST = Benchmark(
    title="FEMNIST",
    preset="femnist",
    stand_ins=("mnist-writers", "demo"),
    learning_rates=(0.001, 0.02, 0.05),
    ratio=0.5,
    epsilon=2.0,
    compression_epsilon=1.0,
    epsilons=(0.5, 1.0, 2.0, 4.0, 6.0, 9.0),
    same_from=9.0,
    ahead_from=2.0,
    printed={
        "pfels": {"accuracy": 0.8197, "subcarriers": 500, "energy": 1.90e11},
        "wfl-p": {"accuracy": 0.8143, "subcarriers": 1000, "energy": 2.89e11},
        "wfl-pdp": {"accuracy": 0.7855, "subcarriers": 1000, "energy": 2.22e11},
    },
)

BENCHMARKS = {each.title: each for each in (CIFAR10, FEMNIST)}


def data_name(benchmark: str, preset: str) -> str:
    """The data of a result: the benchmark's own, or those of the preset that stand in for it.

    >>> data_name("CIFAR-10", "demo"), data_name("CIFAR-10", "cifar10")
    ('demo, for CIFAR-10', 'CIFAR-10')
    """
    return benchmark if preset == BENCHMARKS[benchmark].preset else f"{preset}, for {benchmark}"
