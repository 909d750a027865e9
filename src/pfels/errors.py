"""The errors that end in one line for the user, and the did-you-mean of all messages."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Something the user gave is wrong; the message says what, where, and what would be right (exit code 2)."""


class RunError(RuntimeError):
    """A run had to stop for a reason outside its input, such as a full disk (exit code 1)."""


class GuardError(AssertionError):
    """A privacy or power limit was about to be broken; nothing was transmitted (exit code 1)."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A question that names the known word most like `word`, or the list of all where none is like it."""
    known = list(known)
    match = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {match[0]}?" if match else f"; known: {', '.join(known)}"
