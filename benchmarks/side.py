"""One side of a comparison, as a process that plays rounds for the RoundTimer's listener.

python side.py pfels:SCHEME[:ENGINE[:PRECISION]] | plain[:THREADS] WORK DATA [COHORT]
python side.py preset[:ROUNDS] PRESET KEY=VALUE ...

With a number of ROUNDS, so many are timed as one, as they follow each other in a run.
"""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

from round_timer import RoundTimer
from work import LEARNING_RATE, MOMENTUM, STEPS, WORKS, Work

Settings = dict[str, str | int | float]


def play_pfels(preset: str, settings: Settings, end_of_round: Callable[[], object]) -> None:
    """Rounds of `pfels.run`, with a call after each."""
    import pfels

    config = pfels.load_config(preset, {"rounds": 10**6, "run.eval_every": 10**6, **settings})
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


def _setting(text: str) -> tuple[str, str | int | float]:
    key, _, value = text.partition("=")
    try:
        return key, float(value) if "." in value else int(value)
    except ValueError:
        return key, value


def main() -> None:
    """Play rounds until nobody asks for more."""
    kind, name, *rest = sys.argv[1:]
    timer = RoundTimer()
    side, _, what = kind.partition(":")
    if side == "preset":
        count = itertools.count(1)
        play_pfels(name, dict(map(_setting, rest)), lambda: next(count) % int(what or 1) or timer.next_round())
        return
    work, data, cohort = WORKS[name], Path(rest[0]), [int(number) for number in rest[1:]]
    if side == "plain":
        import torch

        from plain_loop import rounds

        if what:
            torch.set_num_threads(int(what))
        for _ in rounds(work, data, cohort[0] if cohort else work.cohort):
            timer.next_round()
    else:
        scheme, engine, precision = (*what.split(":"), "", "")[:3]
        play_pfels("demo", settings_of(work, scheme, engine, precision, data), timer.next_round)


if __name__ == "__main__":
    main()
