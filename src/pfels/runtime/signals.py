"""Signals that end a process: the first one interrupts, later ones are ignored while the state is saved."""

import signal
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt_once() -> None:
    """Turn the first signal into a KeyboardInterrupt and ignore later ones; signals already ignored stay ignored.

    A process may be signalled twice, with its process group and by its parent: a second interrupt while the last
    checkpoint is written would lose it.
    """
    for each in SIGNALS:
        if signal.getsignal(each) is not signal.SIG_IGN:  # nohup, and the workers of a sweep, ignore some
            signal.signal(each, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt
