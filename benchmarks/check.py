"""Whether pfels has become slower: its ratios to a plain PyTorch loop against those of the last figures.

python benchmarks/check.py [docs/results/bench.json docs/results/bench-zen4.json]

Ratios of CPU seconds are compared, measured anew, with those of the file that is of the same kind of processor. One
that has fallen by more than a fifth is printed, and the exit code is 1.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import ModelFigures, bench_models
from machine import cpu_model
from work import WORKS

FILES = ("docs/results/bench.json", "docs/results/bench-zen4.json")
ALLOWED = 0.8  # of the last ratio: between two quiet runs they differ by less than a tenth


def slower(last: dict[str, Any], now: dict[str, ModelFigures]) -> Iterator[str]:
    """One line per side whose ratio has fallen too far, or that is no longer measured."""
    for name, found in now.items():
        for side, before in last[name]["sides"].items():
            if side.startswith("plain"):
                continue
            if side not in found["sides"]:
                yield f"{name} {side}: not measured any more"
                continue
            was, is_now = before["plain_takes"], found["sides"][side]["plain_takes"]
            if is_now < ALLOWED * was:
                yield f"{name} {side}: the plain loop took {was:.2f} × as long, and takes {is_now:.2f} × now"


def main() -> None:
    """Measure every work of the last figures, and compare."""
    files = {path: json.loads(Path(path).read_text()) for path in sys.argv[1:] or FILES}
    path, last = next(((path, last) for path, last in files.items() if last["cpu"] == cpu_model()), (None, {}))
    if path is None:
        print(f"{', '.join(files)}: of other processors; make figures here first: make bench", file=sys.stderr)
        raise SystemExit(2)
    found = list(slower(last, dict(bench_models([name for name in WORKS if name in last]))))
    print("\n".join(found) or f"no ratio has fallen below {ALLOWED} of that in {path}")
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
