"""What exact noise costs: CPU time of Flower rounds of the demo in this process, with it and with the seed's noise.

.venv-flower/bin/python benchmarks/exact_noise.py [SCHEME …]

Both sides take turns, run by run, and play the same rounds with the same cohorts. Messages pass through memory, so
the share of the noise is as large as it can be: real nodes spend far more time on starting Python and on the network.
"""

import itertools
import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path

from flwr.supercore.task_identity import TaskIdentity

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.flower.in_process import InProcessGrid

from pfels.flower import nodes, settings
from pfels.flower.strategy import OverTheAir

ROUNDS, REPETITIONS = 30, 12
SIDES = ("seed", "secret")


def round_times(scheme: str, noise: str) -> list[float]:
    """CPU seconds of each round of a run, without the first, which includes the set-up."""
    times = [time.process_time()]
    with tempfile.TemporaryDirectory() as out:
        run = {
            "preset": "demo",
            "scheme": scheme,
            "noise": noise,
            "rounds": ROUNDS,
            "out": out,
            "run.eval_every": ROUNDS,
        }
        strategy = OverTheAir(settings.read(run), progress=lambda record: times.append(time.process_time()))
        strategy.start(InProcessGrid(run, 4))
    return [after - before for before, after in itertools.pairwise(times[1:])]


def ratio_of(scheme: str) -> tuple[float, float, float]:
    """Milliseconds of a round on both sides, and their ratio: of the fastest of all repetitions of each round."""
    runs: dict[str, list[list[float]]] = {noise: [] for noise in SIDES}
    for _ in range(REPETITIONS):
        for noise in SIDES:
            runs[noise].append(round_times(scheme, noise))
    known, exact = (1000 * statistics.fmean(map(min, zip(*runs[noise], strict=True))) for noise in SIDES)
    return known, exact, exact / known


def main() -> None:
    """Print a line per scheme."""
    logging.disable(logging.WARNING)
    nodes.POLL_S = 0.0
    for name in ("_run_id", "_task_id", "_node_id"):  # what Flower's processes know of themselves
        setattr(TaskIdentity, name, 1)
    print("CPU milliseconds per round: noise of the seed, exact noise, ratio")
    for scheme in sys.argv[1:] or ["pfels-plus", "dp-fedavg"]:
        known, exact, ratio = ratio_of(scheme)
        print(f"{scheme:12} {known:8.1f} {exact:8.1f} {ratio:8.3f}")


if __name__ == "__main__":
    main()
