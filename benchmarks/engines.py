"""The measurements behind `run.engine = auto`: both engines on the same FedAvg work, in turns.

python benchmarks/engines.py [demo mlp cnn vgg11]
"""

import sys
import tempfile
from pathlib import Path

from contest import HERE, contest
from work import WORKS, cores, write_data

ROUNDS = {"demo": 40, "mlp": 40, "cnn": 3, "vgg11": 1}


def main() -> None:
    """Median seconds a round of both engines."""
    print(f"{cores()} cores; seconds a round")
    print("work      batched   threaded")
    with tempfile.TemporaryDirectory() as directory:
        for name in sys.argv[1:] or ["demo", "mlp", "cnn"]:
            data = Path(directory) / f"{name}.npz"
            write_data(WORKS[name], data)
            side = [sys.executable, str(HERE / "side.py")]
            engines = ("batched", "threaded")
            times = contest({e: [*side, f"pfels:fedavg:{e}", name, str(data)] for e in engines}, rounds=ROUNDS[name])
            data.unlink()
            print(f"{name:6} {times['batched'].median:10.4f} {times['threaded'].median:10.4f}")


if __name__ == "__main__":
    main()
