"""Time autofuse from a parsed graph to the text of all files; started by ``peers.py``.

Standard input: an object with ``graph``, a graph document, and ``repeat``.  Standard output as JSON: the times.
"""

from __future__ import annotations

import json
import sys
import time

from autofuse import __version__
from autofuse.api import build, read


def main() -> int:
    """Measure one graph."""
    asked = json.load(sys.stdin)
    graph = read(asked["graph"])
    times = []
    for _ in range(asked["repeat"] + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        build(graph)
        times.append([time.perf_counter() - wall, time.process_time() - cpu])
    print(json.dumps({"version": f"autofuse {__version__}", "times_s": times}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
