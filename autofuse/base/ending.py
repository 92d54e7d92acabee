"""Clean end of autofuse's own processes on a signal: they first clean up what they began."""

from __future__ import annotations

import signal
from types import FrameType

__all__ = ["EndedError", "end_cleanly"]


class EndedError(BaseException):
    """The process was asked to end by a signal other than that of the keyboard.

    No KeyboardInterrupt: libraries of the command line make an exit status of their own of that one.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def end_cleanly() -> None:
    """Let SIGTERM and SIGHUP end this process as the keyboard does, by an exception.

    Without it nothing of Python runs any more: temporary folders stay, and so do processes that were started. A signal
    that is ignored (``nohup``) or has a handler already keeps it. Programs that import autofuse are left as they are.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    # Once: another one ends the process where it is.
    signal.signal(number, signal.SIG_DFL)
    raise EndedError(number)
