"""A round over a frequency-selective channel against one over a flat channel: CPU seconds, sides taking turns.

python benchmarks/fading.py [fashion] [--rounds 60]

Needs the preset's data: `pfels data get fashion`.
"""

import argparse
import statistics
import time

from pfels.config.load import load_config
from pfels.experiment.loop import advance, simulate
from pfels.experiment.setup import build
from pfels.experiment.state import RunState
from pfels.runtime.threads import one_thread_each

SCHEMES = ("pfels", "pfels-plus", "pfels-echo")


def main() -> None:
    """One line per scheme. The first half of the rounds is not counted: echo has all its bands only after a while."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", nargs="?", default="fashion")
    parser.add_argument("--rounds", type=int, default=60)
    asked = parser.parse_args()
    for scheme in SCHEMES:
        common = {"scheme": scheme, "run.eval_every": 10**6}
        configs = [load_config(asked.preset, {**common, "channel.model": model}) for model in ("flat", "tdl-c")]
        times: tuple[list[float], list[float]] = ([], [])
        with one_thread_each():
            experiments = [build(config) for config in configs]
            states = [RunState.fresh(experiment) for experiment in experiments]
            for _ in range(asked.rounds):
                for side, experiment in enumerate(experiments):
                    began = time.process_time()
                    states[side], _ = advance(experiment, states[side], simulate)
                    times[side].append(time.process_time() - began)
        flat, faded = (statistics.median(each[asked.rounds // 2 :]) for each in times)
        print(
            f"{scheme:11} flat {1000 * flat:6.1f} ms, tdl-c {1000 * faded:6.1f} ms of CPU per round: {faded / flat:.2f}"
        )


if __name__ == "__main__":
    main()
