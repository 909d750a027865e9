"""Fuzz every reader: python -m tests.fuzz [SECONDS] [--seed N] [--only NAME ...]

Works in a process of its own, which is started again if an input kills it. A finding is any exception but an error for
users, more than 2 GB, more than 30 s, something written in part, or nonsense accepted. Its input is saved in
tests/fuzz/findings, where tests/fuzz/test_findings.py reads it from then on.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import mutated
from tests.fuzz.target import NotAnInputError, Target

FINDINGS = Path(__file__).with_name("findings")
LIMIT_S, LIMIT_BYTES = 30, 2 * 10**9  # of processor time: on a busy machine everything takes long
STUCK_S = 600  # of time


class TooSlowError(BaseException):
    """An input took longer than the limit."""


def targets() -> dict[str, Target]:
    """Every target of this environment: with Flower, its messages alone, since the others run without it."""
    from importlib.util import find_spec

    if find_spec("flwr") is not None:
        from tests.fuzz import node_messages

        return {each.name: each for each in node_messages.TARGETS}
    from tests.fuzz import data_files, runs, settings

    return {each.name: each for each in (*settings.TARGETS, *data_files.TARGETS, *runs.TARGETS)}


def outcome(target: Target, data: bytes, scratch: Path) -> str:
    """How an input ends: accepted, refused, or what is wrong."""
    from pfels.errors import InputError, RunError

    folder = scratch / "input"
    folder.mkdir()
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    signal.setitimer(signal.ITIMER_REAL, STUCK_S)
    try:
        target.run(data, folder)
    except (InputError, RunError) as error:
        if not str(error).isprintable() or len(str(error)) > 3000:
            return f"a message of many lines or characters: {str(error)[:200]!r}"
        return "refused"
    except NotAnInputError:
        return "none"
    except (Exception, TooSlowError):
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        shutil.rmtree(folder)
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > LIMIT_BYTES:
        return "more than 2 GB"
    return "accepted"


def _too_slow(*_: Any) -> None:
    raise TooSlowError


def work(seconds: float, seed: int, only: list[str], scratch: Path) -> None:
    """Try inputs until the time is over; each is on disk before it is tried."""
    chosen = [each for name, each in targets().items() if not only or name in only]
    warnings.simplefilter("ignore")
    draw, counts = random.Random(seed), Counter[str]()
    corpora = {}
    for each in chosen:
        (scratch / each.name).mkdir(exist_ok=True)
        corpora[each.name] = each.corpus(scratch / each.name)
        for data in corpora[each.name]:
            found = outcome(each, data, scratch)
            assert found in ("accepted", "refused"), f"{each.name}: a valid input fails: {found}"
    until, turn = time.monotonic() + seconds, -1
    while time.monotonic() < until:
        turn += 1
        for each in chosen:
            if turn % each.every:
                continue
            corpus = corpora[each.name]
            seedling = draw.choice(corpus)
            data = seedling[:1] + mutated(seedling[1:], corpus, draw)
            (scratch / "current").write_bytes(each.name.encode() + b"\0" + data)
            found = outcome(each, data, scratch)
            if found == "none":
                continue
            counts[f"{each.name} {found if found in ('accepted', 'refused') else 'finding'}"] += 1
            if found not in ("accepted", "refused"):
                save(each.name, data, found)
            if found == "more than 2 GB":
                break
    (scratch / "counts.json").write_text(json.dumps(counts))


def save(name: str, data: bytes, why: str) -> None:
    """Keep an input that must not happen again."""
    FINDINGS.mkdir(exist_ok=True)
    path = FINDINGS / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    print(f"FINDING {path}\n{why}", flush=True)


def main() -> int:
    """Fuzz for a while; 1 if there is a finding."""
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", nargs="?", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--child", type=Path)
    options = parser.parse_args()
    if options.child is not None:
        work(options.seconds, options.seed, options.only, options.child)
        return 0
    total, until, seed = Counter[str](), time.monotonic() + options.seconds, options.seed
    while (left := until - time.monotonic()) > 0:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
            scratch = Path(name)
            command = [sys.executable, "-m", "tests.fuzz", f"{left}", "--seed", str(seed), "--child", str(scratch)]
            alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # inputs are small: more threads only wait for each other
            ended = subprocess.run([*command, "--only", *options.only], check=False, env=alone).returncode
            if ended == 0:
                total.update(json.loads((scratch / "counts.json").read_text()))
            elif (scratch / "current").exists():
                target, _, data = (scratch / "current").read_bytes().partition(b"\0")
                save(target.decode(), data, f"the process ended with {ended}")
                total[f"{target.decode()} finding"] += 1
            else:
                return 1
        seed += 1
    for name in dict.fromkeys(key.partition(" ")[0] for key in total):
        parts = {kind: total[f"{name} {kind}"] for kind in ("accepted", "refused", "finding")}
        print(f"{name:8} {sum(parts.values()):8,} inputs: " + ", ".join(f"{n:,} {kind}" for kind, n in parts.items()))
    findings = sum(count for key, count in total.items() if key.endswith(" finding"))
    print(f"{sum(total.values()):,} inputs, {findings} findings, seed {options.seed}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
