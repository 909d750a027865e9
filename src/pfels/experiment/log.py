"""`rounds.jsonl`: one line per round, read and written line by line."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pfels.config.tree import Config
from pfels.documents.run import RoundRecord
from pfels.documents.validate import validated
from pfels.errors import InputError
from pfels.runtime.files import JsonLimits
from pfels.runtime.regular import reading, writing

MEMBERS = 2**20  # of a cohort whose round can be written down; the largest run has a million devices


@dataclass(frozen=True)
class LogMark:
    """How much of a log belongs to a state: its first `size` bytes, with their running hash."""

    size: int = 0
    sha256: "hashlib._Hash" = field(default_factory=hashlib.sha256)


def append(path: Path, record: RoundRecord, mark: LogMark) -> LogMark:
    """Add one round's record behind `mark`, cutting off whatever an interrupted process left there."""
    line = json.dumps(record, allow_nan=False).encode() + b"\n"
    with writing(path) as log:
        log.seek(mark.size)
        log.write(line)
        log.truncate()
    sha256 = mark.sha256.copy()
    sha256.update(line)
    return LogMark(mark.size + len(line), sha256)


def cut(path: Path, size: int) -> None:
    """Make the log that long, and create it where there is none yet."""
    with writing(path, create=True) as log:
        log.truncate(size)


def sync(path: Path) -> None:
    """Return once the log is on the disk."""
    with reading(path) as log:
        os.fsync(log.fileno())


def members(config: Config) -> int:
    """How many devices a round of this config can draw: in turns fewer than twice r, and a Poisson cohort of more than
    2r + 1000 is never seen."""
    return min(config.data.devices, 2 * config.cohort.size + 1000)


def limits(config: Config) -> JsonLimits:
    """What a line can have at most: two values of at most 40 bytes for each device of the cohort, and all else."""
    most = min(members(config), MEMBERS)
    return JsonLimits(size=2**16 + 40 * most, groups=2**10, values=2**12 + 2 * most)


class Log:
    """The log of a run, open for reading. Lines are read one at a time, and none is longer than `limits` say."""

    def __init__(self, file: BinaryIO, path: Path, config: Config) -> None:
        self._file, self._path, self._limits, self._devices = file, path, limits(config), config.data.devices

    def marked(self, size: int, *, rounds: int) -> LogMark:
        """The mark after the first `size` bytes; an InputError unless they are the lines of so many rounds."""
        sha256, found, count = hashlib.sha256(), 0, 0
        self._file.seek(0)
        lines = self._whole_lines()
        while found < size and count < rounds and (line := next(lines, None)):
            found, count = found + len(line), count + 1
            sha256.update(line)
        if (found, count) != (size, rounds):
            raise InputError(f"{self._path}: truncated or altered; it no longer fits the checkpoint")
        return LogMark(found, sha256)

    def records(self, *, size: int | None = None) -> Iterator[RoundRecord]:
        """The records, in order; those of the first `size` bytes. A last line without an end is what a kill left of a
        round, and does not count."""
        self._file.seek(0)
        read = 0
        for t, line in enumerate(self._whole_lines()):
            read += len(line)
            if size is not None and read > size:
                return
            yield self._record(line, t)

    def _record(self, line: bytes, t: int) -> RoundRecord:
        where = f"{self._path}, line {t + 1}"
        try:
            self._limits.require(line)
        except ValueError as error:
            raise InputError(f"{where}: {error}") from None
        record = validated(RoundRecord, line, where)
        if record["round"] != t:
            raise InputError(f"{where}: is round {record['round']}, must be round {t}")
        if record["device_energy"] is not None and len(record["device_energy"]) != len(record["cohort"]):
            raise InputError(f"{where}: device_energy does not fit the cohort")
        if max(record["cohort"], default=0) >= self._devices:
            raise InputError(f"{where}: cohort: must be devices from 0 to {self._devices - 1}")
        return record

    def _whole_lines(self) -> Iterator[bytes]:
        longest, count = self._limits.size, 0
        while line := self._file.readline(longest + 1):
            count += 1
            if len(line) > longest:
                raise InputError(f"{self._path}, line {count}: more than {longest} bytes")
            if line.endswith(b"\n"):
                yield line


@contextmanager
def opened(path: Path, config: Config) -> Iterator[Log]:
    """The log of a run with this config; an OSError where there is none, or where it is no regular file."""
    with reading(path) as file:
        yield Log(file, path, config)
