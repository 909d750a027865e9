"""What the paper fixes and prints: its two benchmarks, its tables, and what it says that its figures show."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pfels.errors import InputError
from pfels.wording import nearest

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


@dataclass(frozen=True)
class Target:
    """A table or a figure of the paper, the benchmarks it is about, and what the link alone can say of it."""

    kind: str
    benchmarks: tuple[Benchmark, ...]
    title: str
    link_title: str


_BOTH = (CIFAR10, FEMNIST)
TARGETS = {
    "table-cifar10": Target(
        "table",
        (CIFAR10,),
        "CIFAR-10: accuracy, subcarriers and energy at ε = 1.5",
        "CIFAR-10: subcarriers and energy at ε = 1.5",
    ),
    "table-femnist": Target(
        "table",
        (FEMNIST,),
        "FEMNIST: accuracy, subcarriers and energy at ε = 2.0",
        "FEMNIST: subcarriers and energy at ε = 2.0",
    ),
    "fig-compression": Target(
        "compression",
        _BOTH,
        "accuracy of PFELS against the compression ratio p",
        "the errors that the convergence bound expects of PFELS against the compression ratio p",
    ),
    "fig-privacy": Target(
        "privacy",
        _BOTH,
        "accuracy against the ε that the paper claims for a round",
        "noise, and what the server learns, against the ε that the paper claims for a round",
    ),
    "fig-training": Target(
        "training", _BOTH, "loss and accuracy against rounds and subcarriers", "subcarriers used up by each round"
    ),
    "fig-energy": Target("energy", _BOTH, "loss and accuracy against energy", "energy used up by each round"),
}


SCALES = ("link", "laptop", "paper")
AXES = {"compression": "compression.ratio", "privacy": "privacy.epsilon"}  # what a figure sets at every point


def check(
    target: str,
    *,
    scale: str,
    settings: Iterable[str] = (),
    preset: str | None = None,
    learning_rates: Sequence[float] | None = None,
) -> None:
    """Nothing, or an InputError where a target, a scale and what the user wants changed do not go together."""
    kind = find(target).kind
    if scale not in SCALES:
        raise InputError(f"--scale = {scale!r}: must be one of {', '.join(SCALES)}")
    if scale != "laptop" and preset is not None:
        raise InputError(f"--preset = {preset!r}: only --scale laptop lets another preset stand in")
    if scale == "link" and learning_rates is not None:
        raise InputError("--learning-rates: --scale link trains nobody; leave it out")
    for key in settings:
        if key in ("seed", "scheme", AXES.get(kind)):
            raise InputError(f"-s {key}: this target sets it itself{'; use --seeds' if key == 'seed' else ''}")


def find(name: str) -> Target:
    """The target of that name."""
    if name not in TARGETS:
        raise InputError(f"{name}: no such target{nearest(name, TARGETS)}")
    return TARGETS[name]
