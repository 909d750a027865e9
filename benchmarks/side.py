"""One side of a comparison, as a process that plays rounds for the RoundTimer's listener.

python side.py pfels:SCHEME[:ENGINE[:PRECISION]] | plain[:THREADS] | synthetic:DEVICES WORK DATA [COHORT]
"""

import sys
from collections.abc import Callable
from pathlib import Path

from round_timer import RoundTimer
from work import LEARNING_RATE, MOMENTUM, STEPS, WORKS, Work

Settings = dict[str, str | int | float]


def play_pfels(settings: Settings, end_of_round: Callable[[], None]) -> None:
    """Rounds of `pfels.run`, with a call after each."""
    import pfels

    config = pfels.load_config("demo", {"rounds": 10**6, "run.eval_every": 10**6, **settings})
    pfels.run(config, progress=lambda record: end_of_round())


def settings_of(work: Work, scheme: str, engine: str, precision: str, data: Path) -> Settings:
    """The work as settings of pfels; everything else is as in the demo."""
    return {
        "scheme": scheme,
        "run.engine": engine or "auto",
        "run.precision": precision or "float32",
        "data.name": "file",
        "data.path": str(data),
        "data.devices": work.devices,
        "data.per_device": work.examples,
        "model.name": work.model,
        "model.hidden": work.hidden,
        "cohort.size": work.cohort,
        "training.learning_rate": LEARNING_RATE,
        "training.local_epochs": STEPS,
        "training.batch_size": work.examples,
        "training.momentum": MOMENTUM,
    }


def synthetic(devices: int) -> Settings:
    """PFELS on devices whose data are generated when they are drawn."""
    return {"data.name": "synthetic", "data.devices": devices, "data.per_device": 50, "cohort.size": 32}


def main() -> None:
    """Play rounds until nobody asks for more."""
    kind, name, data, *cohort = sys.argv[1:]
    work, timer = WORKS[name], RoundTimer()
    side, _, what = kind.partition(":")
    if side == "plain":
        import torch

        from plain_loop import rounds

        if what:
            torch.set_num_threads(int(what))
        for _ in rounds(work, Path(data), int(cohort[0]) if cohort else work.cohort):
            timer.next_round()
    elif side == "synthetic":
        play_pfels(synthetic(int(what)), timer.next_round)
    else:
        scheme, engine, precision = (*what.split(":"), "", "")[:3]
        play_pfels(settings_of(work, scheme, engine, precision, Path(data)), timer.next_round)


if __name__ == "__main__":
    main()
