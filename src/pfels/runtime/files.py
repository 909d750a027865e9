"""Atomic writes, JSON in and out, printable paths, writable folders."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pfels.errors import InputError


def writable_folder(path: Path) -> Path:
    """The folder, created if missing; an InputError, before any work is done, if that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); choose a writable --out") from None
    return path


PARTIAL = ".*.partial"  # left behind when a process is killed during a write


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object from disk, or None if there is no such file."""
    if not path.exists():
        return None
    try:
        if not path.is_file():
            raise ValueError("not a file")
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable as JSON ({error})") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: must hold a JSON object")
    return content


def write_atomically(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Replace a file by `content` atomically: readers see the old or the new content, even after a crash.

    `mode` limits its permissions, as the process's umask does.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


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


def printable(path: Path) -> str:
    """A path as valid Unicode, for a page or a message."""
    return os.fsencode(path).decode("utf-8", "replace")
