"""The errors that end in one line for the user, and the did-you-mean of all messages.

Their messages may repeat what somebody else wrote: file names, keys, text out of files. Whatever that holds, a message
is one printable line.
"""

import difflib
from collections.abc import Iterable
from unicodedata import category

SHOWN = 100  # characters of foreign text that a message repeats: enough to recognise it


def one_line(text: object) -> str:
    r"""A text as one printable line: what a terminal would obey, or could not show, is escaped.

    >>> one_line("a\nb\x1b[31m")
    'a\\nb\\x1b[31m'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def visible(text: str) -> str:
    r"""A text for a page or a table: line ends and spaces stay, and what a terminal or a browser would obey, such as
    escape sequences and changes of the writing direction, is escaped.

    >>> visible("a\nb\x1b[31m\u202e")
    'a\nb\\x1b[31m\\u202e'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" or category(c) == "Zs" else one_line(c) for c in text)


def shown(text: object, *, maximum: int = SHOWN) -> str:
    """Foreign text for a message: one line, and of a long one the beginning alone.

    >>> shown("k" * 5000) == "k" * 100 + "… (5000 characters)"
    True
    """
    text = str(text)
    line = one_line(text[:maximum])
    return line if max(len(text), len(line)) <= maximum else f"{line[:maximum]}… ({len(text)} characters)"


def quoted(value: object) -> str:
    """A foreign value for a message, as Python writes it.

    >>> quoted("a"), quoted(16**4000)
    ("'a'", 'a number of thousands of digits')
    """
    try:
        return shown(repr(value))
    except ValueError:  # Python's limit on the digits of an integer
        return "a number of thousands of digits"
    except RecursionError:
        return "a deeply nested value"


class InputError(ValueError):
    """Something the user gave is wrong; the message says what, where, and what would be right (exit code 2)."""

    def __init__(self, message: object) -> None:
        super().__init__(one_line(message))


class RunError(RuntimeError):
    """A run had to stop for a reason outside its input, such as a full disk (exit code 1)."""

    def __init__(self, message: object) -> None:
        super().__init__(one_line(message))


class Stop(Exception):  # noqa: N818
    """Raised by the `progress` of a run: ends it after this round, with a result and a summary. The text says why.

    >>> import pfels
    >>> def progress(record):
    ...     if record["round"] == 1:
    ...         raise pfels.Stop("two rounds are enough")
    >>> pfels.run(pfels.load_config("demo", {"rounds": 9}), progress=progress).summary["stopped"]
    {'planned_rounds': 9, 'reason': 'two rounds are enough'}
    """


class GuardError(AssertionError):
    """A privacy or power limit was about to be broken; nothing was transmitted (exit code 1)."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A question that names the known word most like `word`, or the list of all where none is like it.

    >>> nearest("WFL_P", ["pfels", "wfl-p"]), nearest("sgd", ["pfels", "wfl-p"])
    ('; did you mean wfl-p?', '; known: pfels, wfl-p')
    """
    known = list(known)
    typed = word[:SHOWN].lower().replace("_", "-")
    begun = [each for each in known if len(typed) > 3 and each.startswith(typed)]
    match = begun or difflib.get_close_matches(typed, known, n=1, cutoff=0.65)
    return f"; did you mean {match[0]}?" if match else f"; known: {', '.join(known)}"
