"""``python -m autofuse`` is ``autofuse``: it imports nothing else from the current folder."""

import sys
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":
    # Python looks into the current folder first for a module that it is asked to run.
    with suppress(OSError):
        if sys.path and sys.path[0] in ("", str(Path.cwd())):
            del sys.path[0]

    from autofuse.cli import main

    sys.exit(main())
