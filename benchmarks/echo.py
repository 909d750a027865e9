"""A round of PFELS-echo against one of PFELS+: median seconds, sides taking turns, once all bands are in use.

python benchmarks/echo.py [fashion] [--bands 31] [--rounds 80]

Both send every coordinate (p = 1), with the same floor on gains. Needs the preset's data: `pfels data get fashion`.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from pfels.config.load import load_config
from pfels.experiment import loop
from pfels.experiment.directory import RunDirectory
from pfels.experiment.setup import build
from pfels.experiment.state import RunState
from pfels.runtime.threads import one_thread_each


def main() -> None:
    """Time both, round by round, and a checkpoint of echo at its largest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", nargs="?", default="fashion")
    parser.add_argument("--bands", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=80)
    asked = parser.parse_args()
    common = {"compression.ratio": 1.0, "channel.silent_below": 0.002, "run.eval_every": 10**6}
    configs = [
        load_config(asked.preset, {**common, "scheme": "pfels-plus"}),
        load_config(asked.preset, {**common, "scheme": "pfels-echo", "pfels-echo.bands": asked.bands}),
    ]
    with one_thread_each():
        experiments = [build(config) for config in configs]
        states = [RunState.fresh(experiment) for experiment in experiments]
        bands = experiments[1].scheme.level.bands
        times: tuple[list[float], list[float]] = ([], [])
        for t in range(bands + asked.rounds):
            for side in (0, 1):
                began = time.perf_counter()
                states[side], _ = loop.advance(experiments[side], states[side], loop.simulate)
                if t >= bands:
                    times[side].append(time.perf_counter() - began)
        plus, echo = (statistics.median(each) for each in times)
        with tempfile.TemporaryDirectory() as folder:
            directory = RunDirectory(Path(folder), configs[1])
            directory.log.touch()
            checkpoint = states[1].checkpoint()
            began = time.perf_counter()
            directory.save(checkpoint, seconds=0.0)
            saved = time.perf_counter() - began
            size = (Path(folder) / "checkpoint.safetensors").stat().st_size
    print(f"{asked.preset}, {bands} bands: pfels-plus {1000 * plus:.1f} ms, pfels-echo {1000 * echo:.1f} ms per round")
    print(f"ratio {echo / plus:.2f}; a checkpoint of echo takes {saved:.2f} s and {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
