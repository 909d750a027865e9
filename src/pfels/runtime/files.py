"""Atomic writes, JSON in and out, printable paths, writable folders."""

import fcntl
import glob
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pfels.errors import InputError, one_line, shown
from pfels.runtime.regular import open_regular, read_bytes, reading


def writable_folder(path: Path) -> Path:
    """The folder, created if missing; an InputError, before any work is done, if that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); choose a writable --out") from None
    return path


PARTIAL = ".*.partial"  # left behind when a process is killed during a write


@dataclass(frozen=True)
class JsonLimits:
    """What a JSON text may have at most: bytes, lists and objects, and values.

    It is counted before the text is parsed: two bytes of text can take a kilobyte of memory.
    """

    size: int
    groups: int
    values: int

    def require(self, text: bytes) -> None:
        """A ValueError for a text that has more. What is within quotes counts as well."""
        if len(text) > self.size:
            raise ValueError(f"more than {self.size} bytes")
        if text.count(b"{") + text.count(b"[") > self.groups:
            raise ValueError(f"more than {self.groups} lists and objects")
        if text.count(b",") > self.values:
            raise ValueError(f"more than {self.values} values")


# A summary has 10 kB. An environment has 100 bytes for each file of the user's own data.
DOCUMENT = JsonLimits(size=2**22, groups=2**16, values=2**18)


def read_json(path: Path, limits: JsonLimits = DOCUMENT) -> dict[str, Any] | None:
    """A JSON object from disk, or None if there is no such file. Links are not followed."""
    try:
        text = read_bytes(path, maximum=limits.size)
        limits.require(text)
        from pydantic_core import from_json  # the help would have to wait for it

        content = from_json(text)  # it refuses deep nesting, long numbers and text that is no Unicode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: not readable as JSON ({shown(error.strerror or error)})") from None
    except ValueError as error:
        raise InputError(f"{path}: not readable as JSON ({shown(error)})") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: must hold a JSON object")
    return content


def write_atomically(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Replace a file by `content` atomically: readers see the old or the new content, even after a crash.

    `mode` limits its permissions, as the process's umask does.
    """
    with written_atomically(path, mode=mode) as file:
        file.write(content)


@contextmanager
def written_atomically(path: Path, *, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` when the block ends without an error.

    What processes left that were killed here is deleted. An error of the disk names the file.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        _delete_left_behind(path)
        with _locked(partial, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(partial, path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise


def _locked(partial: Path, mode: int) -> IO[bytes]:
    """The file, new and locked for as long as it is open: another process takes an unlocked one for left behind."""
    while True:
        try:
            descriptor = open_regular(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=mode)
        except FileExistsError:  # left by an earlier process of this number, or a link in its place
            partial.unlink(missing_ok=True)
            continue
        file = open(descriptor, "wb")  # noqa: SIM115
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # another process deleted it just before it was locked


def _delete_left_behind(path: Path) -> None:
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with suppress(OSError), reading(left) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its process writes it
            left.unlink()


def write_durably(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Replace a file by `content` atomically, and return once that survives a power failure."""
    write_atomically(path, content, mode=mode)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def to_json(content: Mapping[str, Any]) -> bytes:
    """Indented standard JSON: no NaN, no infinity."""
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False).encode() + b"\n"


def number_beside(folder: Path, stems: Sequence[str], asked: Mapping[str, Any]) -> str:
    """What to add to the names of new files so that they replace nothing else: nothing, or `-2` and so on. The first
    stem is that of a JSON document, whose `asked` says what it is; the same again replaces its own files.

    >>> number_beside(Path("/nowhere"), ["comparison"], {"seeds": (0, 1)})
    ''
    """
    same = json.loads(json.dumps(asked))
    for number in itertools.count(1):
        added = "" if number == 1 else f"-{number}"
        if not any(list(folder.glob(f"{glob.escape(stem + added)}.*")) for stem in stems):
            return added
        try:
            there = read_json(folder / f"{stems[0]}{added}.json")
        except InputError:
            continue
        if there is not None and there.get("asked") == same:
            return added
    raise AssertionError("numbers never end")


def printable(path: Path) -> str:
    """A path as one printable line of valid Unicode, for a page or a message."""
    return one_line(os.fsencode(path).decode("utf-8", "replace"))
