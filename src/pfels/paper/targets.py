"""paper.targets"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pfels.errors import InputError, nearest
from pfels.paper.benchmarks import CIFAR10, FEMNIST, Benchmark


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
        "CIFAR-10: accuracy, subcarriers and energy",
        "CIFAR-10: subcarriers and energy",
    ),
    "table-femnist": Target(
        "table",
        (FEMNIST,),
        "FEMNIST: accuracy, subcarriers and energy",
        "FEMNIST: subcarriers and energy",
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
