"""Regular files, opened without following links: a directory from elsewhere may hold a link to a file of the user's, a
pipe that never ends, or a device."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, NoReturn

LINK = "a symbolic link; must be a regular file"
NOT_REGULAR = "not a file"
SHARED = "has a second name, a hard link; copy it, so that writing it changes no other file"
REASONS = {errno.ELOOP: LINK, errno.EMLINK: LINK, errno.EISDIR: NOT_REGULAR, errno.ENXIO: NOT_REGULAR}


def open_regular(path: Path, flags: int = os.O_RDONLY, *, mode: int = 0o666) -> int:
    """A descriptor of a regular file; an OSError that says why not for anything else.

    What is open is looked at, not its name, so that nothing can be exchanged in between. A file that is written in
    place must have one name only: a second one would be another user's file.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno not in REASONS:
            raise
        _refuse(error.errno, REASONS[error.errno], path)
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        os.close(descriptor)
        _refuse(errno.EINVAL, NOT_REGULAR, path)
    if flags & (os.O_WRONLY | os.O_RDWR) and about.st_nlink > 1:
        os.close(descriptor)
        _refuse(errno.EMLINK, SHARED, path)
    return descriptor


def reading(path: Path) -> BinaryIO:
    """A regular file, open for reading."""
    return open(open_regular(path), "rb")


def writing(path: Path, *, create: bool = False) -> BinaryIO:
    """A regular file, open to be changed in place."""
    return open(open_regular(path, os.O_RDWR | (os.O_CREAT if create else 0)), "r+b")


def read_bytes(path: Path, *, maximum: int) -> bytes:
    """The content of a regular file, or a ValueError if it has more than so many bytes."""
    with reading(path) as file:
        size = os.fstat(file.fileno()).st_size  # which some file systems do not say
        content = file.read(min(size, maximum) + 1)
        while len(content) <= maximum and (more := file.read(2**16)):
            content += more
    if len(content) > maximum:
        raise ValueError(f"more than {maximum} bytes")
    return content


def _refuse(number: int | None, reason: str, path: Path) -> NoReturn:
    raise OSError(number, reason, str(path)) from None
