"""The measurements behind `run.engine = auto`: both engines on the same FedAvg work, interleaved.

python benchmarks/engines.py [demo mlp cnn vgg11]
"""

import sys
import tempfile
from pathlib import Path

from interleaved import HERE, time_interleaved
from machine import cores
from work import WORKS, write_data

ROUNDS = {"demo": 40, "mlp": 40, "cnn": 3, "vgg11": 1}
ENGINES = ("batched", "threaded")


def main() -> None:
    """Print the CPU seconds per round of both engines."""
    print(f"{cores()} cores; CPU seconds per round")
    print("work      batched   threaded")
    side = [sys.executable, str(HERE / "side.py")]
    with tempfile.TemporaryDirectory() as directory:
        for name in sys.argv[1:] or ["demo", "mlp", "cnn"]:
            data = Path(directory) / f"{name}.npz"
            write_data(WORKS[name], data)
            commands = {engine: [*side, f"pfels:fedavg:{engine}", name, str(data)] for engine in ENGINES}
            times = time_interleaved(commands, rounds=ROUNDS[name])
            data.unlink()
            found = {engine: times[engine].row()["cpu_seconds"] for engine in ENGINES}
            print(f"{name:6} {found['batched']:10.4f} {found['threaded']:10.4f}", flush=True)


if __name__ == "__main__":
    main()
