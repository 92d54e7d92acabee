"""The start of ``autofuse`` and ``python -m autofuse``; the latter imports nothing else from the current folder."""

import signal
import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["main"]


def main() -> int:
    """Run the command line; returns the exit code.

    Until it is imported, the keyboard ends the process as it ends any program, and not with a traceback.
    """
    quiet = signal.getsignal(signal.SIGINT) == signal.default_int_handler
    if quiet:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from autofuse import cli

    if quiet:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main()


if __name__ == "__main__":
    # Python looks into the current folder first for a module that it is asked to run.
    with suppress(OSError):
        if sys.path and sys.path[0] in ("", str(Path.cwd())):
            del sys.path[0]
    sys.exit(main())
