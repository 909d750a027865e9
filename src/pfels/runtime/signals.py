"""The signals that ask a process to end. The first is an interrupt; those behind it must not interrupt the saving."""

import signal
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt_once() -> None:
    """Turn the first signal into a KeyboardInterrupt and ignore all others, but leave alone what is ignored already.

    A job's whole process group may be told to stop, and its parent may tell each of its children once more: an
    interrupt in the middle of the last checkpoint would throw it away.
    """
    for each in SIGNALS:
        if signal.getsignal(each) is not signal.SIG_IGN:  # nohup, and the workers of a sweep, ignore some
            signal.signal(each, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt
