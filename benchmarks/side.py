"""One side of a comparison, in a process of its own: plays a round for every line it reads, and says how long it took.

python side.py pfels:SCHEME | plain | synthetic:DEVICES WORK DATA [COHORT]
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from work import LEARNING_RATE, MOMENTUM, STEPS, WORKS, Work


def pfels_rounds(settings: dict[str, Any], turn: Callable[[], None]) -> None:
    """Rounds of `pfels.run`, each when it is its turn."""
    import pfels

    config = pfels.load_config("demo", {"rounds": 10**6, "run.eval_every": 10**6, **settings})
    pfels.run(config, progress=lambda record: turn())


def settings_of(work: Work, scheme: str, data: Path) -> dict[str, Any]:
    """The work as settings of pfels; what the demo leaves at its default is the paper's."""
    return {
        "scheme": scheme,
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
    """Play rounds until there are no more lines."""
    kind, name, data, *cohort = sys.argv[1:]
    work, began = WORKS[name], [time.perf_counter()]

    def turn() -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"seconds": time.perf_counter() - began[0], "peak_bytes": peak}), flush=True)
        if not sys.stdin.readline():
            raise SystemExit
        began[0] = time.perf_counter()

    side, _, what = kind.partition(":")
    if side == "plain":
        from plain_loop import rounds

        played: Iterator[None] = rounds(work, Path(data), int(cohort[0]) if cohort else work.cohort)
        for _ in played:
            turn()
    else:
        pfels_rounds(synthetic(int(what)) if side == "synthetic" else settings_of(work, what, Path(data)), turn)


if __name__ == "__main__":
    main()
