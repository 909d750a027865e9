"""Small stored runs for the tests of the report: finished, interrupted and damaged ones."""

import shutil
from pathlib import Path
from typing import Any

import pytest

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


def folder_of_runs(folder: Path) -> Path:
    """Three schemes over two seeds, one of them in a directory whose name is markup; one run cut short, one damaged."""
    for scheme in ("pfels", "wfl-pdp", "fedavg"):
        for seed in (0, 1):
            name = MARKUP if (scheme, seed) == ("pfels", 1) else f"scheme={scheme},seed={seed}"
            finish(folder / name, scheme=scheme, seed=seed)
    interrupt(folder / "cut-short", after=4, scheme="pfels", seed=2)
    damage(folder / "scheme=fedavg,seed=0", folder / "damaged", "summary.json", b'{"scheme": "fed')
    return folder
