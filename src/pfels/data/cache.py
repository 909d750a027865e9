"""The cache directory of the data sets, its lock, and atomic installation."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pfels.errors import RunError

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]  # (task, amount done, total amount)
BLOCK = 2**20


def home() -> Path:
    """The cache directory: $PFELS_DATA, or pfels in the user's cache directory."""
    chosen = os.environ.get("PFELS_DATA")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser().absolute() / "pfels"


@dataclass(frozen=True)
class Workspace:
    """Work folders of the one process that holds the lock of the cache.

    `download` survives a kill, so that complete downloads are reused; `build` is always cleared. Child processes
    must inherit the descriptor `lock`, so that the cache stays locked while one of them still writes.
    """

    download: Path
    build: Path
    lock: int

    def install(self, made: Path, target: Path) -> None:
        """Move a complete data set to its place in the cache, atomically."""
        if target.exists():
            target.rename(self.build / "replaced")
        target.parent.mkdir(parents=True, exist_ok=True)
        made.rename(target)


@contextmanager
def workspace(name: str, say: Say) -> Iterator[Workspace]:
    """Work folders for one data set, in the cache; those left behind for other data sets are deleted."""
    try:
        home().mkdir(parents=True, exist_ok=True)
        lock = os.open(home(), os.O_RDONLY)
    except OSError as error:
        raise RunError(
            f"{home()}: cannot be written ({error.strerror}); set PFELS_DATA to a writable directory"
        ) from None
    scratch = home() / ".work"
    try:
        _acquire(lock, say)
        for left in scratch.glob("*"):
            if left.name != name:
                shutil.rmtree(left)
        work = Workspace(scratch / name / "download", scratch / name / "build", lock)
        shutil.rmtree(work.build, ignore_errors=True)
        work.download.mkdir(parents=True, exist_ok=True)
        work.build.mkdir()
        try:
            yield work
        except KeyboardInterrupt:
            shutil.rmtree(work.build, ignore_errors=True)
            raise
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        shutil.rmtree(scratch)
    except OSError as error:
        raise RunError(f"{error.filename or home()}: {error.strerror or error}") from None
    finally:
        os.close(lock)


def digest(path: Path, algorithm: str, progress: Progress = lambda what, done, total: None) -> str:
    """The checksum of a file as `algorithm:hex`."""
    total, seen, sum_ = path.stat().st_size, 0, hashlib.new(algorithm, usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            sum_.update(block)
            seen += len(block)
            progress(f"checking {path.name}", seen, total)
    return f"{algorithm}:{sum_.hexdigest()}"


def _acquire(lock: int, say: Say) -> None:
    """Wait until no other process fills this cache. The lock of a killed process is released automatically."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"{home()}: another pfels is filling the cache; waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)
