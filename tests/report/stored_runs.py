"""Small stored runs for the tests of the report: finished, interrupted and damaged ones."""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from pfels.config.load import load_config, stored_config
from pfels.documents.run import RoundRecord
from pfels.experiment import checkpoint_file
from pfels.experiment.checkpoint import Checkpoint, write
from pfels.experiment.directory import RunDirectory
from pfels.experiment.ledger import Ledger
from pfels.experiment.link import frame_of, setting_of
from pfels.experiment.log import LogMark
from pfels.experiment.loop import run
from pfels.experiment.replay import LogTotals
from pfels.experiment.units import joules_per_energy
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
    """A run made up from a finished one: other settings, figures of the summary, and its rounds over and over, with a
    log, a checkpoint and a summary that agree.

    Nothing is trained, so that hundreds of runs, or thousands of rounds, take a second.
    """
    config = load_config(source / "config.toml", settings)
    last = RunDirectory(source, load_config(source / "config.toml")).checkpoint()
    assert last is not None
    summary = json.loads((source / "summary.json").read_text())
    if "accuracy" in figures:
        figures = {"accuracy_last": figures["accuracy"], "test_examples": 10**6, "chance": 0.1} | figures
    summary |= {"scheme": config.scheme, "seed": config.seed, "rounds": config.rounds, **figures}
    records = _records(source, config.rounds, summary, figures)
    found = LogTotals()
    for record in records:
        found.add(record, config)
    totals = {name: getattr(found, name, value) for name, value in last.totals.items()}
    levels = Counter(z for record in records if (z := record["noise_multiplier"]) is not None)
    tensors = {
        **last.tensors,
        "noise_multipliers": torch.tensor(sorted(levels), dtype=torch.float64),
        "noise_multiplier_rounds": torch.tensor([levels[z] for z in sorted(levels)]),
    }
    path.mkdir(parents=True)
    shutil.copy(source / "environment.json", path)
    (path / "config.toml").write_text(config.to_toml())
    log = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    (path / "rounds.jsonl").write_bytes(log)
    state = Checkpoint(config.rounds, tensors, totals, LogMark(len(log), hashlib.sha256(log)))
    write(path / "checkpoint.safetensors", state, config=config.digest())
    ledger = Ledger.restore(tensors, totals, devices=config.data.devices)
    summary |= ledger.summary(setting_of(config, dimension=last.dimension), slot_s=frame_of(config).slot_s)
    summary["radiated_j"] = None if found.energy is None else found.energy * joules_per_energy(config)
    (path / "summary.json").write_text(json.dumps(summary))
    return path


def _records(source: Path, rounds: int, summary: Mapping[str, Any], figures: Mapping[str, Any]) -> list[RoundRecord]:
    """The records of a finished run over and over, with the scores of this summary at the end, and with the energy and
    the channel uses of these figures in all."""
    few = [json.loads(line) for line in (source / "rounds.jsonl").read_text().splitlines()]
    found = [few[t % len(few)] | {"round": t} for t in range(rounds)]
    scores = {"test_accuracy": summary["accuracy"], "test_loss": summary["loss"]}
    found[-1] |= {**scores, "privacy": few[-1]["privacy"]}
    for name in ("energy", "subcarriers"):
        if name in figures:
            for record in found:
                record[name] = 0
            found[-1][name] = figures[name]
    return found


def adopt(path: Path) -> Path:
    """Make the checkpoint in a directory that of the config there, which was changed."""
    config, file = stored_config(path / "config.toml"), path / "checkpoint.safetensors"
    found = checkpoint_file.read(file, cure="", wanted=checkpoint_file.everything, largest=lambda name: 2**40)
    assert found is not None
    log = (path / "rounds.jsonl").read_bytes()
    state = Checkpoint(
        found.notes["round"], found.tensors, found.notes["totals"], LogMark(len(log), hashlib.sha256(log))
    )
    write(file, state, config=config.digest())
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
