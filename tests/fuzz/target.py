"""What a fuzzed input is given to, and what it may not do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


class NonsenseError(Exception):
    """An input was accepted that means nothing, or something was touched that must not be."""


class NotAnInputError(Exception):
    """The bytes are none that could reach the reader; they do not count."""


def require(holds: object, what: str) -> None:
    """A NonsenseError unless it holds."""
    if not holds:
        raise NonsenseError(what)


@dataclass(frozen=True)
class Target:
    """A reader of foreign bytes. An input is one byte that says which part of a valid whole is replaced, and that part.

    `run` may raise errors for users, of one printable line; every other exception is a finding. A slow target has
    its turn only `every` so many inputs.
    """

    name: str
    corpus: Callable[[Path], Sequence[bytes]]
    run: Callable[[bytes, Path], None]
    every: int = 1


def part(index: int, content: bytes) -> bytes:
    """An input that replaces this part."""
    return bytes([index]) + content
