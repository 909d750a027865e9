"""A round of PFELS-echo against one of PFELS+: median wall and CPU seconds, taking turns, once all bands are in use.

python benchmarks/echo.py [fashion] [--bands 31] [--rounds 80]

Both send every coordinate (p = 1), with the same floor on gains. Needs the preset's data: `pfels data get fashion`.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from machine import busy_seconds
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
        times: tuple[list[tuple[float, float]], ...] = ([], [])
        for t in range(bands + asked.rounds):
            if t == bands:
                started, own, all_of_them = time.perf_counter(), time.process_time(), busy_seconds()
            for side in (0, 1):
                began, used = time.perf_counter(), time.process_time()
                states[side], _ = loop.advance(experiments[side], states[side], loop.simulate)
                if t >= bands:
                    times[side].append((time.perf_counter() - began, time.process_time() - used))
        others = busy_seconds() - all_of_them - (time.process_time() - own)
        load = max(0.0, others / (time.perf_counter() - started))
        plus, echo = ([statistics.median(part) for part in zip(*each, strict=True)] for each in times)
        with tempfile.TemporaryDirectory() as folder:
            directory = RunDirectory(Path(folder), configs[1])
            directory.log.touch()
            checkpoint = states[1].checkpoint()
            began = time.perf_counter()
            directory.save(checkpoint, seconds=0.0)
            saved = time.perf_counter() - began
            size = (Path(folder) / "checkpoint.safetensors").stat().st_size
    for name, (wall, cpu) in {"pfels-plus": plus, "pfels-echo": echo}.items():
        print(f"{asked.preset}, {bands} bands, {name:10} {1000 * wall:6.1f} ms per round, {1000 * cpu:6.1f} ms of CPU")
    print(f"ratio {echo[0] / plus[0]:.2f}, of CPU {echo[1] / plus[1]:.2f}; others used {load:.2f} cores")
    print(f"a checkpoint of echo takes {saved:.2f} s and {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
