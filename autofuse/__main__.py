"""``python -m autofuse`` is ``autofuse``."""

import sys

from autofuse.cli import main

if __name__ == "__main__":
    sys.exit(main())
