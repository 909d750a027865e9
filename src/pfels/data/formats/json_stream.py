"""A JSON text read one value at a time: memory holds only the value being read."""

import json
import re
from collections.abc import Iterator
from typing import Any, TextIO

from pfels.errors import InputError, shown

CHUNK = 2**20
NEAR = 4096  # an error this close to the end of the buffer may only mean that more text is needed
MAXIMUM_VALUE = 2**24  # characters of one value; all images of a LEAF writer have 8 million at most
_SPACE = re.compile(r"[ \t\n\r]*")
_CONTINUES_NUMBER = ("", *"+-.eE0123456789")


class JsonStream:
    """A cursor over a JSON text."""

    def __init__(self, file: TextIO, *, name: str) -> None:
        self._file, self._name = file, name
        self._text, self._at, self._ended = "", 0, False
        self._decoder = json.JSONDecoder()

    def members(self) -> Iterator[str]:
        """The keys of the object that begins here; the caller must read each value before requesting the next key."""
        self._expect("{")
        if self._next() == "}":
            self._at += 1
            return
        while True:
            key = self.value()
            if not isinstance(key, str):
                raise self._broken(f"a key must be text, not {shown(key)}")
            self._expect(":")
            yield key
            if self._next() == "}":
                self._at += 1
                return
            self._expect(",")

    def value(self) -> Any:
        """The complete value that begins here."""
        while True:
            self._next()
            try:
                found, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._ended or error.pos < len(self._text) - NEAR:
                    raise self._broken(error.msg) from None
            except RecursionError:
                raise self._broken("nested too deeply") from None
            except ValueError:  # Python's own limit
                raise self._broken("a number of thousands of digits") from None
            else:
                # A number near the end of the buffer may continue: 1, then 1.5, then 1.5e-3.
                unsure = self._text[end : end + 1] in _CONTINUES_NUMBER and end > len(self._text) - NEAR
                if self._ended or not unsure:
                    self._at = end
                    return found
            if len(self._text) - self._at > MAXIMUM_VALUE:
                raise self._broken(f"a value of more than {MAXIMUM_VALUE} characters")
            self._read()

    def _next(self) -> str:
        """Move the cursor to the next character that is not white space, and return it."""
        while True:
            found = _SPACE.match(self._text, self._at)
            assert found is not None  # it matches nothing, too
            self._at = found.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                raise self._broken("unexpected end")
            self._read()

    def _expect(self, mark: str) -> None:
        if self._next() != mark:
            raise self._broken(f"{mark!r} expected, not {self._text[self._at]!r}")
        self._at += 1

    def _read(self) -> None:
        """Drop the text before the cursor and double the rest, so that the cost of a value is linear in its length."""
        try:
            more = self._file.read(max(CHUNK, len(self._text) - self._at))
        except UnicodeDecodeError as error:
            raise self._broken(str(error)) from None
        self._text, self._at = self._text[self._at :] + more, 0
        self._ended = not more

    def _broken(self, why: str) -> InputError:
        return InputError(f"{self._name}: not complete JSON ({shown(why)})")
