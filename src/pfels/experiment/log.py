"""`rounds.jsonl`: one line per round, read and written line by line."""

import errno
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pfels.documents.run import RoundRecord

BLOCK = 2**20


@dataclass(frozen=True)
class LogMark:
    """How much of a log belongs to a state: its first `size` bytes, with their running hash."""

    size: int = 0
    sha256: "hashlib._Hash" = field(default_factory=hashlib.sha256)


def append(path: Path, record: RoundRecord, mark: LogMark) -> LogMark:
    """Add one round's record behind `mark`, cutting off whatever an interrupted process left there."""
    line = json.dumps(record, allow_nan=False).encode() + b"\n"
    with open(path, "r+b") as log:
        log.seek(mark.size)
        log.write(line)
        log.truncate()
    sha256 = mark.sha256.copy()
    sha256.update(line)
    return LogMark(mark.size + len(line), sha256)


def marked(path: Path, size: int) -> LogMark:
    """The mark after the first `size` bytes of the log, or after all of it where it has fewer."""
    sha256, left = hashlib.sha256(), size
    with _opened(path) as log:
        while left > 0 and (block := log.read(min(left, BLOCK))):
            sha256.update(block)
            left -= len(block)
    return LogMark(size - left, sha256)


def lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a log; a last one without an end is what a kill left of a round, and does not count."""
    with _opened(path) as log:
        for line in log:
            if line.endswith(b"\n"):
                yield line


def _opened(path: Path) -> BinaryIO:
    """The log, open for reading; an OSError if it is no file: a pipe would never end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a file", str(path))
    return open(path, "rb")


def records(path: Path, mark: LogMark) -> list[RoundRecord]:
    """The records up to the mark."""
    found: list[RoundRecord] = []
    size = 0
    for line in lines(path):
        if size >= mark.size:
            break
        size += len(line)
        found.append(json.loads(line))
    return found
