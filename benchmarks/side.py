"""One side of a comparison, in a process of its own: plays a round for every line it reads, and says how long it took.

python side.py pfels:SCHEME[:ENGINE] | plain | synthetic:DEVICES WORK DATA [COHORT]
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turns import Turns
from work import LEARNING_RATE, MOMENTUM, STEPS, WORKS, Work


def pfels_rounds(settings: dict[str, Any], turn: Callable[[], None]) -> None:
    """Rounds of `pfels.run`, each when it is its turn."""
    import pfels

    config = pfels.load_config("demo", {"rounds": 10**6, "run.eval_every": 10**6, **settings})
    pfels.run(config, progress=lambda record: turn())


def settings_of(work: Work, how: str, data: Path) -> dict[str, Any]:
    """The work as settings of pfels, by scheme and engine; what the demo leaves at its default is the paper's."""
    scheme, _, engine = how.partition(":")
    return {
        "scheme": scheme,
        "run.engine": engine or "auto",
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


def synthetic(devices: int) -> dict[str, Any]:
    """PFELS on devices that are made when they are drawn."""
    return {"data.name": "synthetic", "data.devices": devices, "data.per_device": 50, "cohort.size": 32}


def main() -> None:
    """Play rounds until there are no more turns."""
    kind, name, data, *cohort = sys.argv[1:]
    work, turns = WORKS[name], Turns()
    side, _, what = kind.partition(":")
    if side == "plain":
        from plain_loop import rounds

        for _ in rounds(work, Path(data), int(cohort[0]) if cohort else work.cohort):
            turns.next()
    else:
        pfels_rounds(synthetic(int(what)) if side == "synthetic" else settings_of(work, what, Path(data)), turns.next)


if __name__ == "__main__":
    main()
