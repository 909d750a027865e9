"""A reader beside a command that is killed and started again: it must never call a run damaged."""

import os
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from pfels.experiment import reader


@contextmanager
def read_beside(folder: Path, log: Path) -> Iterator[None]:
    """Read every run in a folder again and again, in a process of its own: an AssertionError if it refuses one."""
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _read_runs(folder, log)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGTERM)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == -signal.SIGTERM, f"a healthy run was refused: {log.read_text()}"


def _read_runs(folder: Path, log: Path) -> NoReturn:
    try:
        while True:
            for path in [Path(path) for path, _, files in os.walk(folder) if "config.toml" in files]:
                reader.read(path)
    except BaseException:
        log.write_text(traceback.format_exc())
    finally:
        os._exit(1)
