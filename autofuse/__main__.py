"""Entry point of ``autofuse`` and ``python -m autofuse``; the latter imports nothing else from the current folder."""

import signal
import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["main"]


def main() -> int:
    """Run the command line and return the exit code.

    Until the command line is imported, Ctrl-C ends the process without a traceback.
    """
    quiet = signal.getsignal(signal.SIGINT) == signal.default_int_handler
    if quiet:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from autofuse import cli

    if quiet:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main()


if __name__ == "__main__":
    # ``python -m`` searches the current folder first.
    with suppress(OSError):
        if sys.path and sys.path[0] in ("", str(Path.cwd())):
            del sys.path[0]
    sys.exit(main())
