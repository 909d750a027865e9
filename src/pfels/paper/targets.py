"""The tables and figures of the paper by name, and which options go together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pfels.errors import InputError, nearest, quoted
from pfels.paper.benchmarks import CIFAR10, FEMNIST, Benchmark


@dataclass(frozen=True)
class Target:
    """A table or a figure of the paper, or about it, its benchmarks, and its title with and without training."""

    kind: str
    benchmarks: tuple[Benchmark, ...]
    title: str
    link_title: str


_BOTH = (CIFAR10, FEMNIST)
_MATCHED = "noise power in the estimates, summed over the rounds, of PFELS over that of WFL-PDP at equal mean progress"

TARGETS = {
    "table-cifar10": Target(
        "table",
        (CIFAR10,),
        "accuracy, channel uses and energy",
        "channel uses and energy",
    ),
    "table-femnist": Target(
        "table",
        (FEMNIST,),
        "accuracy, channel uses and energy",
        "channel uses and energy",
    ),
    "fig-compression": Target(
        "compression",
        _BOTH,
        "accuracy of PFELS against the compression ratio p",
        "convergence bound of PFELS against the compression ratio p",
    ),
    "fig-privacy": Target(
        "privacy",
        _BOTH,
        "accuracy against the ε that the paper claims per round",
        "noise, and privacy against the server, over the ε that the paper claims per round",
    ),
    "fig-training": Target(
        "training", _BOTH, "loss and accuracy against rounds and channel uses", "channel uses up to each round"
    ),
    "fig-energy": Target("energy", _BOTH, "loss and accuracy against energy", "energy up to each round"),
    "matched-progress": Target("matched", _BOTH, "", _MATCHED),
}

SCALES = ("link", "laptop", "paper")
AXES = {  # which setting varies along a figure
    "compression": "compression.ratio",
    "privacy": "privacy.epsilon",
    "matched": "privacy.epsilon",
}


def check(
    target: str,
    *,
    scale: str,
    settings: Iterable[str] = (),
    preset: str | None = None,
    learning_rates: Sequence[float] | None = None,
) -> None:
    """An InputError if a target, a scale and the other options do not go together."""
    kind = find(target).kind
    if scale not in SCALES:
        raise InputError(f"--scale = {scale!r}: must be one of {', '.join(SCALES)}")
    if kind == "matched" and scale != "link":
        raise InputError(f"--scale = {scale!r}: {target} does not train; leave it out")
    if scale != "laptop" and preset is not None:
        raise InputError(f"--preset = {preset!r}: only --scale laptop trains another preset in its place")
    if scale == "link" and learning_rates is not None:
        raise InputError("--learning-rates: --scale link does not train; leave it out")
    for key in settings:
        if key in ("seed", "scheme", AXES.get(kind)):
            raise InputError(f"-s {key}: this target sets it itself{'; use --seeds' if key == 'seed' else ''}")


def find(name: str) -> Target:
    """The target of that name."""
    if not isinstance(name, str):
        raise InputError(f"target = {quoted(name)}: must be one of {', '.join(TARGETS)}")
    if name not in TARGETS:
        raise InputError(f"{name}: no such target{nearest(name, TARGETS)}")
    return TARGETS[name]
