"""The paper's CIFAR-10 experiment at its own size: VGG-11, 2,000 rounds, in slices that can be stopped at any time.

python docs/studies/full_scale.py --rounds 500             # train, and go on from wherever it was stopped
python docs/studies/full_scale.py --table                  # write the table, the CSV and the picture of what is there
python docs/studies/full_scale.py --check                  # slices give the bytes of one run (6 rounds, slices of 2)

Each scheme first runs RATE_ROUNDS rounds at every learning rate of RATES and goes on at the one with the smallest
training loss, averaged over the last ten of these rounds. Then the scheme with the fewest rounds plays the next slice,
so that all are always at about the same round. FIRST go ahead to FIRST_ROUNDS. The run directories are those of `pfels
reproduce table-cifar10 --scale paper`, which reads or continues them. They live in --dir, outside any work tree. While
a file named `pause` is in that directory, training waits.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pfels.config.load import load_config
from pfels.documents.run import RoundRecord
from pfels.errors import RunError
from pfels.experiment.directory import point_name
from pfels.experiment.loop import run
from pfels.paper.benchmarks import CIFAR10
from pfels.paper.stand_ins import choose_stand_in
from pfels.paper.trials import PointSettings, run_of
from pfels.privacy.calibration import Budget
from pfels.runtime.csv_files import to_csv
from pfels.runtime.files import write_atomically
from pfels.runtime.signals import interrupt_once
from pfels.studies.budget import with_budget
from pfels.studies.sweep import Point

SCHEMES = ("pfels", "wfl-pdp", "wfl-p", "fedavg", "pfels-echo")
FIRST, FIRST_ROUNDS = SCHEMES[:3], 500
RATES, RATE_ROUNDS = (0.01, 0.02, 0.05), 40
SLICE = 25
MACHINE = {"run.precision": "bfloat16", "run.eval_every": SLICE, "run.checkpoint_every": 5}
# `pfels plan cifar10 --schemes pfels-echo -s compression.ratio=0.1 --total-epsilon 100`: the sum of all updates just
# exceeds its noise (0.97), and what devices repeat takes 2.7 GB. At p = 0.2 that holds from ε = 64 on, with 6.8 GB.
ECHO = {"scheme": "pfels-echo", "compression.ratio": 0.1}
ECHO_BUDGET = Budget(100.0, "server")


class SliceDone(KeyboardInterrupt):
    """Ends a run after a slice: the run saves a checkpoint, as it does when it is interrupted."""


def point(scheme: str, rate: float, folder: Path, *, rounds: int | None = None) -> Point:
    """The run of a scheme at a learning rate, where `pfels reproduce` keeps it."""
    changed = MACHINE if rounds is None else {**MACHINE, "rounds": rounds}
    stand_in = choose_stand_in(CIFAR10, scale="paper", overrides=changed)
    if scheme != "pfels-echo":
        return run_of(stand_in, PointSettings(scheme, CIFAR10.ratio, CIFAR10.epsilon), rate, 0, folder / "runs")
    named = {**ECHO, "training.learning_rate": rate, **ECHO_BUDGET.settings(), "seed": 0}
    config = load_config("cifar10", {**changed, "radio.frame": "paper", **ECHO, "training.learning_rate": rate})
    return Point(named, with_budget(config, ECHO_BUDGET), folder / "runs" / "echo" / point_name(named))


def play(each: Point, until: int, pause: Path) -> list[RoundRecord]:
    """Continue a run up to a round; the records of all rounds so far. A training that diverges ends there."""

    def watch(record: RoundRecord) -> None:
        while pause.exists():
            time.sleep(5)
        if record["round"] + 1 >= until and until < each.config.rounds:
            raise SliceDone

    before = records(each)
    if len(before) >= until:
        return before
    try:
        run(each.config, each.path, resume=(each.path / "config.toml").exists(), progress=watch)
    except SliceDone:
        pass
    except RunError as error:
        print(f"{each.path.name}: {error}", flush=True)
    found = records(each)
    print(f"{time.strftime('%m-%d %H:%M')} round {len(found):4} of {each.path.name}", flush=True)
    return found


def records(each: Point) -> list[RoundRecord]:
    """What the log of a run holds, up to its last whole line."""
    log = each.path / "rounds.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def loss(some: list[RoundRecord]) -> float:
    """The mean training loss of the last ten of the first RATE_ROUNDS rounds; infinite where the training diverged."""
    if len(some) < RATE_ROUNDS:
        return float("inf")
    found = [record["train_loss"] for record in some[RATE_ROUNDS - 10 : RATE_ROUNDS]]
    return float("inf") if None in found else statistics.fmean(found)


def losses(scheme: str, folder: Path) -> dict[float, float]:
    """The losses by which a scheme's learning rate is chosen, so far."""
    return {rate: loss(records(point(scheme, rate, folder))) for rate in RATES}


