"""Too little memory is one line, whichever library runs into it."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from pfels.runtime.short_memory import LEAST, LINE, short_of_memory


def limited(limit: int, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command under `ulimit -v`."""
    return subprocess.run(
        [sys.executable, "-m", "pfels", *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )  # fmt: skip


@pytest.mark.parametrize("megabytes", [60, 200, 400, 620, 900])
def test_a_limit_that_is_too_low_is_one_line_that_says_how_much_it_takes(megabytes: int, tmp_path: Path):
    done = limited(megabytes * 10**6, "run", "demo", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: ulimit -v = {megabytes * 10**6 // 1024}: too little memory; give at least ")
    assert done.stderr.count("\n") == 1
    assert f"at least {LEAST // 1024} kB" in done.stderr
    assert not os.listdir(tmp_path)


def test_the_least_limit_is_enough_and_the_version_needs_less(tmp_path: Path):
    done = limited(LEAST, "run", "demo", "-s", "rounds=2", "-s", "run.workers=1", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert limited(10**8, "--version", cwd=tmp_path).returncode == 0


def test_errors_of_every_library_that_has_no_memory_are_known_and_others_are_not():
    nested = ImportError("numpy")
    nested.__cause__ = MemoryError()
    for error in (
        MemoryError(), OSError(12, "Cannot allocate memory"), ImportError("libx.so: failed to map segment from shared"),
        RuntimeError("can't start new thread"), RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        SystemError("error return without exception set"), nested,
    ):  # fmt: skip
        assert short_of_memory(error)
    for error in (
        ImportError("No module named 'x'"),
        RuntimeError("x"),
        OSError(2, "No such file"),
        ValueError(),
        None,
    ):
        assert not short_of_memory(error)


@pytest.mark.parametrize("error", ["ImportError('a.so: failed to map segment from shared object')", "MemoryError()"])
@pytest.mark.parametrize("place", ["pfels.cli", "pfels.experiment.loop"])
def test_a_module_that_cannot_be_loaded_for_that_is_one_line(tmp_path: Path, error: str, place: str):
    """Before the commands are there, and after."""
    program = (
        "import sys\n"
        "class Full:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {place!r}:\n"
        f"            raise {error}\n"
        "sys.meta_path.insert(0, Full())\n"
        "sys.argv = ['pfels', 'run', 'demo']\n"
        "from pfels.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"error: {LINE}\n")
