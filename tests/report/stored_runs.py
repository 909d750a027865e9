"""Small stored runs for the tests of the report: finished, interrupted and damaged ones."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pfels.config.load import load_config
from pfels.documents.run import RoundRecord
from pfels.experiment.loop import run
from tests.conftest import small

MARKUP = "<script>document.title='broken'<!--&amp;"


def finish(path: Path, **changes: Any) -> Path:
    """A finished run."""
    run(small(**changes), path)
    return path


def interrupt(path: Path, *, after: int, **changes: Any) -> Path:
    """A run stopped by Ctrl-C after so many rounds."""

    def stop(record: RoundRecord) -> None:
        if record["round"] + 1 == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(small(**changes), path, progress=stop)
    return path


def damage(source: Path, path: Path, file: str, content: bytes) -> Path:
    """A copy of a run with one file replaced."""
    shutil.copytree(source, path)
    (path / file).write_bytes(content)
    return path


def generate(source: Path, path: Path, settings: Mapping[str, Any], **figures: Any) -> Path:
    """A run made up from a finished one: other settings, figures of the summary, and its rounds over and over.

    Nothing is trained, so that hundreds of runs, or thousands of rounds, take a second.
    """
    config = load_config(source / "config.toml", settings)
    records = [json.loads(line) for line in (source / "rounds.jsonl").read_text().splitlines()]
    log = [records[t % len(records)] | {"round": t} for t in range(config.rounds)]
    summary = json.loads((source / "summary.json").read_text())
    summary |= {"scheme": config.scheme, "seed": config.seed, "rounds": config.rounds, **figures}
    path.mkdir(parents=True)
    shutil.copy(source / "environment.json", path)
    (path / "config.toml").write_text(config.to_toml())
    (path / "rounds.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in log))
    (path / "summary.json").write_text(json.dumps(summary))
    return path


def folder_of_runs(folder: Path) -> Path:
    """Three schemes over two seeds, one of them in a directory whose name is markup; one run cut short, one damaged."""
    for scheme in ("pfels", "wfl-pdp", "fedavg"):
        for seed in (0, 1):
            name = MARKUP if (scheme, seed) == ("pfels", 1) else f"scheme={scheme},seed={seed}"
            finish(folder / name, scheme=scheme, seed=seed)
    interrupt(folder / "cut-short", after=4, scheme="pfels", seed=2)
    damage(folder / "scheme=fedavg,seed=0", folder / "damaged", "summary.json", b'{"scheme": "fed')
    return folder


def many_runs(folder: Path, *, count: int, rounds: int) -> Path:
    """Runs that differ in one setting, made up from one; the later ones are the more accurate."""
    source = finish(folder / "source")
    for i in range(count):
        settings = {"training.clip": 1 + i / 100, "rounds": rounds}
        generate(source, folder / "runs" / f"{i:03}", settings, accuracy=0.5 + i / (2 * count))
    return folder / "runs"
