"""What the paper fixes and prints: its two benchmarks, its tables, and what it says that its figures show."""

from collections.abc import Mapping
from dataclasses import dataclass

SCHEMES = ("pfels", "wfl-p", "wfl-pdp")
RATIOS = tuple(round(0.1 * i, 1) for i in range(1, 11))  # the p of fig-compression
SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Printed:
    """A row of a table: accuracy as a share, subcarriers in units of d, and energy."""

    accuracy: float
    subcarriers: int
    energy: float


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One of the paper's two data sets with all that its experiments fix for it.

    `stand_ins` are presets of the same kind (IID, or by writer) that a laptop can train, the first choice first.
    `epsilon` is the per-round claim of the table and of the training curves, `compression_epsilon` that of accuracy
    against p. The values of ε in accuracy against ε are not printed: `epsilons` are those that the text names, and
    some between. From `same_from` on, says the text, WFL-PDP is as good as WFL-P; from `ahead_from` on PFELS is
    better than WFL-P.
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
        "pfels": Printed(0.7642, 600, 2.55e11),
        "wfl-p": Printed(0.7272, 2000, 5.19e11),
        "wfl-pdp": Printed(0.7223, 2000, 3.70e11),
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
        "pfels": Printed(0.8197, 500, 1.90e11),
        "wfl-p": Printed(0.8143, 1000, 2.89e11),
        "wfl-pdp": Printed(0.7855, 1000, 2.22e11),
    },
)
