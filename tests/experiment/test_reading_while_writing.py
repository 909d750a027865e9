"""A run that goes on is read as it is at some moment, whatever the moment."""

import subprocess
import sys
from pathlib import Path

import pytest

from pfels.config.load import load_config
from pfels.errors import InputError
from pfels.experiment import reader
from pfels.experiment.directory import RunDirectory
from tests.conftest import SMALL

READS = 150
WRITER = (
    "import sys\n"
    "from pathlib import Path\n"
    "from pfels.config.load import load_config\n"
    "from pfels.experiment import loop\n"
    "path = Path(sys.argv[1])\n"
    "config = load_config(sys.argv[2])\n"
    "def stop(record):\n"
    "    if record['round'] % 37 == 36:\n"
    "        raise KeyboardInterrupt\n"
    "for _ in range(10**6):\n"
    "    try:\n"
    "        loop.run(config, path, resume=(path / 'config.toml').exists(), progress=stop)\n"
    "        break\n"
    "    except KeyboardInterrupt:\n"
    "        pass\n"
)


def test_a_healthy_run_is_never_called_damaged_while_it_is_written(tmp_path: Path):
    """A checkpoint in every round, and a run that stops and continues again and again, beside 300 reads."""
    config = load_config("demo", {**SMALL, "rounds": 10**6, "run.checkpoint_every": 1}, tuned=False)
    (tmp_path / "a.toml").write_text(config.to_toml())
    path = tmp_path / "run"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(tmp_path / "a.toml")])
    try:
        while not (path / "checkpoint.safetensors").exists():
            assert writer.poll() is None
        rounds = [reader.read(path).rounds for _ in range(READS)]
        states = [RunDirectory(path, config).checkpoint() for _ in range(READS)]
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.wait()
    assert rounds == sorted(rounds)
    assert rounds[-1] > rounds[0]
    assert all(each is not None for each in states)


def test_a_run_that_is_damaged_is_called_so_although_it_changes(tmp_path: Path):
    """Reading once more has an end."""
    (tmp_path / "config.toml").write_text("rounds = 3\n")
    (tmp_path / "rounds.jsonl").write_text("nonsense\n")
    reads = []

    def changing(path: Path) -> list[tuple[int, int, int]]:
        reads.append(path)
        return [(len(reads), 0, 0)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_versions", changing)
        with pytest.raises(InputError, match=r"rounds\.jsonl, line 1"):
            reader.read(tmp_path)
    assert len(reads) == 2 * reader.ATTEMPTS