def chosen(scheme: str, folder: Path, pause: Path) -> Point:
    """The run that a scheme goes on with."""
    for rate in RATES:
        play(point(scheme, rate, folder), RATE_ROUNDS, pause)
    found = losses(scheme, folder)
    best = min(RATES, key=found.__getitem__)
    print(f"{scheme}: η = {best:g}, training losses {found}", flush=True)
    return point(scheme, best, folder)


def train(folder: Path, rounds: int) -> None:
    """Train all schemes in slices, up to a number of rounds."""
    pause = folder / "pause"
    for schemes, goal in ((FIRST, min(rounds, FIRST_ROUNDS)), (SCHEMES, rounds)):
        runs = {name: chosen(name, folder, pause) for name in schemes}
        done = {name: len(records(each)) for name, each in runs.items()}
        while min(done.values()) < goal:
            name = min(schemes, key=done.__getitem__)
            reached = len(play(runs[name], min(goal, (done[name] // SLICE + 1) * SLICE), pause))
            done[name] = reached if reached > done[name] else goal  # a training that diverged stays where it is


def curve(scheme: str, some: list[RoundRecord]) -> Iterator[dict[str, Any]]:
    """The evaluated rounds of a run, with running totals and the mean loss since the evaluation before."""
    energy, symbols, since = 0.0, 0, list[float]()
    for record in some:
        energy += record["energy"] or 0.0
        symbols += record["subcarriers"]
        since += [record["train_loss"]] if record["train_loss"] is not None else []
        if record["test_accuracy"] is not None:
            yield {
                "scheme": scheme, "seed": 0, "round": record["round"] + 1, "energy": energy, "symbols": symbols,
                "loss": statistics.fmean(since) if since else None, "accuracy": record["test_accuracy"],
                "server_epsilon": record["privacy"]["server"]["epsilon"],
            }  # fmt: skip
            since = []


def write_table(folder: Path, target: Path, picture: Path) -> None:
    """Print what each scheme has reached, and write the curves as CSV and as a picture."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from pictures import draw

    curves: dict[str, list[dict[str, Any]]] = {}
    for scheme in SCHEMES:
        found = losses(scheme, folder)
        tried = {rate: value for rate, value in found.items() if value < float("inf")}
        if not tried:
            continue
        best = min(tried, key=tried.__getitem__)
        rows = curves[scheme] = list(curve(scheme, records(point(scheme, best, folder))))
        print(f"{scheme}: η = {best:g} of {_losses(found)}; {rows[-1] if rows else 'not evaluated yet'}")
    write_atomically(target, to_csv([row for rows in curves.values() for row in rows]))
    draw({name: [rows] for name, rows in curves.items() if rows}, picture, loss=True)


def _losses(found: Mapping[float, float]) -> str:
    return ", ".join(f"{rate:g} ({value:.3f})" for rate, value in found.items())


def check() -> None:
    """Six rounds in slices of two, byte by byte against six rounds at once."""
    with tempfile.TemporaryDirectory() as place:
        sliced, whole = (point("pfels", RATES[0], Path(place) / name, rounds=6) for name in ("sliced", "whole"))
        for until in (2, 4, 6):
            play(sliced, until, Path(place) / "pause")
        run(whole.config, whole.path)
        for name in ("config.toml", "rounds.jsonl", "checkpoint.safetensors"):
            same = (sliced.path / name).read_bytes() == (whole.path / name).read_bytes()
            print(f"{name}: {'same bytes' if same else 'DIFFERS'}")


def main() -> None:
    """Train, check, or write down what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path.home() / "full-scale")
    parser.add_argument("--rounds", type=int, default=FIRST_ROUNDS)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    interrupt_once()
    if asked.check:
        check()
    elif asked.table:
        write_table(asked.dir, Path("docs/results/full-scale.csv"), Path("docs/images/full-scale.png"))
    else:
        train(asked.dir, asked.rounds)


if __name__ == "__main__":
    main()
