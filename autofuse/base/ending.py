"""Clean exit of autofuse's own processes on a signal: they remove temporary files and child processes first."""

from __future__ import annotations

import signal
from types import FrameType

__all__ = ["EndedError", "end_cleanly"]


class EndedError(BaseException):
    """A signal other than SIGINT asked the process to end.

    Not a KeyboardInterrupt, because command-line libraries turn that into an exit status of their own.

    Attributes:
        number: the signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def end_cleanly() -> None:
    """Let SIGTERM and SIGHUP end this process by an exception, as Ctrl-C does.

    Without it no Python code runs on these signals, so temporary folders and child processes would stay. A signal that
    is ignored (``nohup``) or already has a handler keeps it. Programs that import autofuse are not affected.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    # Only once: a second signal ends the process at once.
    signal.signal(number, signal.SIG_DFL)
    raise EndedError(number)
