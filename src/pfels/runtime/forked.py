"""A copy of this process as it is now, which answers questions and learns nothing else that happens here."""

import os
import signal
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

from pfels.errors import RunError

Q = TypeVar("Q")
A = TypeVar("A")
_STOP = "stop"


class Forked(Generic[Q, A]):
    """A child process that calls `answer` for each question, in order. It ends with this process, or by `close`.

    It is forked rather than started anew, so that it knows what was registered here. Of this process's threads it has
    the calling one alone, so `answer` must do its work in one.
    """

    def __init__(self, answer: Callable[[Q], A]) -> None:
        self._pipe, other = Pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that other threads are not copied
            self.pid = os.fork()
        if self.pid == 0:
            try:
                self._pipe.close()  # so that the pipe ends with the parent
                _serve(answer, other)
            finally:
                os._exit(0)  # nothing that this process has begun is for the copy to end
        other.close()

    def ask(self, question: Q) -> None:
        """Put a question; `answer` waits for what it says to it."""
        try:
            self._pipe.send(question)
        except OSError:
            raise RunError(_ENDED) from None

    def answer(self) -> A:
        """The answer to the last question."""
        try:
            found: A = self._pipe.recv()
        except (EOFError, OSError):
            raise RunError(_ENDED) from None
        return found

    def close(self) -> None:
        """End the process."""
        with suppress(OSError):  # it has ended already
            self._pipe.send(_STOP)  # a later copy holds this pipe too, so closing it would not be noticed
        self._pipe.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


_ENDED = "a process that was to repeat the server's part has ended; is there enough memory?"


def _serve(answer: Callable[[Q], A], pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        try:
            question = pipe.recv()
        except (EOFError, OSError):
            return
        if isinstance(question, str) and question == _STOP:
            return
        pipe.send(answer(question))
